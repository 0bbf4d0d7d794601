//! What the processes over this keyspace share besides tasks, handed to the part that knows it.

use super::store::Keeper;
use codeq_queue::Shared;
use codeq_queue::shared::Bucket;
use codeq_queue::store::Answer;

impl Shared for Keeper {
    fn take_token(&self, bucket: Bucket) -> Answer<Result<(), u64>> {
        Box::pin(Keeper::take_token(self.me(), bucket))
    }
}
