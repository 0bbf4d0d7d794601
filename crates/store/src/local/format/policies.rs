//! Queue policies over the shards, and their rows: the policy of a queue, and how far limits are used up.

use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::Lane;
use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::records::{POLICY, USAGE, idem_key};
use crate::local::shard::Usage;
use crate::local::store::LocalStore;
use crate::local::store::by_id::ask_about;
use crate::local::store::routes::each_shard;
use codeq_queue::policy::{LaneStats, Obstacle};
use codeq_queue::rate::RateState;
use codeq_queue::store::{Answer, TaskRef};
use codeq_queue::{Policies, QueueKey, QueuePolicy, Refusal, StoredPolicy, Time};
use std::sync::Arc;

pub fn policy_key(queue: &QueueKey) -> Vec<u8> {
    [&[POLICY], &*idem_key(queue, "")].concat()
}

/// The queue that a row of its own is about: its policy, its failures.
pub fn read_policy_key(key: &[u8]) -> Option<QueueKey> {
    let (queue, rest) = read_queue(key.get(1..)?)?;
    rest.is_empty().then_some(queue)
}

fn read_queue(bytes: &[u8]) -> Option<(QueueKey, &str)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (tenant, rest) = text.split_once('\0')?;
    let (command, rest) = rest.split_once('\0')?;
    Some((QueueKey { tenant: tenant.into(), command: command.into() }, rest))
}

pub fn write_policy(stored: &StoredPolicy) -> Vec<u8> {
    let mut bytes = Vec::new();
    let w = &mut Writer(&mut bytes);
    w.number(stored.version);
    w.time(stored.updated_at);
    w.text(&stored.text);
    bytes
}

pub fn read_policy(bytes: &[u8]) -> Result<StoredPolicy, Corrupt> {
    let r = &mut Reader(bytes);
    let (version, updated_at) = (r.number()?, r.time()?);
    let text: Arc<str> = r.text()?.into();
    let policy = QueuePolicy::parse(&text).map_err(|_| Corrupt("a policy that is none"))?;
    Ok(StoredPolicy { policy: Arc::new(policy), text, version, updated_at })
}

/// Stands for the tasks without a lane; no lane has such a character.
const NO_LANE: &str = "\u{1}";

/// Names a queue, or one of its lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageKey {
    pub queue: QueueKey,
    pub lane: Option<Box<str>>,
}

impl UsageKey {
    pub fn write(&self) -> Vec<u8> {
        let lane = match self.lane.as_deref() {
            None => "",
            Some("") => NO_LANE,
            Some(lane) => lane,
        };
        [&[USAGE], &*idem_key(&self.queue, lane)].concat()
    }

    pub fn read(key: &[u8]) -> Option<UsageKey> {
        let (queue, lane) = read_queue(key.get(1..)?)?;
        let lane = match lane {
            "" => None,
            NO_LANE => Some(Box::default()),
            lane => Some(lane.into()),
        };
        Some(UsageKey { queue, lane })
    }
}

pub fn write_usage(usage: &Usage) -> Vec<u8> {
    let mut bytes = Vec::new();
    let w = &mut Writer(&mut bytes);
    w.fixed(usage.rate.nanos().cast_unsigned());
    w.time(usage.hold);
    bytes
}

pub fn read_usage(bytes: &[u8]) -> Result<Usage, Corrupt> {
    let r = &mut Reader(bytes);
    let rate = RateState::from_nanos(r.fixed()?.cast_signed());
    Ok(Usage { rate, hold: Time::max(r.time()?, Time::ZERO), is_stored: false })
}

impl Policies for LocalStore {
    fn put_policy(&self, queue: QueueKey, text: Arc<str>) -> Answer<Result<StoredPolicy, Refusal>> {
        self.on_queue(&queue.clone(), move |turn, reply| turn.put_policy(&queue, &text, reply))
    }

    fn policy(&self, queue: QueueKey) -> Answer<Option<StoredPolicy>> {
        self.on_queue(&queue.clone(), move |turn, reply| turn.policy(&queue, reply))
    }

    fn delete_policy(&self, queue: QueueKey) -> Answer<Result<bool, Refusal>> {
        self.on_queue(&queue.clone(), move |turn, reply| turn.delete_policy(&queue, reply))
    }

    fn policies(&self) -> Answer<Vec<(QueueKey, StoredPolicy)>> {
        let shards = self.shards().clone();
        Box::pin(async move {
            let ask = |shard: Arc<ShardHandle>| -> Answer<Vec<(QueueKey, StoredPolicy)>> {
                Box::pin(async move { shard.ask(Lane::Read, |turn, reply| turn.policies(reply)).await })
            };
            Ok(each_shard(&shards, ask).await?.into_iter().flatten().collect())
        })
    }

    fn lanes(&self, queue: QueueKey, limit: usize) -> Answer<Vec<LaneStats>> {
        self.on_queue(&queue.clone(), move |turn, reply| turn.lanes(&queue, limit, reply))
    }

    fn obstacles(&self, task: TaskRef) -> Answer<Option<Vec<Obstacle>>> {
        ask_about(self.shards(), task, |shard, task| {
            Box::pin(
                async move { shard.ask(Lane::Other, move |turn, reply| turn.obstacles(&task, reply)).await },
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let queue = QueueKey::new("acme", "Mail");
        assert_eq!(read_policy_key(&policy_key(&queue)), Some(queue.clone()));
        let stored = StoredPolicy::put(None, r#"{"concurrency":3}"#, Time::from_millis(7)).unwrap();
        assert_eq!(read_policy(&write_policy(&stored)), Ok(stored));
        for lane in [None, Some("".into()), Some("customer 7é".into())] {
            let key = UsageKey { queue: queue.clone(), lane };
            assert_eq!(UsageKey::read(&key.write()), Some(key));
        }
        let usage = Usage { rate: RateState::from_nanos(-5), hold: Time::from_millis(9), is_stored: false };
        assert_eq!(read_usage(&write_usage(&usage)), Ok(usage));
    }
}
