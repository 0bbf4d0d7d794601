//! The outbox: result callbacks stored with the transition that caused them.

use crate::TaskId;
use crate::time::Time;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryState {
    /// Due at the given instant.
    Pending { due: Time },
    /// Out of attempts since then; kept for inspection and redelivery.
    Failed { at: Time },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// 32 lower-case hex digits on the wire.
    pub id: u128,
    pub task_id: TaskId,
    pub tenant: Arc<str>,
    pub url: Arc<str>,
    /// The same bytes on every attempt.
    pub body: Arc<str>,
    pub state: DeliveryState,
    pub attempts: u32,
    pub last_error: Option<Arc<str>>,
    pub created_at: Time,
}

/// How one attempt to deliver ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeliveryReport {
    Delivered,
    Retry { due: Time, error: String },
    Failed { error: String },
}
