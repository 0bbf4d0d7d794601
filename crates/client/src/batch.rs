//! Batches: tasks that end together.

use crate::time::whole_seconds;
use crate::{Error, NewTask, http};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;

/// A batch to open. Tasks join it with [`NewTask::batch`] until it is closed.
///
/// ```
/// use codeq_client::{NewBatch, NewTask};
///
/// let batch = NewBatch::new("import").then(NewTask::new("report", &["import"]));
/// ```
#[derive(Clone, Default, Debug)]
pub struct NewBatch {
    name: Option<String>,
    close_after: Option<Duration>,
    then: Vec<NewTask>,
    runs_after_failure: bool,
}

impl NewBatch {
    /// A batch that people know by this name; at most 128 bytes.
    pub fn new(name: impl Into<String>) -> NewBatch {
        NewBatch { name: Some(name.into()), ..NewBatch::default() }
    }

    /// An open batch that nobody joins closes itself after this time (default: a day).
    pub fn close_after(mut self, time: Duration) -> NewBatch {
        self.close_after = Some(time);
        self
    }

    /// A task that runs when the batch has ended; at most 10.
    pub fn then(mut self, task: NewTask) -> NewBatch {
        self.then.push(task);
        self
    }

    /// Lets these tasks run also when a member did not complete; otherwise they are cancelled then.
    pub fn then_even_after_failure(mut self) -> NewBatch {
        self.runs_after_failure = true;
        self
    }

    /// A repeated create would make these tasks twice.
    pub(crate) fn is_safe_to_repeat(&self) -> bool {
        self.then.is_empty()
    }

    pub(crate) fn body(&self) -> Result<String, Error> {
        let raw =
            |task: &NewTask| RawValue::from_string(task.body()?).map_err(|e| Error::Json(e.to_string()));
        let then = self.then.iter().map(raw).collect::<Result<Vec<_>, Error>>()?;
        http::json(&BatchBody {
            name: self.name.as_deref(),
            close_after_seconds: self.close_after.map(|time| whole_seconds(time).max(1)),
            then,
            on_failure: self.runs_after_failure.then_some("run"),
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    close_after_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    then: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_failure: Option<&'static str>,
}

/// A batch as the server shows it.
#[derive(Deserialize, Clone, PartialEq, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Batch {
    /// For [`NewTask::batch`] and [`NewTask::after`].
    pub id: String,
    /// Empty if it has none.
    pub name: String,
    /// `open`, `closed`, `completed` or `failed`.
    pub state: String,
    /// 0 to 1.
    pub progress: f64,
    /// How its members stand.
    pub counts: BatchCounts,
    /// Ids of the tasks that run then; only in the answer to the call that made them.
    pub then: Vec<String>,
}

/// How many members a batch has.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(default)]
#[non_exhaustive]
pub struct BatchCounts {
    /// Members that have not ended.
    pub live: u64,
    /// Members that completed.
    pub completed: u64,
    /// Members that ended in any other way.
    pub failed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_says_what_comes_after_it() {
        let batch = NewBatch::new("import").then(NewTask::raw("report", "1")).then_even_after_failure();
        let body =
            r#"{"name":"import","then":[{"command":"report","payload":1,"priority":0}],"onFailure":"run"}"#;
        assert_eq!(batch.body().unwrap(), body);
        assert!(!batch.is_safe_to_repeat() && NewBatch::default().is_safe_to_repeat());
        assert_eq!(NewBatch::default().body().unwrap(), "{}");
        let text = r#"{"id":"b","state":"open","counts":{"live":1,"completed":0,"failed":0},"progress":0,"then":["t"]}"#;
        let made: Batch = serde_json::from_str(text).unwrap();
        assert_eq!((&*made.id, made.counts.live, &*made.then), ("b", 1, &["t".to_owned()][..]));
    }
}
