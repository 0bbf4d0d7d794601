//! Keys that one living task has at a time.

use crate::time::whole_seconds;
use codeq_api::grpc::producer as pb;
use codeq_api::task::{UniqueBody, UniqueUntil};
use std::time::Duration;

/// Of all tasks of a command with one key, one lives at a time. A create that finds the key taken gets its holder,
/// and `deduplicated` says so.
///
/// ```
/// use codeq_client::{NewTask, Unique};
/// use std::time::Duration;
///
/// // Runs 10 s after the last change, a minute after the first one at the latest.
/// let index = NewTask::new("index", &["page-7"])
///     .delay(Duration::from_secs(10))
///     .unique(Unique::new("page-7").replace().max_wait(Duration::from_secs(60)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unique(UniqueBody);

impl Unique {
    /// Held until the task ends; a later create keeps the holder.
    pub fn new(key: impl Into<String>) -> Unique {
        Unique(UniqueBody { key: key.into(), ..UniqueBody::default() })
    }

    /// The key is free again as soon as the task was claimed.
    pub fn until_started(mut self) -> Unique {
        self.0.until = Some(UniqueUntil::Word("started".to_owned()));
        self
    }

    /// The key is taken for this long from the create on, whatever becomes of the task.
    pub fn lasting(mut self, time: Duration) -> Unique {
        self.0.until = Some(UniqueUntil::Seconds(whole_seconds(time)));
        self
    }

    /// A holder that was not claimed yet takes the new payload, headers and time.
    pub fn replace(mut self) -> Unique {
        self.0.on_conflict = Some("replace".to_owned());
        self
    }

    /// The holder is cancelled and a new task made.
    pub fn cancel(mut self) -> Unique {
        self.0.on_conflict = Some("cancel".to_owned());
        self
    }

    /// How far replacing creates may push the time of the holder.
    pub fn max_wait(mut self, time: Duration) -> Unique {
        self.0.max_wait_seconds = Some(whole_seconds(time));
        self
    }

    pub(crate) fn body(&self) -> UniqueBody {
        self.0.clone()
    }

    pub(crate) fn message(&self) -> pb::Unique {
        let UniqueBody { key, until, on_conflict, max_wait_seconds } = self.0.clone();
        let (until, until_seconds) = match until {
            Some(UniqueUntil::Word(word)) => (word, 0),
            Some(UniqueUntil::Seconds(seconds)) => (String::new(), seconds),
            None => (String::new(), 0),
        };
        pb::Unique {
            key,
            until,
            until_seconds,
            on_conflict: on_conflict.unwrap_or_default(),
            max_wait_seconds: max_wait_seconds.unwrap_or_default(),
        }
    }
}
