//! One turn of the owner: decide, log, answer when durable.

use super::{Shard, produce::Located};
use crate::local::entry::Entry;
use crate::local::inbox::Inbox;
use crate::local::library::Library;
use crate::local::readers::Pools;
use codeq_queue::{Event, Failure, Observer, TaskId, Time};
use rand::Rng;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, oneshot};

/// Sends one answer. Called when everything the answer tells of is durable; dropped if that failed.
pub type Release = Box<dyn FnOnce(&Arc<Links>) + Send>;

pub type Reply<T> = oneshot::Sender<Result<T, Failure>>;

/// What is committed with one sync.
#[derive(Default)]
pub struct Group {
    /// Room for the frame's header, then the entries.
    pub buffer: Vec<u8>,
    pub entries: usize,
    pub releases: Vec<Release>,
    /// For the observer, if there is one.
    pub events: Vec<Event>,
}

impl Group {
    /// Everything in it is durable: sends the answers, then tells who watches.
    pub fn release(self, links: &Arc<Links>) {
        for release in self.releases {
            release(links);
        }
        if let Some(observer) = links.observer.as_ref().filter(|_| !self.events.is_empty()) {
            observer(&self.events);
        }
    }
}

/// What a turn and its answers may reach besides the shard.
pub struct Links {
    pub inbox: Arc<Inbox>,
    pub pools: Pools,
    pub library: Library,
    /// The shard's; see there.
    pub generation: Arc<AtomicU64>,
    pub unsettled_bytes: Arc<AtomicUsize>,
    /// Told when creates may go on.
    pub room: Notify,
    /// Why nothing can be written at present, as the owner last found.
    pub unwritable: Mutex<Option<String>>,
    pub observer: Option<Observer>,
}

impl Links {
    /// Sends an answer: from a reading thread if it has to look into the tree first.
    pub fn send(self: &Arc<Links>, needs_tree: bool, send: impl FnOnce(&Arc<Links>) + Send + 'static) {
        if !needs_tree {
            return send(self);
        }
        let links = self.clone();
        self.pools.lookups.submit(move || send(&links));
    }
}

pub struct Turn<'a> {
    pub shard: &'a mut Shard,
    pub group: &'a mut Group,
    pub links: &'a Arc<Links>,
    pub now: Time,
    /// Set while the store cannot take writes.
    pub unwritable: Option<&'a str>,
}

impl Turn<'_> {
    /// Writes the entry into the open group and applies it.
    pub fn log(&mut self, entry: Entry) {
        entry.write(&mut self.group.buffer);
        self.group.entries += 1;
        let witness = match self.links.observer {
            Some(_) => self.shard.witness(&entry),
            None => None,
        };
        self.shard.apply(entry).expect("an entry fits the state it was decided on");
        self.group.events.extend(witness.map(|witness| self.shard.event(witness)));
    }

    /// Whether entries may be logged now; if not, `reply` has been answered.
    pub fn may_write<T>(&self, reply: Reply<T>) -> Option<Reply<T>> {
        match self.unwritable {
            None => Some(reply),
            Some(reason) => {
                let _ = reply.send(Err(Failure::unavailable(reason)));
                None
            }
        }
    }

    pub fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, value: T) {
        self.group.releases.push(Box::new(move |_| {
            let _ = reply.send(Ok(value));
        }));
    }

    /// Answers with what `find` makes of the library. It runs off this thread, after the group is durable:
    /// on a reading thread if it will have to look into the tree.
    pub fn answer_from<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        needs_tree: bool,
        find: impl FnOnce(&Library) -> Result<T, Failure> + Send + 'static,
    ) {
        self.group.releases.push(Box::new(move |links| {
            let send = move |links: &Arc<Links>| {
                let _ = reply.send(find(&links.library));
            };
            links.send(needs_tree, send);
        }));
    }

    /// Ends one command: serves who waited for what it did.
    pub fn settle(&mut self) {
        self.serve_waiters();
        self.answer_results();
    }

    pub fn draw(&mut self) -> u64 {
        self.shard.random.random()
    }

    pub fn next_seq(&self) -> u64 {
        self.shard.counters.next_seq
    }

    /// Where a task is, as far as memory knows.
    pub fn locate(&self, tenant: &str, id: &TaskId) -> Located {
        self.shard.locate(tenant, id)
    }
}
