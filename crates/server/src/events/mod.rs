//! The event stream: everything that happens, for those who listen.
//!
//! The store reports everything to the [`Feed`] once it is durable. While somebody listens, and for a while after,
//! the feed keeps the last events for readers that come back; without listeners it costs nothing. A reader that
//! cannot keep up learns how much it missed. Where other processes serve the same keyspace, what they do is
//! heard as well ([`others`]) and gets the feed's own numbers: an id means something to the process that gave
//! it, and any other answers it with `lagged`. Best effort: nothing here decides anything.

mod notice;
mod others;

pub use notice::{KINDS, Notice, Wanted};

use codeq_queue::{Event, Shared};
use others::{Heard, Others};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Events kept for readers that come back.
const KEPT: usize = 10_000;
/// How long events are kept on after the last reader has gone.
const LINGER: Duration = Duration::from_secs(60);
/// Readers are served in rounds of this length.
const ROUND: Duration = Duration::from_millis(50);
/// Events told in one round to all readers together, and what each may have of it at least and at most: a
/// hundred open dashboards must not slow the work they show.
const TOLD_TO_ALL: usize = 1000;
const TOLD_TO_ONE: std::ops::RangeInclusive<usize> = 20..=500;

#[derive(Default)]
struct Kept {
    entries: VecDeque<Entry>,
    /// The number of the next entry.
    next: u64,
}

enum Entry {
    Event(Notice),
    /// The number of events missing here; zero if unknown.
    Missed(u64),
}

pub struct Feed {
    /// Tells the numbers of this process from those of others.
    epoch: u64,
    kept: Mutex<Kept>,
    readers: AtomicUsize,
    /// Milliseconds since `start` until which events are kept without a reader.
    keeps_until: AtomicU64,
    start: Instant,
    news: Notify,
    /// Set where there may be other processes.
    others: OnceLock<Others>,
}

impl Feed {
    pub fn new() -> Feed {
        Feed {
            epoch: rand::random(),
            kept: Mutex::default(),
            readers: AtomicUsize::new(0),
            keeps_until: AtomicU64::new(0),
            start: Instant::now(),
            news: Notify::new(),
            others: OnceLock::new(),
        }
    }

    /// From now on what other processes do is told too, and what this one does is told to them.
    pub fn join(self: &Arc<Feed>, shared: &Arc<dyn Shared>) {
        let feed = Arc::downgrade(self);
        let _ = self.others.set(Others::new(self.epoch, shared.clone()));
        shared.hear_events(Arc::new(move |event: Option<&str>| {
            if let Some(feed) = feed.upgrade() {
                feed.hear(event);
            }
        }));
    }

    /// Tells the other processes that somebody listens here; returns when they were told, or cannot be.
    pub async fn announce(&self) {
        if let Some(others) = self.others.get() {
            others.announce().await;
        }
    }

    /// For ever: tells it again while somebody listens.
    pub async fn keep_announcing(self: Arc<Feed>) {
        loop {
            tokio::time::sleep(others::AGAIN).await;
            if self.is_wanted() {
                self.announce().await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether anybody listens, or did a while ago and may come back.
    fn is_wanted(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0 || self.keeps_until.load(Ordering::Relaxed) > self.millis()
    }

    /// Called by the store between two commits.
    pub fn observe(&self, events: &[Event]) {
        if let Some(others) = self.others.get() {
            others.tell(events);
        }
        if self.is_wanted() {
            self.keep(events.iter().map(|event| Entry::Event(Notice::of(event))));
        }
    }

    /// Something has come from another process, or may not have.
    fn hear(&self, event: Option<&str>) {
        let Some(others) = self.others.get().filter(|_| self.is_wanted()) else { return };
        let Heard { missed, notice } = others.hear(event);
        let missed = missed.map(Entry::Missed);
        let entries: Vec<Entry> = missed.into_iter().chain(notice.map(Entry::Event)).collect();
        if !entries.is_empty() {
            self.keep(entries.into_iter());
        }
    }

    fn keep(&self, entries: impl ExactSizeIterator<Item = Entry>) {
        let mut kept = self.lock();
        kept.next += entries.len() as u64;
        let too_many = entries.len().saturating_sub(KEPT);
        let excess = (kept.entries.len() + entries.len() - too_many).saturating_sub(KEPT);
        kept.entries.drain(..excess);
        kept.entries.extend(entries.skip(too_many));
        drop(kept);
        self.news.notify_waiters();
    }

    /// Listens from now on, or from behind the event with this id.
    pub fn listen(self: &Arc<Feed>, wanted: Wanted, last_id: Option<&str>) -> Reader {
        if self.readers.fetch_add(1, Ordering::Relaxed) == 0
            && self.keeps_until.load(Ordering::Relaxed) <= self.millis()
        {
            // Nothing was kept meanwhile: whoever comes back has missed it.
            let mut kept = self.lock();
            kept.entries.clear();
            kept.next += 1;
            if let Some(others) = self.others.get() {
                others.forget();
            }
        }
        let now = self.lock().next;
        let (from, missed) = match last_id.map(|id| self.place(id)) {
            None => (now, None),
            Some(Some(next)) if next <= now => (next, None),
            Some(_) => (now, Some(0)),
        };
        Reader { feed: self.clone(), wanted, from, missed, told: None }
    }

    /// The number behind the event with this id, if the id is of this process.
    fn place(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.split_once('-')?;
        let is_ours = u64::from_str_radix(epoch, 16) == Ok(self.epoch);
        u64::from_str_radix(number, 16).ok().filter(|_| is_ours)?.checked_add(1)
    }

    fn share(&self) -> usize {
        let readers = self.readers.load(Ordering::Relaxed).max(1);
        (TOLD_TO_ALL / readers).clamp(*TOLD_TO_ONE.start(), *TOLD_TO_ONE.end())
    }
}

/// What a reader is told.
#[derive(Clone, Debug)]
pub enum News {
    Event {
        id: String,
        notice: Notice,
    },
    /// So many events could not be told; zero if nobody knows.
    Lagged {
        missed: u64,
    },
}

pub struct Reader {
    feed: Arc<Feed>,
    wanted: Wanted,
    /// The number of the next event to look at.
    from: u64,
    missed: Option<u64>,
    /// When news were last told.
    told: Option<tokio::time::Instant>,
}

impl Reader {
    /// The next news, waited for.
    pub async fn next(&mut self) -> Vec<News> {
        loop {
            let feed = self.feed.clone();
            let arrival = feed.news.notified();
            tokio::pin!(arrival);
            // From here on nothing is overheard.
            arrival.as_mut().enable();
            if let Some(told) = self.told {
                tokio::time::sleep_until(told + ROUND).await;
            }
            let news = self.take();
            if !news.is_empty() {
                self.told = Some(tokio::time::Instant::now());
                return news;
            }
            arrival.await;
            // What comes together is told together.
            self.told.get_or_insert_with(tokio::time::Instant::now);
        }
    }

    fn take(&mut self) -> Vec<News> {
        let kept = self.feed.lock();
        let first = kept.next - kept.entries.len() as u64;
        let mut missed = self.missed.take();
        let mut miss = |count: u64| missed = Some(missed.unwrap_or(0) + count);
        if self.from < first {
            miss(first - self.from);
            self.from = first;
        }
        let mut found: Vec<(u64, Notice)> = Vec::new();
        let share = self.feed.share();
        let skipped = usize::try_from(self.from - first).unwrap_or(usize::MAX);
        for (number, entry) in (self.from..).zip(kept.entries.iter().skip(skipped)) {
            match entry {
                Entry::Missed(count) => miss(*count),
                Entry::Event(notice) if !self.wanted.takes(notice) => {}
                Entry::Event(notice) if found.len() < share => found.push((number, notice.clone())),
                Entry::Event(_) => miss(1),
            }
        }
        self.from = kept.next;
        drop(kept);
        let epoch = self.feed.epoch;
        let told = found
            .into_iter()
            .map(|(number, notice)| News::Event { id: format!("{epoch:x}-{number:x}"), notice });
        missed.map(|missed| News::Lagged { missed }).into_iter().chain(told).collect()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let until = self.feed.millis() + u64::try_from(LINGER.as_millis()).unwrap_or(u64::MAX);
        self.feed.keeps_until.store(until, Ordering::Relaxed);
        self.feed.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
