//! The queues of a shard: names, ready lists, counts, and who waits on them.

mod heads;

use super::flow::{PLAIN, QueueFlow};
use crate::local::shard::slots::{List, SlotId, Slots};
use codeq_queue::lane::LaneId;
use codeq_queue::{QueueKey, QueueStats, StoredPolicy, Time};
use hashbrown::HashTable;
use heads::{HeadPlace, Heads};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Empty queues are remembered (their name, their last claim) up to this many queues.
const REMEMBERED: usize = 10_000;
/// Beyond that so many are looked at for each new one: idle ones go faster than new ones come, and nobody pays for all.
const LOOKED_AT: usize = 4;

/// From so many ready queues of a tenant on their heads are kept in order; fewer are looked through.
const MANY_READY: usize = 64;

/// The policies of one tenant.
#[derive(Clone, Copy, Default)]
pub struct PolicyShare {
    pub count: usize,
    /// Of their texts.
    pub bytes: usize,
}

pub struct Queue {
    pub key: QueueKey,
    /// The command as the newest create spelled it.
    pub spelling: Arc<str>,
    /// Ready tasks without a lane, by priority.
    pub lists: [List; 10],
    /// All ready tasks.
    pub ready: u64,
    pub delayed: u64,
    pub running: u64,
    pub dead: u64,
    pub held: u64,
    pub is_paused: bool,
    pub last_claim: Option<Time>,
    /// While bodies are read ahead: about how many of the next tasks have theirs in memory.
    pub loaded_ahead: Option<usize>,
    /// Arrival numbers of the claims held here.
    pub waiters: BTreeSet<u64>,
    /// Its policy and its lanes; most queues have neither.
    pub flow: Option<Box<QueueFlow>>,
    /// Where it stands among the heads of its tenant, while these are kept in order.
    place: Option<Box<HeadPlace>>,
    is_used: bool,
}

impl Queue {
    fn new(key: QueueKey) -> Queue {
        let spelling = key.command.clone();
        Queue {
            key,
            spelling,
            lists: [List::default(); 10],
            ready: 0,
            delayed: 0,
            running: 0,
            dead: 0,
            held: 0,
            is_paused: false,
            last_claim: None,
            loaded_ahead: None,
            waiters: BTreeSet::new(),
            flow: None,
            place: None,
            is_used: true,
        }
    }

    /// The task that a claim on this queue gets next, and its priority.
    pub fn head(&self, slots: &Slots, now: Time) -> Option<SlotId> {
        if self.is_paused || self.ready == 0 {
            return None;
        }
        match self.flow.as_deref() {
            None => self.plain_head(),
            Some(flow) if flow.obstacle(self.running, now).is_some() => None,
            Some(flow) => flow.head(self.plain_head(), slots),
        }
    }

    /// The first of the ready tasks without a lane.
    pub fn plain_head(&self) -> Option<SlotId> {
        self.lists.iter().rev().find_map(List::first)
    }

    /// Ready tasks without a lane.
    pub fn plain_ready(&self) -> u64 {
        let laned: u64 = self.flow.as_deref().map_or(0, |flow| flow.ready.iter().sum());
        self.ready - laned
    }

    pub fn policy(&self) -> Option<&StoredPolicy> {
        self.flow.as_deref()?.policy.as_ref()
    }

    /// Tasks that have not ended.
    pub fn live(&self) -> u64 {
        self.ready + self.delayed + self.held + self.running
    }

    fn is_idle(&self) -> bool {
        let has_work = self.live() + self.dead > 0 || !self.waiters.is_empty();
        !has_work && !self.is_paused && self.flow.is_none()
    }

    pub fn stats(&self, oldest_ready: Option<Time>, now: Time) -> QueueStats {
        let flow = self.flow.as_deref();
        let mut ready = self.lists.map(|list| u64::from(list.len));
        for (all, laned) in ready.iter_mut().zip(flow.map_or([0; 10], |flow| flow.ready)) {
            *all += laned;
        }
        QueueStats {
            tenant: self.key.tenant.clone(),
            command: self.spelling.clone(),
            ready,
            lanes: flow.map_or(0, |flow| flow.lanes() as u64),
            limited: flow.map_or(0, |flow| flow.limited(self.ready, self.running, now)),
            policy: self.policy().cloned(),
            delayed: self.delayed,
            in_progress: self.running,
            dead: self.dead,
            failed: 0,
            held: self.held,
            is_paused: self.is_paused,
            oldest_ready,
            last_claim: self.last_claim,
        }
    }
}

#[derive(Default)]
pub struct Tenant {
    /// Queues that hold ready tasks, paused ones too.
    pub ready: BTreeSet<u32>,
    /// Arrival numbers of held claims that take any command.
    pub waiters: BTreeSet<u64>,
    /// The heads of the ready queues, if these are many.
    heads: Option<Heads>,
}

/// Names are hashed and compared without case in the command, so that looking one up allocates nothing.
fn hash(tenant: &str, command: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
    let hash = tenant.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    let hash = command.bytes().map(|byte| byte.to_ascii_lowercase()).fold(mix(hash, 0), mix);
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Default)]
pub struct Queues {
    index: HashTable<u32>,
    all: Vec<Queue>,
    free: Vec<u32>,
    /// Whom to look at next for idle queues.
    next_look: usize,
    pub tenants: HashMap<Arc<str>, Tenant>,
    /// Tenants whose heads are kept in order.
    crowded: usize,
    /// How many queues of each tenant have a policy.
    policies: HashMap<Arc<str>, PolicyShare>,
}

impl Queues {
    pub fn at(&self, id: u32) -> &Queue {
        &self.all[id as usize]
    }

    pub fn at_mut(&mut self, id: u32) -> &mut Queue {
        &mut self.all[id as usize]
    }

    pub fn find(&self, tenant: &str, command: &str) -> Option<u32> {
        let is_it = |id: &u32| {
            let key = &self.at(*id).key;
            *key.tenant == *tenant && key.command.eq_ignore_ascii_case(command)
        };
        self.index.find(hash(tenant, command), is_it).copied()
    }

    /// The queue of that name, made if need be.
    pub fn intern(&mut self, tenant: &Arc<str>, command: &str) -> u32 {
        if let Some(id) = self.find(tenant, command) {
            return id;
        }
        if self.index.len() >= REMEMBERED {
            self.forget_some_idle();
        }
        let queue = Queue::new(QueueKey::new(tenant, command));
        let id = match self.free.pop() {
            Some(id) => {
                self.all[id as usize] = queue;
                id
            }
            None => {
                self.all.push(queue);
                u32::try_from(self.all.len() - 1).expect("fewer than four billion queues")
            }
        };
        let all = &self.all;
        let rehash = |id: &u32| hash(&all[*id as usize].key.tenant, &all[*id as usize].key.command);
        self.index.insert_unique(hash(tenant, command), id, rehash);
        id
    }

    fn forget_some_idle(&mut self) {
        for _ in 0..LOOKED_AT {
            let at = self.next_look % self.all.len().max(1);
            self.next_look = at + 1;
            if self.all.get(at).is_some_and(|queue| queue.is_used && queue.is_idle()) {
                self.forget(at);
            }
        }
    }

    fn forget(&mut self, at: usize) {
        let queue = &mut self.all[at];
        queue.is_used = false;
        let id = u32::try_from(at).expect("fewer than four billion queues");
        let hash = hash(&queue.key.tenant, &queue.key.command);
        if let Ok(entry) = self.index.find_entry(hash, |known| *known == id) {
            entry.remove();
        }
        let tenant = queue.key.tenant.clone();
        self.free.push(id);
        self.forget_idle_tenant(&tenant);
    }

    /// A tenant without ready tasks and waiting claims needs no entry.
    pub fn forget_idle_tenant(&mut self, tenant: &str) {
        if self.tenants.get(tenant).is_some_and(|known| known.ready.is_empty() && known.waiters.is_empty()) {
            self.tenants.remove(tenant);
        }
    }

    /// The ready tasks of a lane with this priority.
    pub fn list(&self, id: u32, lane: LaneId, priority: u8) -> List {
        let queue = self.at(id);
        match queue.flow.as_deref().filter(|_| lane != PLAIN) {
            Some(flow) => flow.list(lane, priority),
            None => queue.lists[usize::from(priority)],
        }
    }

    /// Writes a changed list back and keeps the sums that depend on it.
    pub fn set_list(&mut self, id: u32, lane: LaneId, priority: u8, list: List) {
        let known = self.list(id, lane, priority);
        let queue = &mut self.all[id as usize];
        let before = queue.ready;
        queue.ready = queue.ready + u64::from(list.len) - u64::from(known.len);
        match queue.flow.as_deref_mut().filter(|_| lane != PLAIN) {
            Some(flow) => flow.set_list(lane, priority, list),
            None => queue.lists[usize::from(priority)] = list,
        }
        match (before, queue.ready) {
            (0, 1..) => {
                let tenant = self.tenants.entry(queue.key.tenant.clone()).or_default();
                tenant.ready.insert(id);
                if tenant.ready.len() > MANY_READY && tenant.heads.is_none() {
                    tenant.heads = Some(Heads::default());
                    self.crowded += 1;
                }
            }
            (1.., 0) => {
                if let Some(tenant) = self.tenants.get_mut(&queue.key.tenant) {
                    tenant.ready.remove(&id);
                    if tenant.ready.len() < MANY_READY / 2
                        && let Some(heads) = tenant.heads.take()
                    {
                        self.crowded -= 1;
                        heads.drop_places(&mut self.all);
                    }
                }
            }
            _ => {}
        }
    }

    /// To be told whenever the head of a queue may be another one, or the queue is paused or resumed.
    pub fn head_changed(&mut self, id: u32, slots: &Slots, now: Time) {
        if self.crowded == 0 {
            return;
        }
        let Queues { all, tenants, .. } = self;
        let Some(tenant) = tenants.get_mut(&all[id as usize].key.tenant) else { return };
        let Some(heads) = &mut tenant.heads else { return };
        if heads.begins() {
            tenant.ready.iter().for_each(|id| heads.put(all, *id, slots, now));
        } else {
            heads.put(all, id, slots, now);
        }
    }

    /// What restricts a queue, from now on if nothing did.
    pub fn flow_mut(&mut self, id: u32) -> &mut QueueFlow {
        self.all[id as usize].flow.get_or_insert_default()
    }

    /// Nothing restricts the queue any more.
    pub fn drop_flow(&mut self, id: u32) {
        self.all[id as usize].flow = None;
    }

    /// A queue of the tenant had a policy of so many bytes, and has one of so many now.
    pub fn count_policy(&mut self, tenant: &Arc<str>, had: Option<usize>, has: Option<usize>) {
        let share = self.policies.entry(tenant.clone()).or_default();
        share.count = share.count + usize::from(has.is_some()) - usize::from(had.is_some());
        share.bytes = share.bytes + has.unwrap_or(0) - had.unwrap_or(0);
        if share.count == 0 {
            self.policies.remove(tenant);
        }
    }

    /// The policies of a tenant.
    pub fn policies(&self, tenant: &str) -> PolicyShare {
        self.policies.get(tenant).copied().unwrap_or_default()
    }

    /// Up to so many queues in a row, and where the next ones begin.
    pub fn page(&self, from: usize, most: usize) -> (impl Iterator<Item = &Queue>, Option<usize>) {
        let to = from.saturating_add(most).min(self.all.len());
        let some = self.all.get(from..to).unwrap_or_default();
        (some.iter().filter(|queue| queue.is_used), (to < self.all.len()).then_some(to))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.all.iter().filter(|queue| queue.is_used)
    }
}

#[cfg(test)]
mod tests;
