//! Queue policies: how many tasks of a queue may run, how fast they may start, and its own defaults.
//!
//! A policy is replaced whole. It takes effect for what happens after it: lowering a limit touches no running task.

mod read;
mod store;

pub use store::{LaneStats, Obstacle, Policies};

use crate::limits;
use crate::rate::Rate;
use crate::refusal::Refusal;
use crate::retry::{Backoff, BackoffPolicy};
use crate::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What an operator wants of one queue. Nothing is restricted by what is not there.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct QueuePolicy {
    /// Tasks of the queue that may run at once.
    pub concurrency: Option<u32>,
    /// Starts of the queue.
    pub rate: Option<Rate>,
    /// What holds for its lanes.
    pub lanes: LanePolicy,
    /// Tasks that may wait: ready, delayed and held ones.
    pub max_ready: Option<u64>,
    /// For tasks whose producer gave no number. Here and below `None` leaves it to the server.
    pub max_attempts: Option<u32>,
    /// For claims that ask for no length.
    pub lease: Option<Duration>,
    /// What differs from the server's backoff after a failed attempt.
    pub backoff: Option<BackoffChange>,
    /// How long a completed task is kept after its end.
    pub retention: Option<Duration>,
    /// How long a failed or cancelled task is kept after its end; dead letters are kept as the server says.
    pub failed_retention: Option<Duration>,
    /// How long after its claim a lease may last at most.
    pub max_run: Option<Duration>,
    /// JSON Schema that payloads must match.
    pub payload_schema: Option<Arc<str>>,
    /// What becomes of a payload that does not match the schema.
    pub schema_mode: SchemaMode,
}

/// What holds for every lane of the queue, apart from the lane of tasks without one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LanePolicy {
    /// Tasks of one lane that may run at once.
    pub concurrency: Option<u32>,
    /// Starts of one lane.
    pub rate: Option<Rate>,
    /// A lane serves its oldest live task, one at a time.
    pub is_ordered: bool,
    /// By the name of the lane: what differs for it.
    pub overrides: BTreeMap<Box<str>, LaneOverride>,
}

/// What a policy says of one lane.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LaneOverride {
    /// 1 to 100; `None` is 1.
    pub weight: Option<u8>,
    /// Tasks that may run at once; `None` leaves it to what holds for every lane.
    pub concurrency: Option<u32>,
    /// Starts; `None` leaves them to what holds for every lane.
    pub rate: Option<Rate>,
}

/// What holds for one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneLimits {
    /// 1 to 100: how often it is served, compared with a lane of weight 1.
    pub weight: u8,
    /// Tasks that may run at once; `None` is no limit.
    pub concurrency: Option<u32>,
    /// Starts; `None` is no limit.
    pub rate: Option<Rate>,
}

impl LaneLimits {
    /// Of tasks without a lane, and of queues without a policy.
    pub const NONE: LaneLimits = LaneLimits { weight: 1, concurrency: None, rate: None };
}

/// What of the backoff differs from the server's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BackoffChange {
    /// `None` is the server's; so it is for the numbers below.
    pub policy: Option<BackoffPolicy>,
    /// The factor of every wait, in seconds.
    pub base_seconds: Option<u64>,
    /// The longest wait, in seconds.
    pub max_seconds: Option<u64>,
}

impl BackoffChange {
    /// What is given here, and the rest from the server.
    pub fn over(&self, server: Backoff) -> Backoff {
        Backoff {
            policy: self.policy.unwrap_or(server.policy),
            base_seconds: self.base_seconds.unwrap_or(server.base_seconds),
            max_seconds: self.max_seconds.unwrap_or(server.max_seconds),
        }
    }
}

/// What becomes of a payload that does not match the schema.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SchemaMode {
    /// The create is refused.
    #[default]
    Enforce,
    /// It is counted and let pass.
    Warn,
}

impl QueuePolicy {
    /// What holds for a lane by name. The lane of tasks without one takes part in turns, not in limits of lanes.
    pub fn lane(&self, name: &str) -> LaneLimits {
        let own = self.lanes.overrides.get(name).copied().unwrap_or_default();
        let weight = own.weight.unwrap_or(1);
        match name.is_empty() {
            true => LaneLimits { weight, ..LaneLimits::NONE },
            false => LaneLimits {
                weight,
                concurrency: own.concurrency.or(self.lanes.concurrency),
                rate: own.rate.or(self.lanes.rate),
            },
        }
    }

    /// Refuses a create if the policy lets no more tasks wait than `waiting`.
    pub fn admit(&self, waiting: u64) -> Result<(), Refusal> {
        match self.max_ready.is_some_and(|most| waiting >= most) {
            true => Err(Refusal::QueueFull),
            false => Ok(()),
        }
    }

    /// Refuses a policy that would change the order of tasks that live.
    pub fn check_change(before: Option<&QueuePolicy>, after: &QueuePolicy, live: u64) -> Result<(), Refusal> {
        let was_ordered = before.is_some_and(|policy| policy.lanes.is_ordered);
        match was_ordered != after.lanes.is_ordered && live > 0 {
            true => Err(Refusal::QueueNotEmpty),
            false => Ok(()),
        }
    }
}

/// A policy as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredPolicy {
    /// As read from `text`.
    pub policy: Arc<QueuePolicy>,
    /// As it was given, in compact JSON.
    pub text: Arc<str>,
    /// 1 for the first one; grows with every change.
    pub version: u64,
    /// When it was last changed.
    pub updated_at: Time,
}

impl StoredPolicy {
    /// A checked policy in place of another. An equal one changes nothing.
    pub fn put(current: Option<&StoredPolicy>, text: &str, now: Time) -> Result<StoredPolicy, Refusal> {
        if let Some(current) = current.filter(|current| *current.text == *text) {
            return Ok(current.clone());
        }
        let policy = Arc::new(QueuePolicy::parse(text)?);
        let version = current.map_or(0, |current| current.version) + 1;
        Ok(StoredPolicy { policy, text: text.into(), version, updated_at: now })
    }
}

/// What a nack holds back besides its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// The lane of the task; the lane without a name if it has none.
    Lane,
    /// All tasks of the queue.
    Queue,
}

impl Hold {
    /// Reads what a nack says; it needs a delay, which then is not cut by the backoff.
    pub fn read(word: Option<&str>, delay_seconds: i64) -> Result<Option<Hold>, Refusal> {
        let hold = match word.map(str::trim).unwrap_or_default() {
            "" => return Ok(None),
            "lane" => Hold::Lane,
            "queue" => Hold::Queue,
            _ => return Err(Refusal::InvalidHold("use lane or queue")),
        };
        match (1..=limits::HOLD_SECONDS).contains(&delay_seconds) {
            true => Ok(Some(hold)),
            false => Err(Refusal::InvalidHold("it needs 'delaySeconds' between 1 and 86400")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> QueuePolicy {
        QueuePolicy::parse(text).unwrap()
    }

    #[test]
    fn lanes_have_their_own_limits_and_tasks_without_one_have_none() {
        let policy = policy(
            r#"{"lanes":{"concurrency":2,"rate":{"limit":5,"periodSeconds":1},
                "overrides":{"acme":{"weight":3,"concurrency":9},"":{"weight":2,"concurrency":1}}}}"#,
        );
        let rate = Some(Rate { limit: 5, period_seconds: 1, burst: 1 });
        assert_eq!(policy.lane("other"), LaneLimits { weight: 1, concurrency: Some(2), rate });
        assert_eq!(policy.lane("acme"), LaneLimits { weight: 3, concurrency: Some(9), rate });
        assert_eq!(policy.lane(""), LaneLimits { weight: 2, concurrency: None, rate: None });
    }

    #[test]
    fn a_full_queue_admits_nothing_more() {
        let limited = policy(r#"{"maxReady":2}"#);
        assert_eq!(limited.admit(1), Ok(()));
        assert_eq!(limited.admit(2), Err(Refusal::QueueFull));
        assert_eq!(QueuePolicy::default().admit(u64::MAX), Ok(()));
    }

    #[test]
    fn the_order_of_live_tasks_does_not_change() {
        let (plain, ordered) = (QueuePolicy::default(), policy(r#"{"lanes":{"ordered":true}}"#));
        assert_eq!(QueuePolicy::check_change(None, &ordered, 1), Err(Refusal::QueueNotEmpty));
        assert_eq!(QueuePolicy::check_change(Some(&ordered), &plain, 1), Err(Refusal::QueueNotEmpty));
        assert_eq!(QueuePolicy::check_change(Some(&ordered), &ordered, 1), Ok(()));
        assert_eq!(QueuePolicy::check_change(None, &ordered, 0), Ok(()));
    }

    #[test]
    fn versions_count_changes() {
        let at = Time::from_millis;
        let first = StoredPolicy::put(None, r#"{"concurrency":1}"#, at(1)).unwrap();
        let same = StoredPolicy::put(Some(&first), r#"{"concurrency":1}"#, at(2)).unwrap();
        assert_eq!(same, first);
        let next = StoredPolicy::put(Some(&first), r#"{"concurrency":2}"#, at(3)).unwrap();
        assert_eq!((next.version, next.updated_at), (2, at(3)));
    }

    #[test]
    fn a_hold_needs_a_delay() {
        assert_eq!(Hold::read(None, 0), Ok(None));
        assert_eq!(Hold::read(Some("lane"), 1), Ok(Some(Hold::Lane)));
        assert_eq!(Hold::read(Some("queue"), 86_400), Ok(Some(Hold::Queue)));
        for (word, delay) in [("lane", 0), ("queue", 86_401), ("task", 5), ("Lane", 5)] {
            assert!(matches!(Hold::read(Some(word), delay), Err(Refusal::InvalidHold(_))), "{word} {delay}");
        }
    }

    #[test]
    fn a_backoff_changes_only_what_it_names() {
        let change = policy(r#"{"backoff":{"maxSeconds":7}}"#).backoff.unwrap();
        assert_eq!(change.over(Backoff::default()), Backoff { max_seconds: 7, ..Backoff::default() });
    }
}
