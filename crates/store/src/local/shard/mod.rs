//! The state of one shard: everything live, in memory, owned by one thread.
//!
//! The shard is a deterministic machine. [`Turn`] decides (it reads the state, applies the rules and logs
//! entries), [`Shard::apply`] changes the state by an entry and nothing else does, so replaying the journal
//! gives the same state as living through it.
//!
//! Invariant: a live task is in exactly one of a ready list, `delayed`, `leases` and the held ones, the one its
//! state names. `apply` is the only place that moves it.

pub(in crate::local) mod parted;
pub(in crate::local) mod slots;

mod apply;
mod batches;
mod callbacks;
mod flow;
mod grouping;
mod import;
mod inspect;
mod operate;
mod outbox;
mod policies;
mod produce;
mod queues;
mod releasing;
mod run_now;
mod schedules;
mod settle;
mod subscriptions;
mod sweeping;
mod ticking;
mod timers;
mod turn;
mod unique;
mod waiting;
mod waits;
mod witness;
mod work;

pub use batches::Batches;
pub use flow::Usage;
pub use grouping::Joining;
pub use import::ImportCandidate;
pub use operate::NamedTask;
pub use outbox::Outbox;
pub use produce::KeyedTask;
pub use queues::{Queue, Queues};
pub use schedules::Schedules;
pub use settle::Limits;
pub use subscriptions::Subscriptions;
pub use turn::{Group, Part, Peers, Reply, Room, ShardContext, Turn};
pub use unique::UniqueKeys;
pub use waiting::{Ticket, Waiting};
pub use waits::Waits;

use super::tables::Version;
use crate::local::engine::failures::Failures;
use crate::local::format::ids::IdKey;
use crate::local::format::records::{Counters, Final, IdemKey};
use crate::local::rows::change::Change;
use crate::local::shard::parted::ShardedMap;
use crate::local::shard::slots::{SlotId, Slots};
use crate::local::store::imports::Imports;
use crate::rules::Rules;
use codeq_queue::lane::LaneId;
use codeq_queue::topic::Topic;
use codeq_queue::{AuditEntry, Operation, State, Time};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// A task that ended, not yet (or no longer) as the tables have it.
pub enum Recent {
    Final {
        ended: Arc<Final>,
        changed: u64,
    },
    /// Whatever the tables have under this number is obsolete.
    Gone {
        changed: u64,
    },
}

pub struct Shard {
    pub ids: IdKey,
    pub index: u32,
    pub shards: u32,
    pub rules: Rules,
    pub limits: Limits,
    pub counters: Counters,
    pub slots: Slots,
    pub queues: Queues,
    pub delayed: BTreeSet<(Time, u64)>,
    pub leases: BTreeSet<(Time, u64)>,
    /// Tasks that fail at this time unless someone has claimed them.
    pub expiries: BTreeSet<(Time, u64)>,
    /// Queues in which a limit lets something start at this time.
    pub openings: BTreeSet<(Time, u32)>,
    /// Queues whose lanes take over another policy, some at a time.
    sweeps: BTreeSet<u32>,
    /// Queues and lanes whose places in the order of lanes may have changed.
    touched: Vec<(u32, LaneId)>,
    pub unique: UniqueKeys,
    /// Idempotency keys of live tasks and of those in `recent`; older ones are in the tables.
    pub keys: ShardedMap<IdemKey, u64>,
    pub recent: ShardedMap<u64, Recent>,
    pub outbox: Outbox,
    pub topics: BTreeMap<(Arc<str>, Box<str>), Topic>,
    pub subscriptions: Subscriptions,
    pub operations: BTreeMap<u128, Operation>,
    pub schedules: Schedules,
    pub waits: Waits,
    pub batches: Batches,
    pub failures: Failures,
    /// When the shard began to watch the time: ticks before that were seen by nobody.
    pub open_since: Time,
    /// What operators did, by time.
    pub audit: BTreeMap<(Time, u64), AuditEntry>,
    pub imports: Arc<Imports>,
    pub waiting: Waiting,
    /// The position that the open group will get.
    pub position: u64,
    /// For the open group.
    pub changes: Vec<Change>,
    /// Tasks that ended in this turn; their result waiters are to be answered.
    pub ended: Vec<Arc<Final>>,
    /// Queues that gained ready tasks in this turn; their waiters are to be served.
    pub fed: Vec<u32>,
    /// Queues whose heads are being read from the tables.
    pub loading: HashSet<u32>,
    settling: VecDeque<settle::EvictionMark>,
    retired: u64,
    /// Tables that have everything which has left memory.
    pub version: Arc<Version>,
    pub unsettled_bytes: Arc<AtomicUsize>,
    cached_bytes: usize,
    random: SmallRng,
}

impl Shard {
    pub fn new(ids: IdKey, index: u32, shards: u32, rules: Rules, limits: Limits, seed: u64) -> Shard {
        Shard {
            ids,
            index,
            shards,
            rules,
            limits,
            counters: Counters::new(),
            slots: Slots::new(),
            queues: Queues::default(),
            delayed: BTreeSet::new(),
            leases: BTreeSet::new(),
            expiries: BTreeSet::new(),
            openings: BTreeSet::new(),
            sweeps: BTreeSet::new(),
            touched: Vec::new(),
            unique: UniqueKeys::default(),
            keys: ShardedMap::new(),
            recent: ShardedMap::new(),
            outbox: Outbox::default(),
            topics: BTreeMap::new(),
            subscriptions: Subscriptions::default(),
            operations: BTreeMap::new(),
            schedules: Schedules::default(),
            waits: Waits::default(),
            batches: Batches::default(),
            failures: Failures::default(),
            open_since: Time::ZERO,
            audit: BTreeMap::new(),
            imports: Arc::default(),
            waiting: Waiting::default(),
            position: 1,
            changes: Vec::new(),
            ended: Vec::new(),
            fed: Vec::new(),
            loading: HashSet::new(),
            settling: VecDeque::new(),
            retired: 0,
            version: Arc::default(),
            unsettled_bytes: Arc::new(AtomicUsize::new(0)),
            cached_bytes: 0,
            random: SmallRng::seed_from_u64(seed),
        }
    }

    /// The next instant at which something of a task is due.
    pub fn next_due(&self) -> Option<Time> {
        let delayed = self.delayed.first().map(|(at, _)| *at);
        let lease = self.leases.first().map(|(at, _)| *at);
        let expiry = self.expiries.first().map(|(at, _)| *at);
        let others = [expiry, self.unique.next_end(), self.schedules.next_due(), self.next_opening()];
        let linked = [self.waits.next_due(), self.batches.next_due()];
        [delayed, lease].into_iter().chain(others).chain(linked).flatten().min()
    }

    /// Takes a live task out of the index that its state names.
    fn leave(&mut self, slot_id: SlotId) {
        self.touch(slot_id, false);
        let slot = self.slots.at(slot_id);
        let (no, queue) = (slot.no, slot.queue);
        if let Some(at) = slot.expires_at() {
            self.expiries.remove(&(at, no));
        }
        match &slot.state {
            State::Ready { .. } => {
                self.unlink(slot_id);
                self.queues.head_changed(queue, &self.slots, self.counters.last);
            }
            State::Delayed { until } => {
                self.delayed.remove(&(*until, no));
                self.queues.at_mut(queue).delayed -= 1;
            }
            State::Running(lease) => {
                self.leases.remove(&(lease.acts_at(), no));
                self.queues.at_mut(queue).running -= 1;
            }
            State::Held(_) => {
                self.waits.let_go(no);
                self.queues.at_mut(queue).held -= 1;
            }
            State::Completed | State::Failed | State::Cancelled | State::Dead => {
                unreachable!("a slot holds a live task")
            }
        }
    }

    /// Puts a live task into the index that its state names.
    fn enter(&mut self, slot_id: SlotId) {
        self.touch(slot_id, true);
        let slot = self.slots.at(slot_id);
        let (no, queue) = (slot.no, slot.queue);
        if let Some(at) = slot.expires_at() {
            self.expiries.insert((at, no));
        }
        match &slot.state {
            State::Ready { seq } => {
                self.counters.next_seq = self.counters.next_seq.max(seq + 1);
                self.link(slot_id);
                self.queues.head_changed(queue, &self.slots, self.counters.last);
                self.fed.push(queue);
            }
            State::Delayed { until } => {
                self.delayed.insert((*until, no));
                self.queues.at_mut(queue).delayed += 1;
            }
            State::Running(lease) => {
                self.leases.insert((lease.acts_at(), no));
                self.queues.at_mut(queue).running += 1;
            }
            State::Held(held) => {
                self.waits.hold(no, &held.open);
                self.queues.at_mut(queue).held += 1;
            }
            State::Completed | State::Failed | State::Cancelled | State::Dead => {
                unreachable!("a slot holds a live task")
            }
        }
    }
}
