//! What clients do with a queue that has lanes and a policy, and with tasks that wait for others; and what they know
//! of it.

use super::action::Action;
use super::ledger::Ledger;
use super::look::Look;
use super::world::World;
use codeq_queue::batch::{BatchEnd, NewBatch};
use codeq_queue::rate::Rate;
use codeq_queue::{QueueKey, QueuePolicy, Task, TaskId, Time};
use codeq_store::testing::exam::request::New;
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The queue with a policy; nobody pauses it.
pub const LIMITED: &str = "crop";
pub const LANES: [&str; 4] = ["", "a", "b", "c"];
/// What an operator may put in place of what is there. The order of lanes stays: it changes in an empty queue only.
const POLICIES: [&str; 5] = [
    "{}",
    r#"{"concurrency":2}"#,
    r#"{"concurrency":4,"lanes":{"concurrency":1}}"#,
    r#"{"lanes":{"concurrency":2,"overrides":{"b":{"weight":3,"concurrency":1}}}}"#,
    r#"{"rate":{"limit":60,"periodSeconds":60,"burst":6}}"#,
];
const ORDERED: &str = r#"{"concurrency":3,"lanes":{"ordered":true}}"#;
/// Of batches that nobody closes.
const CLOSES_AFTER_SECONDS: std::ops::Range<u64> = 5..200;

/// What is known of one batch.
#[derive(Clone, Debug, Default)]
pub struct BatchAccount {
    pub end: Option<BatchEnd>,
    pub is_closed: bool,
    pub may_be_cancelled: bool,
}

/// How many tasks of the queue may run, and how many were seen to start.
#[derive(Clone, Debug, Default)]
pub struct RunningAccount {
    /// In the queue and in each lane; `None` is without bound.
    pub most: Option<u64>,
    pub most_in_lane: BTreeMap<&'static str, Option<u64>>,
    /// Since the clock went back or another policy may have come into force.
    pub starts: Vec<Time>,
    /// The rate that is known to be in force.
    pub rate: Option<Rate>,
}

fn wider(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one.max(other))
}

pub fn lane_limit(policy: &QueuePolicy, lane: &str) -> Option<u64> {
    // An ordered lane serves one task at a time.
    let one = (policy.lanes.is_ordered && !lane.is_empty()).then_some(1);
    let limit = policy.lane(lane).concurrency.map(u64::from).filter(|_| !lane.is_empty());
    one.or(limit)
}

impl RunningAccount {
    /// A policy may be in force from now on.
    fn widen(&mut self, policy: &QueuePolicy) {
        self.most = wider(self.most, policy.concurrency.map(u64::from));
        for lane in LANES {
            let most = self.most_in_lane.entry(lane).or_insert(Some(0));
            *most = wider(*most, lane_limit(policy, lane));
        }
        self.starts.clear();
        self.rate = None;
    }

    /// What is in force now; what ran before may go on.
    pub fn take_in(&mut self, look: &Look) {
        let plain = QueuePolicy::default();
        let policy = look.policy.as_ref().map_or(&plain, |stored| &*stored.policy);
        if self.rate != policy.rate {
            self.starts.clear();
        }
        self.rate = policy.rate;
        self.most = wider(policy.concurrency.map(u64::from), Some(running(look, None)));
        for lane in LANES {
            let most = wider(lane_limit(policy, lane), Some(running(look, Some(lane))));
            self.most_in_lane.insert(lane, most);
        }
    }
}

/// Running tasks of the queue, or of one of its lanes.
pub fn running(look: &Look, lane: Option<&str>) -> u64 {
    let is_meant = |task: &&Task| {
        &*task.body.command == LIMITED && lane.is_none_or(|lane| task.body.lane().unwrap_or("") == lane)
    };
    look.tasks.values().filter(is_meant).filter(|task| task.state.lease().is_some()).count() as u64
}

impl Ledger {
    /// Notes what may happen to batches and limits from now on.
    pub fn intend_flow(&mut self, action: &Action) {
        match action {
            Action::PutPolicy(_, text) => {
                let text = serde_json::from_str(text).expect("a policy is JSON");
                self.running.widen(&QueuePolicy::read(&text).expect("the policy is right"));
            }
            Action::CancelBatch(id) => {
                self.batches.entry(*id).or_default().may_be_cancelled = true;
                for account in self.accounts.values_mut() {
                    if let (Some(lent), true) = (&mut account.lent, account.body.batch() == Some(*id)) {
                        lent.may_be_over = true;
                    }
                }
            }
            _ => {}
        }
    }

    pub fn may_be_cancelled(&self, task: &Task) -> bool {
        let batch = task.body.batch().and_then(|id| self.batches.get(&id));
        batch.is_some_and(|batch| batch.may_be_cancelled)
    }
}

impl World {
    /// Of the life: an ordered queue stays one.
    fn policy(&mut self) -> &'static str {
        match self.is_ordered {
            true => ORDERED,
            false => POLICIES[self.rng.random_range(0..POLICIES.len())],
        }
    }

    pub(super) fn put_policy(&mut self) -> Action {
        let text = self.policy();
        Action::PutPolicy(QueueKey::new(&self.tenant, LIMITED), text)
    }

    pub(super) fn create_in_lane(&mut self) -> Action {
        let mut new = self.new_task(LIMITED);
        let lane = LANES[self.rng.random_range(0..LANES.len())];
        if !lane.is_empty() {
            new = new.lane(lane);
        }
        if self.rng.random_bool(0.1) {
            new = new.delayed_ms(self.rng.random_range(1..10_000));
        }
        Action::Create(new.build(&self.tenant))
    }

    pub(super) fn act_on_batch(&mut self) -> Action {
        let known: Vec<TaskId> = self.ledger.batches.keys().copied().collect();
        let one = (!known.is_empty()).then(|| known[self.rng.random_range(0..known.len())]);
        match (one, self.rng.random_range(0..10)) {
            (Some(id), 0..3) => Action::CloseBatch(id),
            (Some(id), 3) => Action::CancelBatch(id),
            _ => {
                let close_after = Duration::from_secs(self.rng.random_range(CLOSES_AFTER_SECONDS));
                Action::CreateBatch(NewBatch { tenant: self.tenant.clone(), name: None, close_after })
            }
        }
    }

    /// Joins a batch or waits for others, sometimes. Nobody waits in a circle: members wait for tasks that wait for
    /// nothing, and for batches of lower ids than their own.
    pub(super) fn relate(&mut self, mut new: New) -> New {
        let mut batches: Vec<TaskId> = self.ledger.batches.keys().copied().collect();
        let mut is_member = false;
        if !batches.is_empty() && self.rng.random_bool(0.3) {
            let joined = self.rng.random_range(0..batches.len());
            new = new.batch(batches[joined]);
            is_member = true;
            batches.truncate(joined);
        }
        if self.rng.random_bool(0.2) {
            let mut after = BTreeSet::new();
            for _ in 0..self.rng.random_range(1..4) {
                match self.rng.random_range(0..batches.len() + 3) {
                    index if index < batches.len() => drop(after.insert(batches[index])),
                    _ => {
                        let other = self.anyone().map(|named| named.id);
                        let waits = |id: &TaskId| !self.ledger.accounts[id].body.after().is_empty();
                        after.extend(other.filter(|id| !is_member || !waits(id)));
                    }
                }
            }
            let after: Vec<TaskId> = after.into_iter().collect();
            new = match (after.is_empty(), self.rng.random_bool(0.5)) {
                (true, _) => new,
                (false, true) => new.after(&after).run_anyway(),
                (false, false) => new.after(&after),
            };
        }
        new
    }
}
