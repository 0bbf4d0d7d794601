//! The queues of a shard: names, ready lists, counts, and who waits on them.

use crate::local::slots::{List, SlotId};
use codeq_queue::{QueueKey, QueueStats, Time};
use hashbrown::HashTable;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Empty queues are remembered (their name, their last claim) up to this many queues.
const REMEMBERED: usize = 10_000;

pub struct Queue {
    pub key: QueueKey,
    /// The command as the newest create spelled it.
    pub spelling: Arc<str>,
    pub lists: [List; 10],
    /// Sum of the lists.
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
            is_used: true,
        }
    }

    /// The task that a claim on this queue gets next, and its priority.
    pub fn head(&self) -> Option<(u8, SlotId)> {
        if self.is_paused || self.ready == 0 {
            return None;
        }
        (0..10u8).rev().find_map(|priority| Some((priority, self.lists[usize::from(priority)].first()?)))
    }

    fn is_idle(&self) -> bool {
        let tasks = self.ready + self.delayed + self.running + self.dead + self.held;
        tasks == 0 && !self.is_paused && self.waiters.is_empty()
    }

    pub fn stats(&self, oldest_ready: Option<Time>) -> QueueStats {
        QueueStats {
            tenant: self.key.tenant.clone(),
            command: self.spelling.clone(),
            ready: self.lists.map(|list| u64::from(list.len)),
            delayed: self.delayed,
            in_progress: self.running,
            dead: self.dead,
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
    pub tenants: HashMap<Arc<str>, Tenant>,
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
            self.forget_idle();
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

    /// Amortised: called when the table is full, frees every idle queue at once.
    fn forget_idle(&mut self) {
        for (id, queue) in self.all.iter_mut().enumerate().filter(|(_, q)| q.is_used && q.is_idle()) {
            queue.is_used = false;
            let id = id as u32;
            let hash = hash(&queue.key.tenant, &queue.key.command);
            if let Ok(entry) = self.index.find_entry(hash, |known| *known == id) {
                entry.remove();
            }
            self.free.push(id);
        }
        self.tenants.retain(|_, tenant| !tenant.ready.is_empty() || !tenant.waiters.is_empty());
    }

    /// Writes a changed list back and keeps the sums that depend on it.
    pub fn set_list(&mut self, id: u32, priority: usize, list: List) {
        let queue = &mut self.all[id as usize];
        let before = queue.ready;
        queue.ready = queue.ready + u64::from(list.len) - u64::from(queue.lists[priority].len);
        queue.lists[priority] = list;
        match (before, queue.ready) {
            (0, 1..) => {
                let tenant = queue.key.tenant.clone();
                self.tenants.entry(tenant).or_default().ready.insert(id);
            }
            (1.., 0) => {
                if let Some(tenant) = self.tenants.get_mut(&queue.key.tenant) {
                    tenant.ready.remove(&id);
                }
            }
            _ => {}
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.all.iter().filter(|queue| queue.is_used)
    }
}
