//! The outbox: result callbacks stored with the transition that caused them.

use crate::TaskId;
use crate::limits;
use crate::time::Time;
use std::sync::Arc;

/// Whether a callback is to be sent, or was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryState {
    /// Due at the given instant.
    Pending { due: Time },
    /// Out of attempts since then; kept for inspection and redelivery.
    Failed { at: Time },
}

/// A result callback on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// 32 lower-case hex digits on the wire.
    pub id: u128,
    pub task_id: TaskId,
    pub tenant: Arc<str>,
    pub url: Arc<str>,
    /// The same bytes on every attempt. Empty where a large body does not come along: it is asked for alone.
    pub body: Arc<str>,
    pub state: DeliveryState,
    pub attempts: u32,
    pub last_error: Option<Arc<str>>,
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
    Delivered,
    Retry { due: Time, error: String },
    Failed { error: String },
}
