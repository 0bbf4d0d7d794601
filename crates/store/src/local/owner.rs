//! The owner: the one thread that decides everything in a shard.
//!
//! It empties its inbox, runs the timers that are due, lets every command take its turn, and hands the
//! gathered group to the committer. A command sees the state that all earlier commands left, durable or
//! not; its answer waits until that state is durable.

use super::change::Fed;
use super::commit::{Commit, Committer};
use super::feeder::Trough;
use super::inbox::{Inbox, Job};
use super::journal::{Appender, FRAME_HEADER, NoRoom};
use super::shard::{Group, Links, Shard, Turn};
use crate::clock::Clock;
use codeq_queue::Time;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A group is handed over when it has grown to this, though more commands wait.
const GROUP_BYTES: usize = 1 << 20;
/// What commands without a size of their own, timers and served waiters may add to a group before it is
/// looked at again.
const SLACK_BYTES: usize = 4 << 20;
/// Commands that wake the owner while a group is on its way.
const GATHER: usize = 48;
/// Groups of this many answers show that many callers are at it: then it pays to wait a moment for more of
/// them, because a sync costs as much processor time as several commands. Larger groups gather by
/// themselves while the one before them syncs, and a few callers would only be slowed down.
const LINGER_GROUPS: Range<usize> = 8..32;
/// How long a group may be kept waiting for others.
const LINGER: Duration = Duration::from_micros(400);
/// When nobody came, all callers there are wait for this very group: so many groups go at once before it is
/// tried again.
const LINGER_PAUSE: u32 = 200;
/// Records let go of between two rounds of commands.
const SETTLE: usize = 128;
/// A jump of the wall clock is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);
/// How long a spare segment may take before writers are turned away.
const PREPARING: Duration = Duration::from_secs(5);

/// Where groups go to become durable.
pub enum Sink {
    /// Without `syncs` no frame vouches for the ones before it: they may be lost to a power failure.
    Journal { appender: Appender, committer: Arc<Committer>, syncs: bool },
    /// Nothing outlives the process; every group is durable at once.
    Memory,
}

pub struct Owner {
    pub shard: Shard,
    pub inbox: Arc<Inbox>,
    pub links: Arc<Links>,
    pub trough: Arc<Trough>,
    pub clock: Arc<dyn Clock>,
    pub sink: Sink,
    /// Free bytes on the disk below which nothing is written.
    pub low_space: Box<dyn Fn() -> Option<String> + Send>,
    group: Group,
    /// Since when the group waits for more, and the answers that were in it then.
    lingering: Option<(Instant, usize)>,
    linger_pause: u32,
    /// Answers in the group before.
    last_answers: usize,
    /// The time of this round.
    now: Time,
    is_unwritable: bool,
    space_checked: Option<(Instant, Option<String>)>,
}

impl Owner {
    pub fn new(
        shard: Shard,
        links: Arc<Links>,
        trough: Arc<Trough>,
        clock: Arc<dyn Clock>,
        sink: Sink,
        low_space: Box<dyn Fn() -> Option<String> + Send>,
    ) -> Owner {
        let inbox = links.inbox.clone();
        let group = Group { buffer: vec![0; FRAME_HEADER], ..Group::default() };
        Owner {
            shard,
            inbox,
            links,
            trough,
            clock,
            sink,
            low_space,
            group,
            lingering: None,
            linger_pause: 0,
            last_answers: 0,
            now: Time::ZERO,
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

    /// Lets go of records that the tree has; creates that waited for the room go on.
    fn settle(&mut self) -> bool {
        let is_more = self.shard.settle(SETTLE);
        let unsettled = self.links.unsettled_bytes.load(Ordering::Relaxed);
        if unsettled < self.shard.limits.unsettled_bytes || self.trough.trouble().is_some() {
            self.links.room.notify_waiters();
        }
        is_more
    }

    fn round(&mut self, jobs: &mut Vec<Job>) {
        self.now = self.clock.now();
        let mut unwritable = self.unwritable(0);
        self.publish(&unwritable);
        self.turn(unwritable.as_deref(), |turn| turn.run_timers());
        for Job { act, bytes } in jobs.drain(..) {
            if bytes > 0 || self.group.buffer.len() >= GROUP_BYTES {
                if self.group.buffer.len() >= GROUP_BYTES {
                    self.hand_over();
                }
                unwritable = self.unwritable(bytes);
            }
            self.turn(unwritable.as_deref(), |turn| {
                act(turn);
                turn.settle();
            });
        }
        match &self.sink {
            Sink::Journal { committer, .. } if !committer.is_idle() => {}
            _ => self.hand_over_or_linger(),
        }
        self.await_commit();
    }

    /// Asks to be woken when the group that is on its way has arrived.
    fn await_commit(&mut self) {
        let Sink::Journal { committer, .. } = &self.sink else { return };
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
        let left = LINGER.checked_sub(since.elapsed()).filter(|left| !left.is_zero())?;
        matches!(self.sink, Sink::Journal { syncs: true, .. }).then_some((missing, left))
    }

    fn turn(&mut self, unwritable: Option<&str>, act: impl FnOnce(&mut Turn<'_>)) {
        let now = self.now.max(self.shard.counters.last);
        let (shard, group, links) = (&mut self.shard, &mut self.group, &self.links);
        act(&mut Turn { shard, group, links, now, unwritable });
    }

    fn is_group_empty(&self) -> bool {
        self.group.entries == 0 && self.group.releases.is_empty()
    }

    fn poison(&self) -> Option<&str> {
        match &self.sink {
            Sink::Journal { committer, .. } => committer.poison(),
            Sink::Memory => None,
        }
    }

    /// How many commands are worth waking up for. While a group is on its way the next one only gathers:
    /// the committer wakes the owner when it can be handed over, and until then a few at a time will do.
    fn enough(&self) -> usize {
        match &self.sink {
            Sink::Journal { committer, .. } if !committer.is_idle() => GATHER,
            _ => self.lingers().map_or(1, |(missing, _)| missing),
        }
    }

    /// How long to sleep when nothing comes in.
    fn patience(&self) -> Option<Duration> {
        // What is due has to wait until something can be written again.
        if self.poison().is_some() || self.is_unwritable {
            return Some(LONGEST_SLEEP);
        }
        let due = self.shard.next_due().map(|due| due.since(self.clock.now()).min(LONGEST_SLEEP));
        let lingers = self.lingers().map(|(_, left)| left);
        due.into_iter().chain(lingers).min()
    }

    /// Why a command of this size cannot write now.
    fn unwritable(&mut self, bytes: usize) -> Option<String> {
        let space = self.space();
        let gathered = self.group.buffer.len();
        let Sink::Journal { appender, .. } = &mut self.sink else { return None };
        let slack = SLACK_BYTES.min(appender.max_payload() / 4);
        let wanted = gathered + bytes + slack;
        let room = match appender.ensure_room(wanted) {
            Err(NoRoom::Preparing) => appender.wait_room(wanted, PREPARING),
            answer => answer,
        };
        match room {
            Err(error) => Some(error.to_string()),
            Ok(()) => space.or_else(|| self.trough.trouble()),
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
        let Sink::Journal { appender, committer, syncs } = &mut self.sink else {
            if group.entries > 0 {
                let position = self.shard.position;
                self.trough.push(Fed { position, changes, counters });
                self.shard.position += 1;
            }
            return group.release(&self.links);
        };
        let is_settled = committer.durable() + 1 == self.shard.position;
        if group.entries == 0 && is_settled && committer.is_idle() {
            return group.release(&self.links);
        }
        // The room was made sure of before the commands took their turns; this only catches an estimate
        // that was too low, and then nothing of the group may be acknowledged.
        let bytes = group.buffer.len();
        let room = appender.ensure_room(bytes).or_else(|_| appender.wait_room(bytes, PREPARING));
        if let Err(error) = room.as_ref()
            && group.entries > 0
        {
            return committer.give_up(error.to_string());
        }
        let write = (group.entries > 0).then(|| {
            let buffer = std::mem::take(&mut group.buffer);
            appender.frame(buffer, if *syncs { committer.durable() } else { 0 })
        });
        if let Some(write) = &write {
            self.shard.position = write.position + 1;
        }
        if let Some(buffer) = committer.hand(Commit { write, group, changes, counters }) {
            self.group.buffer = buffer;
        }
    }

    /// The last group, and an empty frame after it that vouches for it.
    fn finish(&mut self) {
        self.turn(None, |turn| turn.end_all_waits());
        self.hand_over();
        if let Sink::Journal { appender, committer, syncs: true } = &mut self.sink
            && committer.poison().is_none()
            && appender.ensure_room(0).is_ok()
        {
            committer.wait_idle();
            let write = Some(appender.frame(vec![0; FRAME_HEADER], committer.durable()));
            let (group, changes) = (Group::default(), Vec::new());
            committer.hand(Commit { write, group, changes, counters: self.shard.counters });
        }
    }
}
