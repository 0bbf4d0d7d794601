//! The owner: the one thread that decides everything in a shard.
//!
//! It empties its inbox, runs the timers that are due, lets every command take its turn, and hands the
//! gathered group to the committer. A command sees the state that all earlier commands left, durable or
//! not; its answer waits until that state is durable.

use crate::clock::Clock;
use crate::local::engine::commit::{Committer, PendingCommit};
use crate::local::engine::inbox::{Inbox, Job, Lane};
use crate::local::journal::{Appender, FRAME_HEADER};
use crate::local::rows::change::Fed;
use crate::local::rows::feed_queue::FeedQueue;
use crate::local::shard::{Group, Room, Shard, ShardContext, Turn};
use codeq_queue::Time;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Commands that wake the owner while a group is on its way.
const GATHER_CALLS_MIN: usize = 48;
/// Groups of this many answers show that many callers are at it: then it pays to wait a moment for more of
/// them, because a sync costs as much processor time as several commands. Larger groups gather by
/// themselves while the one before them syncs, and a few callers would only be slowed down.
const LINGER_GROUPS: Range<usize> = 8..32;
/// How long a group may be kept waiting for others.
const LINGER_MAX: Duration = Duration::from_micros(400);
/// When nobody came, all callers there are wait for this very group: so many groups go at once before it is
/// tried again.
const LINGER_PAUSE: u32 = 200;
/// Records let go of between two rounds of commands.
const SETTLE: usize = 128;
/// A jump of the wall clock is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);
/// How long a spare segment may take before writers are turned away.
const SEGMENT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Where groups go to become durable.
pub enum CommitSink {
    /// Without `syncs` no frame vouches for the ones before it: they may be lost to a power failure.
    Journal { appender: Appender, committer: Arc<Committer>, syncs: bool },
    /// Nothing outlives the process; every group is durable at once.
    Memory,
}

pub struct Owner {
    pub shard: Shard,
    pub inbox: Arc<Inbox>,
    pub links: Arc<ShardContext>,
    pub feed_queue: Arc<FeedQueue>,
    pub clock: Arc<dyn Clock>,
    pub sink: CommitSink,
    /// Why nothing may be written, if there is too little free space.
    pub low_space: Box<dyn Fn() -> Option<String> + Send>,
    room: Room,
    group: Group,
    /// Since when the group waits for more, and the answers that were in it then.
    lingering: Option<(Instant, usize)>,
    linger_pause: u32,
    /// Answers in the group before.
    last_answers: usize,
    /// The times of this round.
    now: Time,
    aged: Time,
    elapsed: Duration,
    is_unwritable: bool,
    space_checked: Option<(Instant, Option<String>)>,
}

impl Owner {
    pub fn new(
        mut shard: Shard,
        links: Arc<ShardContext>,
        feed_queue: Arc<FeedQueue>,
        clock: Arc<dyn Clock>,
        sink: CommitSink,
        low_space: Box<dyn Fn() -> Option<String> + Send>,
    ) -> Owner {
        let inbox = links.inbox.clone();
        clock.saw(shard.counters.last);
        shard.open_since = clock.now().max(shard.counters.last);
        let group = Group { buffer: vec![0; FRAME_HEADER], ..Group::default() };
        let room = match &sink {
            CommitSink::Journal { appender, .. } => {
                Room::within(appender.usual_payload(), appender.max_payload())
            }
            CommitSink::Memory => Room::default(),
        };
        Owner {
            shard,
            inbox,
            links,
            feed_queue,
            clock,
            sink,
            low_space,
            room,
            group,
            lingering: None,
            linger_pause: 0,
            last_answers: 0,
            now: Time::ZERO,
            aged: Time::ZERO,
            elapsed: Duration::ZERO,
            is_unwritable: false,
            space_checked: None,
        }
    }

    /// Runs until the inbox is closed and empty and everything is durable.
    pub fn run(mut self) {
        let mut jobs: Vec<Job> = Vec::new();
        let mut settles = false;
        loop {
            let patience = if settles { Some(Duration::ZERO) } else { self.patience() };
            if !self.inbox.take(&mut jobs, self.enough(), patience) {
                break;
            }
            if self.poison().is_some() {
                // Dropping a call tells its caller.
                jobs.clear();
                self.group.releases.clear();
                self.turn(None, |turn| turn.drop_all_waits());
                self.links.room.notify_waiters();
                continue;
            }
            if settles && jobs.is_empty() {
                // Nobody waits for this; the clients that would ask for something may.
                std::thread::yield_now();
            }
            self.round(&mut jobs);
            settles = self.settle();
        }
        self.round(&mut Vec::new());
        self.finish();
    }

    /// Lets go of records that the tables have; creates that waited for the room go on.
    fn settle(&mut self) -> bool {
        let is_more = self.shard.settle(SETTLE);
        let unsettled = self.links.unsettled_bytes.load(Ordering::Relaxed);
        if unsettled < self.shard.limits.unsettled_of(Lane::Report) || self.feed_queue.trouble().is_some() {
            self.links.room.notify_waiters();
        }
        is_more
    }

    fn round(&mut self, jobs: &mut Vec<Job>) {
        (self.now, self.aged) = (self.clock.now(), self.clock.aged());
        self.elapsed = self.clock.elapsed();
        let mut unwritable = self.unwritable();
        self.publish(&unwritable);
        self.step(&mut unwritable, |turn| turn.run_timers());
        self.step(&mut unwritable, |turn| turn.settle());
        for act in jobs.drain(..) {
            self.step(&mut unwritable, |turn| {
                act(turn);
                turn.settle();
            });
            if self.group.is_closed {
                self.hand_over();
            }
        }
        match &self.sink {
            CommitSink::Journal { committer, .. } if !committer.is_idle() => {}
            _ => self.hand_over_or_linger(),
        }
        self.await_commit();
    }

    /// One turn, in a group that has room for all that it may write.
    fn step(&mut self, unwritable: &mut Option<String>, act: impl FnOnce(&mut Turn<'_>)) {
        if self.group.buffer.len() >= self.room.group {
            self.hand_over();
            *unwritable = self.unwritable();
        }
        self.turn(unwritable.as_deref(), act);
    }

    /// Asks to be woken when the group that is on its way has arrived.
    fn await_commit(&mut self) {
        let CommitSink::Journal { committer, .. } = &self.sink else { return };
        committer.owner_waits.store(true, Ordering::SeqCst);
        // It may have arrived just before it could see the wish.
        if committer.is_idle() && !self.is_group_empty() {
            self.hand_over_or_linger();
        }
    }

    fn hand_over_or_linger(&mut self) {
        let pays = LINGER_GROUPS.contains(&self.last_answers) && self.linger_pause == 0;
        if self.lingering.is_none() && pays && !self.is_group_empty() {
            self.lingering = Some((Instant::now(), self.group.releases.len()));
        }
        if self.lingers().is_none() {
            self.hand_over();
        }
    }

    /// How many more commands, and how long, the group waits though it could be handed over.
    fn lingers(&self) -> Option<(usize, Duration)> {
        let (since, _) = self.lingering?;
        let wanted = (self.last_answers * 2).min(LINGER_GROUPS.end);
        let missing = wanted.checked_sub(self.group.releases.len()).filter(|missing| *missing > 0)?;
        let left = LINGER_MAX.checked_sub(since.elapsed()).filter(|left| !left.is_zero())?;
        matches!(self.sink, CommitSink::Journal { syncs: true, .. }).then_some((missing, left))
    }

    fn turn(&mut self, unwritable: Option<&str>, act: impl FnOnce(&mut Turn<'_>)) {
        let now = self.now.max(self.shard.counters.last);
        let (shard, group, links, room) = (&mut self.shard, &mut self.group, &self.links, self.room);
        let begun = group.buffer.len();
        // A clock that knows no difference goes back with its time; the store's time does not.
        let aged = if self.aged < self.now { self.aged } else { now };
        let (clock_now, elapsed) = (self.now, self.elapsed);
        let appender = match &self.sink {
            CommitSink::Journal { appender, .. } => Some(appender),
            CommitSink::Memory => None,
        };
        act(&mut Turn {
            shard,
            group,
            links,
            room,
            appender,
            begun,
            now,
            aged,
            clock_now,
            elapsed,
            unwritable,
            note: None,
        });
    }

    fn is_group_empty(&self) -> bool {
        self.group.entries == 0 && self.group.releases.is_empty()
    }

    fn poison(&self) -> Option<&str> {
        match &self.sink {
            CommitSink::Journal { committer, .. } => committer.poison(),
            CommitSink::Memory => None,
        }
    }

    /// How many commands are worth waking up for. While a group is on its way the next one only gathers:
    /// the committer wakes the owner when it can be handed over, and until then a few at a time will do.
    fn enough(&self) -> usize {
        match &self.sink {
            CommitSink::Journal { committer, .. } if !committer.is_idle() => GATHER_CALLS_MIN,
            _ => self.lingers().map_or(1, |(missing, _)| missing),
        }
    }

    /// How long to sleep when nothing comes in.
    fn patience(&self) -> Option<Duration> {
        // What is due has to wait until something can be written again.
        if self.poison().is_some() || self.is_unwritable {
            return Some(LONGEST_SLEEP);
        }
        // Who waited could not all be served in one turn.
        let has_more = self.shard.waiting.is_starved() || self.shard.has_sweeps();
        if !self.shard.fed.is_empty() || has_more {
            return Some(Duration::ZERO);
        }
        let due = self.shard.next_due().map(|due| due.since(self.clock.now()));
        let wait = self.shard.waiting.next_deadline().map(|at| at.saturating_sub(self.clock.elapsed()));
        let due = due.into_iter().chain(wait).min().map(|due| due.min(LONGEST_SLEEP));
        let lingers = self.lingers().map(|(_, left)| left);
        due.into_iter().chain(lingers).min()
    }

    /// Why nothing can be written now. If something can, the open group will find room in the journal,
    /// whatever it grows to.
    fn unwritable(&mut self) -> Option<String> {
        let space = self.space();
        let CommitSink::Journal { appender, .. } = &self.sink else { return None };
        match appender.wait_room(self.room.largest_group(), SEGMENT_WAIT_MAX) {
            Err(error) => Some(error.to_string()),
            Ok(()) => space.or_else(|| self.feed_queue.trouble()),
        }
    }

    /// Lets others know whether writing is possible.
    fn publish(&mut self, unwritable: &Option<String>) {
        if unwritable.is_some() || self.is_unwritable {
            self.is_unwritable = unwritable.is_some();
            *self.links.unwritable.lock().expect("no one panics holding the reason") = unwritable.clone();
        }
    }

    fn space(&mut self) -> Option<String> {
        match &self.space_checked {
            Some((at, answer)) if at.elapsed() < LONGEST_SLEEP => answer.clone(),
            _ => {
                let answer = (self.low_space)();
                self.space_checked = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }

    /// Sends the gathered group on its way.
    fn hand_over(&mut self) {
        if self.is_group_empty() {
            return;
        }
        let mut group = std::mem::take(&mut self.group);
        self.last_answers = group.releases.len();
        self.linger_pause = match self.lingering.take() {
            Some((_, before)) if self.last_answers < before + before / 4 + 1 => LINGER_PAUSE,
            _ => self.linger_pause.saturating_sub(1),
        };
        self.group.buffer = vec![0; FRAME_HEADER];
        let counters = self.shard.counters;
        let room = self.shard.changes.len();
        let changes = std::mem::replace(&mut self.shard.changes, Vec::with_capacity(room));
        self.group.releases.reserve(group.releases.len());
        let CommitSink::Journal { appender, committer, syncs } = &mut self.sink else {
            if group.entries > 0 {
                let position = self.shard.position;
                self.shard.unsettled_changes(changes.len());
                self.feed_queue.push(Fed { position, changes, counters });
                self.shard.position += 1;
            }
            return group.release(&self.links);
        };
        // What was decided after a group that did not get written is known to no one.
        if committer.poison().is_some() {
            return;
        }
        let is_settled = committer.durable() + 1 == self.shard.position;
        if group.entries == 0 && is_settled && committer.is_idle() {
            return group.release(&self.links);
        }
        let mut write = None;
        if group.entries > 0 {
            let buffer = std::mem::take(&mut group.buffer);
            // The room was made sure of before the commands took their turns.
            if let Err(error) = appender.ensure_room(buffer.len() - FRAME_HEADER) {
                return committer.give_up(error.to_string());
            }
            self.shard.unsettled_changes(changes.len());
            write = Some(appender.frame(buffer, if *syncs { committer.durable() } else { 0 }));
        }
        if let Some(write) = &write {
            self.shard.position = write.position + 1;
        }
        if let Some(buffer) = committer.hand(PendingCommit { write, group, changes, counters }) {
            self.group.buffer = buffer;
        }
    }

    /// The last group, and an empty frame after it that vouches for it.
    fn finish(&mut self) {
        self.turn(None, |turn| turn.end_all_waits());
        self.hand_over();
        if let CommitSink::Journal { appender, committer, syncs: true } = &mut self.sink
            && committer.poison().is_none()
            && appender.ensure_room(0).is_ok()
        {
            committer.wait_idle();
            let write = Some(appender.frame(vec![0; FRAME_HEADER], committer.durable()));
            let (group, changes) = (Group::default(), Vec::new());
            committer.hand(PendingCommit { write, group, changes, counters: self.shard.counters });
        }
    }
}
