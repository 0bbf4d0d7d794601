//! One turn of the owner: decide, log, answer when durable.

use super::{Shard, produce::Located};
use crate::local::entry::Entry;
use crate::local::inbox::{Inbox, Lane};
use crate::local::library::Library;
use crate::local::readers::Pools;
use codeq_queue::{Event, Failure, Observer, Refusal, TaskId, Time, limits};
use rand::Rng;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
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
    /// Nothing more may be added: it is handed over before the next command takes its turn.
    pub is_closed: bool,
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
    pub unsettled_bytes: Arc<AtomicUsize>,
    /// Told when creates may go on.
    pub room: Notify,
    /// Why nothing can be written at present, as the owner last found.
    pub unwritable: Mutex<Option<String>>,
    pub observer: Option<Observer>,
    /// The inboxes of all shards, this one included, once all have started.
    pub peers: OnceLock<Box<[Arc<Inbox>]>>,
}

impl Links {
    pub fn has_peers(&self) -> bool {
        self.peers.get().is_some()
    }

    /// Has something done on another shard. Nobody is told if that shard takes nothing any more.
    pub fn post_to(&self, shard: u32, act: impl FnOnce(&mut Turn<'_>) + Send + 'static) {
        if let Some(inbox) = self.peers.get().and_then(|peers| peers.get(shard as usize)) {
            inbox.post(act);
        }
    }

    /// Sends an answer: from a reading thread if it has to look into the tables first.
    pub fn send(self: &Arc<Links>, needs_tables: bool, send: impl FnOnce(&Arc<Links>) + Send + 'static) {
        if !needs_tables {
            return send(self);
        }
        let links = self.clone();
        self.pools.lookups.submit(move || send(&links));
    }
}

/// What a turn may write, so that no group is ever larger than a journal segment.
///
/// A group is handed over when it has `group` bytes. A turn that begins before that ends soon after it has
/// written `turn` bytes itself: what is left of its batch goes back to the caller, who asks again. The last
/// entry has at most `entry` bytes. The three together are less than a segment holds.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub group: usize,
    pub turn: usize,
    pub entry: usize,
}

impl Room {
    /// For segments that hold so much. Entries within the bounds of the rules fit segments of the usual size.
    pub fn within(segment: usize) -> Room {
        let (few, most) = (segment / 8, segment / 8 * 5);
        Room { group: few.min(GROUP_BYTES), turn: few.min(TURN_BYTES), entry: most }
    }

    /// What a group may grow to.
    pub fn largest_group(&self) -> usize {
        self.group + self.turn + self.entry
    }
}

/// A group is handed over when it has grown to this, though more commands wait.
const GROUP_BYTES: usize = 1 << 20;
/// A turn writes no further entry when it has written this.
const TURN_BYTES: usize = 1 << 20;
/// What a journal segment of the usual size holds: a little less than its size.
const USUAL_SEGMENT_BYTES: usize = (64 << 20) - (64 << 10);
const _: () = assert!(limits::ENTRY_BYTES <= USUAL_SEGMENT_BYTES / 8 * 5);

impl Default for Room {
    fn default() -> Room {
        Room::within(USUAL_SEGMENT_BYTES)
    }
}

/// An entry that no segment of this store could hold; nothing was written or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge;

impl From<TooLarge> for Refusal {
    fn from(_: TooLarge) -> Refusal {
        Refusal::PayloadTooLarge
    }
}

/// What a turn did of a batch, and what is to be asked for again.
pub struct Part<T, I> {
    pub done: Vec<T>,
    pub rest: Vec<I>,
}

pub struct Turn<'a> {
    pub shard: &'a mut Shard,
    pub group: &'a mut Group,
    pub links: &'a Arc<Links>,
    pub room: Room,
    /// Bytes that were in the group when the turn began.
    pub begun: usize,
    pub now: Time,
    /// The time that retention goes by.
    pub aged: Time,
    /// What the clock says, though the store may have seen later times.
    pub clock_now: Time,
    /// The time that waits are measured by.
    pub elapsed: Duration,
    /// Set while the store cannot take writes.
    pub unwritable: Option<&'a str>,
}

impl Turn<'_> {
    /// Writes an entry of bounded size into the open group and applies it.
    pub fn log(&mut self, entry: Entry) {
        self.try_log(entry).expect("an entry of bounded size fits a segment");
    }

    /// Writes the entry into the open group and applies it, unless it is too large.
    pub fn try_log(&mut self, entry: Entry) -> Result<(), TooLarge> {
        let before = self.group.buffer.len();
        entry.write(&mut self.group.buffer);
        if self.group.buffer.len() - before > self.room.entry {
            self.group.buffer.truncate(before);
            return Err(TooLarge);
        }
        self.group.entries += 1;
        let witness = match self.links.observer {
            Some(_) => self.shard.witness(&entry),
            None => None,
        };
        self.shard.apply(entry).expect("an entry fits the state it was decided on");
        self.group.events.extend(witness.map(|witness| self.shard.event(witness)));
        Ok(())
    }

    /// Whether a command has to wait for the tables after all: others were let in at the same moment. When
    /// nothing can be written it need not; it is told so.
    pub fn must_wait(&self, lane: Lane) -> bool {
        self.unwritable.is_none() && self.shard.is_crowded(lane)
    }

    /// Whether this turn has written its share; what is left waits for another one.
    pub fn is_full(&self) -> bool {
        self.group.buffer.len() - self.begun >= self.room.turn
    }

    /// Acts on items until the turn is full, on one at least. Gives what came of them, and the others.
    pub fn each<I, T>(&mut self, items: Vec<I>, mut act: impl FnMut(&mut Self, I) -> T) -> (Vec<T>, Vec<I>) {
        let mut done = Vec::with_capacity(items.len());
        let mut items = items.into_iter();
        for item in items.by_ref() {
            done.push(act(self, item));
            if self.is_full() {
                break;
            }
        }
        (done, items.collect())
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
    /// on a reading thread if it will have to look into the tables.
    pub fn answer_from<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        needs_tables: bool,
        find: impl FnOnce(&Library) -> Result<T, Failure> + Send + 'static,
    ) {
        self.group.releases.push(Box::new(move |links| {
            let send = move |links: &Arc<Links>| {
                let _ = reply.send(find(&links.library));
            };
            links.send(needs_tables, send);
        }));
    }

    /// Ends one command: serves who waited for what it did.
    pub fn settle(&mut self) {
        self.serve_waiters();
        if self.shard.waiting.is_starved() {
            self.serve_starved();
        }
        self.answer_results();
        if self.shard.has_messages() {
            self.send_told();
            self.send_counts();
        }
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
