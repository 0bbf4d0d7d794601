//! Schedules as a producer asks for them.

use crate::time::rfc3339;
use crate::{Error, NewTask, http};
use codeq_api::schedule::{ScheduleBody, ScheduleView};
use serde_json::value::RawValue;
use std::time::{Duration, SystemTime};

/// A schedule as the server shows it.
pub type Schedule = ScheduleView<'static>;
/// Work that the server does in the background.
pub type Operation = codeq_api::admin::OperationBody;

/// A schedule to be put.
///
/// ```
/// use codeq_client::{NewSchedule, NewTask};
///
/// let nightly = NewSchedule::cron("30 2 * * *", NewTask::new("report", &["daily"]))
///     .timezone("Europe/Berlin")
///     .catch_up("one");
/// ```
#[derive(Clone, Debug)]
pub struct NewSchedule {
    task: NewTask,
    fields: ScheduleBody<'static>,
}

impl NewSchedule {
    /// Ticks by a cron expression.
    pub fn cron(cron: impl Into<String>, task: NewTask) -> NewSchedule {
        NewSchedule { task, fields: ScheduleBody { cron: Some(cron.into()), ..ScheduleBody::default() } }
    }

    /// Ticks in an interval of whole seconds.
    pub fn every(interval: Duration, task: NewTask) -> NewSchedule {
        let every_seconds = Some(i64::try_from(interval.as_secs()).unwrap_or(i64::MAX));
        NewSchedule { task, fields: ScheduleBody { every_seconds, ..ScheduleBody::default() } }
    }

    /// An instant at which the interval ticks.
    pub fn anchor(mut self, at: SystemTime) -> NewSchedule {
        self.fields.anchor = Some(rfc3339(at));
        self
    }

    /// An IANA name (default: UTC).
    pub fn timezone(mut self, name: impl Into<String>) -> NewSchedule {
        self.fields.timezone = Some(name.into());
        self
    }

    /// `skip`, `allow` or `cancel`: what happens while the task of the last tick lives.
    pub fn overlap(mut self, word: impl Into<String>) -> NewSchedule {
        self.fields.overlap = Some(word.into());
        self
    }

    /// `none`, `one` or `all`: what is done about ticks that came while no server ran.
    pub fn catch_up(mut self, word: impl Into<String>) -> NewSchedule {
        self.fields.catch_up = Some(word.into());
        self
    }

    /// How far back ticks are caught up with.
    pub fn catch_up_window(mut self, window: Duration) -> NewSchedule {
        self.fields.catch_up_window_seconds = Some(i64::try_from(window.as_secs()).unwrap_or(i64::MAX));
        self
    }

    /// Each task waits up to this long, by its name and tick.
    pub fn jitter(mut self, jitter: Duration) -> NewSchedule {
        self.fields.jitter_seconds = Some(i64::try_from(jitter.as_secs()).unwrap_or(i64::MAX));
        self
    }

    /// No tick before this.
    pub fn start_at(mut self, at: SystemTime) -> NewSchedule {
        self.fields.start_at = Some(rfc3339(at));
        self
    }

    /// No tick at or after this.
    pub fn end_at(mut self, at: SystemTime) -> NewSchedule {
        self.fields.end_at = Some(rfc3339(at));
        self
    }

    /// Puts it without letting it tick: it has to be resumed.
    pub fn paused(mut self) -> NewSchedule {
        self.fields.paused = Some(true);
        self
    }

    pub(crate) fn body(&self) -> Result<String, Error> {
        let task = self.task.body()?;
        let task: &RawValue = serde_json::from_str(&task).map_err(|error| Error::Json(error.to_string()))?;
        http::json(&ScheduleBody { task: Some(task), ..self.fields.clone() })
    }
}
