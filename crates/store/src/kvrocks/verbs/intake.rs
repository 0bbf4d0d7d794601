//! What a script is told of the tasks that it takes in.

use crate::kvrocks::format::asked;
use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::format::record::{self, RecordExtras};
use crate::kvrocks::redis::script::Call;
use crate::kvrocks::verbs::create::seconds;
use codeq_queue::{QueueKey, State, Task};
use std::time::Duration;

/// Where tasks are taken in.
pub struct Intake<'a> {
    pub keys: &'a Keys,
    pub queue: &'a QueueKey,
    pub retention: Duration,
    /// What stands behind the names of queues of the default shard.
    pub home: &'a str,
    /// Whether tasks are not made unless their unique keys are taken.
    pub only: bool,
}

impl Intake<'_> {
    /// Appends what `intake.lua` reads.
    pub fn append<'a>(&self, call: Call, tasks: impl Iterator<Item = (&'a Task, RecordExtras<'a>)>) -> Call {
        let Intake { keys, queue, .. } = self;
        let mut call = call.arg(&*queue.tenant).arg(record::tenant_text(&queue.tenant)).arg(&*queue.command);
        for (task, beside) in tasks {
            let key = task.body.idempotency_key.as_deref();
            let own = key.map(|key| keys.idempotency(queue, key)).unwrap_or_default();
            let legacy = key.and_then(|key| keys.legacy_idempotency(key)).unwrap_or_default();
            let visible = match task.state {
                State::Delayed { until } => Some(until),
                _ => None,
            };
            let checked_at = visible.unwrap_or(task.created_at).plus(self.retention);
            call = call
                .arg(task.id.to_string())
                .arg(record::text_of(task, beside))
                .number(task.priority)
                .arg(visible.map(seconds).unwrap_or_default())
                .arg(seconds(checked_at))
                .number(task.created_at.millis())
                .arg(own)
                .arg(legacy)
                .arg(asked::options_text(task, queue, self.home, self.only));
        }
        call
    }
}

/// For tasks that end no others: nothing of what they need is read.
pub fn without_endings(call: Call) -> Call {
    (0..6).fold(call, |call, _| call.arg(""))
}
