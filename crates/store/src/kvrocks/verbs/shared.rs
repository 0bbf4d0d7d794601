//! What the processes over this keyspace share besides tasks, handed to the part that knows it.

use crate::kvrocks::store::StoreContext;
use codeq_queue::shared::{Bucket, Hearer, Lot, NoticeHearer};
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

    fn send_notice(&self, notice: String) {
        self.teller.publisher.notice(&self.teller.presence.notice(&notice));
    }

    fn hear_notices(&self, hearer: NoticeHearer) {
        self.teller.presence.hear_notices(hearer);
    }

    fn keep_sightings(&self, text: String) -> Answer<()> {
        Box::pin(StoreContext::keep_sightings(self.me(), text))
    }

    fn sightings(&self) -> Answer<Vec<String>> {
        Box::pin(StoreContext::sightings(self.me()))
    }
}
