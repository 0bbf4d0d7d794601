//! What the processes over this keyspace share besides tasks, handed to the part that knows it.

use crate::kvrocks::store::StoreContext;
use codeq_queue::shared::{Bucket, Hearer, Lot};
use codeq_queue::store::Answer;
use codeq_queue::subscription::Subscription;
use codeq_queue::{QueueKey, Shared};
use std::sync::Arc;

impl Shared for StoreContext {
    fn take_token(&self, bucket: Bucket) -> Answer<Result<(), u64>> {
        Box::pin(StoreContext::take_token(self.me(), bucket))
    }

    fn choose(&self, queue: QueueKey, lots: Vec<Lot>) -> Answer<Vec<Arc<Subscription>>> {
        Box::pin(StoreContext::choose(self.me(), queue, lots))
    }

    fn announce(&self) -> Answer<()> {
        let teller = self.teller.clone();
        Box::pin(async move { teller.publisher.publish(teller.presence.announcement()).await })
    }

    fn is_heard(&self) -> bool {
        self.teller.presence.is_heard()
    }

    fn send_event(&self, event: String) {
        self.teller.publisher.event(&event);
    }

    fn hear_events(&self, hearer: Hearer) {
        self.teller.presence.hear(hearer);
    }
}
