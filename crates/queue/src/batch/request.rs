//! What a producer asks for when it makes a batch.

use super::NewBatch;
use crate::dependency::OnFailure;
use crate::limits;
use crate::refusal::Refusal;
use std::sync::Arc;
use std::time::Duration;

/// A batch as a producer asked for it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct BatchRequest {
    /// At most 128 bytes, no control characters; blank is none.
    pub name: Option<String>,
    /// 1 to 31,622,400; `None` is a day.
    pub close_after_seconds: Option<i64>,
    /// What becomes of the tasks that follow when the batch fails: `run` or `skip`.
    pub on_failure: Option<String>,
}

impl BatchRequest {
    /// The batch, and what becomes of the tasks after it when it fails.
    pub fn check(self, tenant: &Arc<str>) -> Result<(NewBatch, OnFailure), Refusal> {
        let name = check_name(self.name.as_deref())?;
        let close_after = check_close_after(self.close_after_seconds)?;
        let on_failure = match self.on_failure.as_deref().unwrap_or_default() {
            "" | "skip" => OnFailure::Cancel,
            "run" => OnFailure::Run,
            _ => return Err(invalid("onFailure", "must be run or skip")),
        };
        Ok((NewBatch { tenant: tenant.clone(), name, close_after }, on_failure))
    }
}

fn invalid(field: &'static str, message: &'static str) -> Refusal {
    Refusal::InvalidBatch { field, message }
}

fn check_name(name: Option<&str>) -> Result<Option<Box<str>>, Refusal> {
    let Some(name) = name.filter(|name| !name.trim().is_empty()) else { return Ok(None) };
    match name.len() <= limits::BATCH_NAME_BYTES && !name.chars().any(char::is_control) {
        true => Ok(Some(name.into())),
        false => Err(invalid("name", "at most 128 bytes, no control characters")),
    }
}

/// After how long without another member a batch closes; a day if nothing is said.
pub fn check_close_after(seconds: Option<i64>) -> Result<Duration, Refusal> {
    let Some(seconds) = seconds else { return Ok(limits::BATCH_CLOSE_AFTER) };
    let asked = u64::try_from(seconds).map(Duration::from_secs).ok();
    let asked = asked.filter(|asked| (Duration::from_secs(1)..=limits::DELAY).contains(asked));
    asked.ok_or(invalid("closeAfterSeconds", "must be between 1 and 31622400"))
}
