//! What processes over one keyspace have in common besides tasks.
//!
//! Best effort: nothing here decides what becomes of a task, and whoever cannot ask goes on without an answer.

use crate::store::Answer;

/// The bucket of one caller in one scope.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bucket {
    pub scope: &'static str,
    /// A hash that stands for the caller.
    pub caller: [u8; 32],
    pub per_second: f64,
    pub capacity: u32,
}

/// See [`crate::Store::shared`].
pub trait Shared: Send + Sync {
    /// Takes one request out of a bucket that all processes take from, or tells in how many seconds there
    /// will be one.
    fn take_token(&self, bucket: Bucket) -> Answer<Result<(), u64>>;
}
