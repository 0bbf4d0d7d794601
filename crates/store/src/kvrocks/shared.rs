//! What the processes over this keyspace share besides tasks, handed to the part that knows it.

use super::store::Keeper;
use codeq_queue::shared::{Bucket, Lot};
use codeq_queue::store::Answer;
use codeq_queue::subscription::Subscription;
use codeq_queue::{QueueKey, Shared};
use std::sync::Arc;

impl Shared for Keeper {
    fn take_token(&self, bucket: Bucket) -> Answer<Result<(), u64>> {
        Box::pin(Keeper::take_token(self.me(), bucket))
    }

    fn choose(&self, queue: QueueKey, lots: Vec<Lot>) -> Answer<Vec<Arc<Subscription>>> {
        Box::pin(Keeper::choose(self.me(), queue, lots))
    }
}
