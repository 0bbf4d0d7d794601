//! What storage promises about batches.

use super::Batch;
use crate::id::TaskId;
use crate::refusal::Refusal;
use crate::store::Answer;
use std::sync::Arc;
use std::time::Duration;

/// A batch to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewBatch {
    /// Only tasks of this tenant may join.
    pub tenant: Arc<str>,
    /// For people to read: nothing is looked up by it.
    pub name: Option<Box<str>>,
    /// The batch closes when nobody has joined for this long.
    pub close_after: Duration,
}

/// A store that keeps batches. A batch of another tenant behaves like an unknown one.
pub trait Batches: Send + Sync {
    /// Makes an open batch without members. Refuses when the tenant has too many.
    fn create_batch(&self, new: NewBatch) -> Answer<Result<Batch, Refusal>>;
    /// With the counts of everything that was acknowledged before.
    fn batch(&self, tenant: Arc<str>, id: TaskId) -> Answer<Option<Batch>>;
    /// No task joins after the answer. Closing what is closed changes nothing.
    fn close_batch(&self, tenant: Arc<str>, id: TaskId) -> Answer<Result<Batch, Refusal>>;
    /// Closes it and ends all members that live as cancelled, some of them after the answer. Nothing happens to one that
    /// has ended.
    fn cancel_batch(&self, tenant: Arc<str>, id: TaskId) -> Answer<Result<Batch, Refusal>>;
}
