//! The outbox: result callbacks stored with the transition that caused them.

use crate::TaskId;
use crate::limits;
use crate::time::Time;
use std::sync::Arc;

/// Whether a callback is to be sent, or was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryState {
    /// To be sent.
    Pending {
        /// When the next attempt is made.
        due: Time,
    },
    /// Out of attempts; kept for inspection and redelivery.
    Failed {
        /// When the last attempt failed.
        at: Time,
    },
}

/// A result callback on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// 32 lower-case hex digits on the wire.
    pub id: u128,
    /// The task whose end it tells.
    pub task_id: TaskId,
    /// The tenant of the task.
    pub tenant: Arc<str>,
    /// The webhook of the task.
    pub url: Arc<str>,
    /// The same bytes on every attempt. Empty where a large body does not come along: it is asked for alone.
    pub body: Arc<str>,
    /// Whether it is still to be sent.
    pub state: DeliveryState,
    /// Counted from its creation, or from an operator's redelivery.
    pub attempts: u32,
    /// Why the last attempt failed; `None` before the first.
    pub last_error: Option<Arc<str>>,
    /// When the task ended.
    pub created_at: Time,
}

impl Delivery {
    /// Whether the body came along.
    pub fn has_body(&self) -> bool {
        !self.body.is_empty()
    }

    /// The same without a body that is too large to come along.
    pub fn light(self) -> Delivery {
        match self.body.len() > limits::CALLBACK_BYTES_ALONG {
            true => self.without_body(),
            false => self,
        }
    }

    /// The same without its text, which may be large.
    pub fn without_body(self) -> Delivery {
        Delivery { body: "".into(), ..self }
    }
}

/// How one attempt to deliver ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeliveryReport {
    /// The receiver took it; it leaves the outbox.
    Delivered,
    /// It is tried again.
    Retry {
        /// When.
        due: Time,
        /// Why this attempt failed.
        error: String,
    },
    /// This was the last attempt.
    Failed {
        /// Why it failed.
        error: String,
    },
}
