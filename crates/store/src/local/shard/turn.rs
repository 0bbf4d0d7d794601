//! One turn of the owner: decide, log, answer when durable.

use super::{Shard, produce::TaskLookup};
use crate::local::engine::inbox::{Inbox, Lane};
use crate::local::format::entry::Entry;
use crate::local::journal::Appender;
use crate::local::rows::library::TaskReader;
use crate::local::rows::readers::Pools;
use codeq_queue::audit::Note;
use codeq_queue::{Event, Failure, Observer, Refusal, TaskId, Time, limits};
use rand::Rng;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// Sends one answer. Called when everything the answer tells of is durable; dropped if that failed.
pub type Release = Box<dyn FnOnce(&Arc<ShardContext>) + Send>;

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
    pub fn release(self, links: &Arc<ShardContext>) {
        for release in self.releases {
            release(links);
        }
        if let Some(observer) = links.observer.as_ref().filter(|_| !self.events.is_empty()) {
            observer(&self.events);
        }
    }
}

/// The inboxes of all shards by index.
pub type Peers = Box<[Arc<Inbox>]>;

/// What a turn and its answers may reach besides the shard.
pub struct ShardContext {
    pub inbox: Arc<Inbox>,
    pub pools: Pools,
    pub library: TaskReader,
    pub unsettled_bytes: Arc<AtomicUsize>,
    /// Told when creates may go on.
    pub room: Notify,
    /// Why nothing can be written at present, as the owner last found.
    pub unwritable: Mutex<Option<String>>,
    pub observer: Option<Observer>,
    /// The inboxes of all shards, this one included, once all have started.
    pub peers: Arc<OnceLock<Peers>>,
}

impl ShardContext {
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
    pub fn send(
        self: &Arc<ShardContext>,
        needs_tables: bool,
        send: impl FnOnce(&Arc<ShardContext>) + Send + 'static,
    ) {
        if !needs_tables {
            return send(self);
        }
        let links = self.clone();
        self.pools.lookups.submit(&Arc::default(), move || send(&links));
    }
}

/// What a turn may write, so that no group is ever larger than a journal segment.
///
/// A group is handed over when it has `group` bytes. A turn that begins before that ends soon after it has
/// written `turn` bytes itself: what is left of its batch goes back to the caller, who asks again. The last
/// entry has at most `usual` bytes. The three together are less than a usual segment holds, and are there before a
/// turn begins. For an entry beyond that, up to `entry`, a larger segment is made first.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub group: usize,
    pub turn: usize,
    pub usual: usize,
    pub entry: usize,
}

impl Room {
    /// For usual and for largest segments that hold so much.
    pub fn within(usual: usize, largest: usize) -> Room {
        let few = usual / 8;
        Room {
            group: few.min(GROUP_BYTES),
            turn: few.min(TURN_BYTES),
            usual: few * 5,
            entry: (largest / 8 * 5).min(largest.saturating_sub(usual)).max(few * 5),
        }
    }

    /// What a group may grow to.
    pub fn largest_group(&self) -> usize {
        self.group + self.turn + self.usual
    }
}

/// A group is handed over when it has grown to this, though more commands wait.
const GROUP_BYTES: usize = 1 << 20;
/// A turn writes no further entry when it has written this.
const TURN_BYTES: usize = 1 << 20;
/// What the largest journal segment holds: a little less than its size.
const LARGEST_SEGMENT_BYTES: usize = (64 << 20) - (64 << 10);
const _: () = assert!(limits::ENTRY_BYTES <= LARGEST_SEGMENT_BYTES / 8 * 5);
/// How long an entry may wait for a segment that holds it.
const ENLARGING: Duration = Duration::from_secs(30);

impl Default for Room {
    fn default() -> Room {
        Room::within(LARGEST_SEGMENT_BYTES, LARGEST_SEGMENT_BYTES)
    }
}

/// An entry that no segment of this store could hold, or for which none could be made; nothing was written or changed.
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
    pub links: &'a Arc<ShardContext>,
    pub room: Room,
    /// Has room made for a group of so many bytes; `None`: nothing is journalled.
    pub appender: Option<&'a Appender>,
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
    /// Of whom the command is an operator's: the record that its first entry takes along.
    pub note: Option<Arc<Note>>,
}

impl Turn<'_> {
    /// Writes an entry of bounded size into the open group and applies it.
    pub fn log(&mut self, entry: Entry) {
        let before = self.group.buffer.len();
        entry.write(&mut self.group.buffer);
        if self.group.buffer.len() - before > self.room.usual {
            // Without a segment for it, nothing is acknowledged from here on.
            self.reserve();
        }
        self.apply(entry);
    }

    /// Writes the entry into the open group and applies it, unless it is too large.
    pub fn try_log(&mut self, entry: Entry) -> Result<(), TooLarge> {
        let before = self.group.buffer.len();
        entry.write(&mut self.group.buffer);
        let bytes = self.group.buffer.len() - before;
        if bytes > self.room.entry || bytes > self.room.usual && !self.reserve() {
            self.group.buffer.truncate(before);
            return Err(TooLarge);
        }
        self.apply(entry);
        Ok(())
    }

    fn apply(&mut self, entry: Entry) {
        self.group.entries += 1;
        let witness = match self.links.observer {
            Some(_) => self.shard.witness(&entry),
            None => None,
        };
        self.shard.apply(entry).expect("an entry fits the state it was decided on");
        self.group.events.extend(witness.map(|witness| self.shard.event(witness)));
        if let Some(note) = self.note.take().filter(|note| !note.is_kept()) {
            self.keep_audit(&note.entry());
            note.kept();
        }
    }

    /// Waits for a segment that holds the open group with what may still come into it.
    fn reserve(&self) -> bool {
        let bytes = self.group.buffer.len() + self.room.largest_group();
        self.appender.is_none_or(|appender| appender.reserve(bytes, ENLARGING).is_ok())
    }

    /// Does what an operator asks for; the record of it becomes part of the same frame.
    pub fn noting(&mut self, note: Option<Arc<Note>>, act: impl FnOnce(&mut Self)) {
        self.note = note;
        act(self);
        self.note = None;
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
        find: impl FnOnce(&TaskReader) -> Result<T, Failure> + Send + 'static,
    ) {
        self.group.releases.push(Box::new(move |links| {
            let send = move |links: &Arc<ShardContext>| {
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
    pub fn locate(&self, tenant: &str, id: &TaskId) -> TaskLookup {
        self.shard.locate(tenant, id)
    }
}
