//! The event stream: what happens, told to whoever listens.
//!
//! The store tells the [`Feed`] everything once it is durable. The feed keeps the last events for readers
//! that come back, while somebody listens and a while after; nobody listening costs nothing. A reader that
//! cannot keep up is told how much it missed. Best effort: nothing here decides anything.

use codeq_queue::event::{Event, What};
use codeq_queue::{State, TaskId, Time};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// Which events a reader wants.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub tenant: Arc<str>,
    /// Lower-cased.
    pub command: Option<String>,
    pub task: Option<TaskId>,
    /// Empty is all.
    pub types: Vec<String>,
}

impl Wanted {
    fn takes(&self, event: &Event) -> bool {
        event.queue.tenant == self.tenant
            && self.command.as_deref().is_none_or(|command| *event.queue.command == *command)
            && self.task.is_none_or(|task| event.task == Some(task))
            && (self.types.is_empty() || self.types.iter().any(|kind| kind == kind_of(&event.what)))
    }
}

/// The word for what happened.
pub fn kind_of(what: &What) -> &'static str {
    match what {
        What::Created => "created",
        What::Claimed { .. } => "claimed",
        What::Returned { .. } | What::Reopened => "requeued",
        What::Promoted => "promoted",
        What::Ended { state, .. } => match state {
            State::Completed => "completed",
            State::Dead => "dead",
            State::Cancelled => "cancelled",
            _ => "failed",
        },
        What::Paused => "paused",
        What::Resumed => "resumed",
    }
}

pub const KINDS: [&str; 10] = [
    "created",
    "claimed",
    "completed",
    "failed",
    "requeued",
    "dead",
    "cancelled",
    "promoted",
    "paused",
    "resumed",
];

#[derive(Default)]
struct Kept {
    events: VecDeque<Event>,
    /// The number of the next event.
    next: u64,
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
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Called by the store between two commits.
    pub fn observe(&self, events: &[Event]) {
        if self.readers.load(Ordering::Relaxed) == 0
            && self.keeps_until.load(Ordering::Relaxed) <= self.millis()
        {
            return;
        }
        let mut kept = self.lock();
        kept.next += events.len() as u64;
        let newest = &events[events.len().saturating_sub(KEPT)..];
        let excess = (kept.events.len() + newest.len()).saturating_sub(KEPT);
        kept.events.drain(..excess);
        kept.events.extend(newest.iter().cloned());
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
            kept.events.clear();
            kept.next += 1;
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
        event: Event,
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
        let first = kept.next - kept.events.len() as u64;
        let mut missed = self.missed.take();
        if self.from < first {
            missed = Some(missed.unwrap_or(0) + first - self.from);
            self.from = first;
        }
        let mut found: Vec<(u64, Event)> = Vec::new();
        let share = self.feed.share();
        let skipped = usize::try_from(self.from - first).unwrap_or(usize::MAX);
        let mut unheard = 0;
        for (number, event) in (self.from..).zip(kept.events.iter().skip(skipped)) {
            if self.wanted.takes(event) {
                match found.len() < share {
                    true => found.push((number, event.clone())),
                    false => unheard += 1,
                }
            }
        }
        self.from = kept.next;
        drop(kept);
        if unheard > 0 {
            missed = Some(missed.unwrap_or(0) + unheard);
        }
        let epoch = self.feed.epoch;
        let told = found
            .into_iter()
            .map(|(number, event)| News::Event { id: format!("{epoch:x}-{number:x}"), event });
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

/// What an event tells besides its type, task and queue.
pub struct Told<'a> {
    pub attempt: Option<u32>,
    pub worker_id: Option<&'a str>,
    pub status: Option<&'static str>,
    pub error: Option<&'a str>,
    pub at: Time,
}

impl<'a> Told<'a> {
    pub fn of(event: &'a Event) -> Told<'a> {
        let plain = Told { attempt: None, worker_id: None, status: None, error: None, at: event.at };
        match &event.what {
            What::Created | What::Promoted | What::Reopened => Told { status: Some("PENDING"), ..plain },
            What::Claimed { owner, attempt, .. } => Told {
                attempt: Some(*attempt),
                worker_id: Some(&owner.worker_id),
                status: Some("IN_PROGRESS"),
                ..plain
            },
            What::Returned { attempt, owner, error, .. } => Told {
                attempt: Some(*attempt),
                worker_id: owner.as_ref().map(|owner| &*owner.worker_id),
                status: Some("PENDING"),
                error: error.as_deref(),
                ..plain
            },
            What::Ended { state, attempt, owner, error, .. } => Told {
                attempt: Some(*attempt).filter(|attempt| *attempt > 0),
                worker_id: owner.as_ref().map(|owner| &*owner.worker_id),
                status: Some(state.status().word()),
                error: error.as_deref(),
                ..plain
            },
            What::Paused | What::Resumed => plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::QueueKey;

    fn event(n: u64, tenant: &str) -> Event {
        Event {
            at: Time::ZERO,
            queue: QueueKey::new(tenant, "Render"),
            command: "Render".into(),
            task: Some(TaskId::from_bits(u128::from(n))),
            what: What::Created,
            has_filled: false,
        }
    }

    fn tasks(news: &[News]) -> Vec<TaskId> {
        let task = |news: &News| match news {
            News::Event { event, .. } => event.task,
            News::Lagged { .. } => None,
        };
        news.iter().filter_map(task).collect()
    }

    fn wanted() -> Wanted {
        Wanted { tenant: "acme".into(), ..Wanted::default() }
    }

    #[tokio::test]
    async fn a_reader_hears_its_tenant_and_goes_on_where_it_was() {
        let feed = Arc::new(Feed::new());
        feed.observe(&[event(1, "acme")]);
        let mut reader = feed.listen(wanted(), None);
        feed.observe(&[event(2, "acme"), event(3, "other"), event(4, "acme")]);
        let heard = reader.next().await;
        assert_eq!(tasks(&heard), [TaskId::from_bits(2), TaskId::from_bits(4)], "from now on, ours only");
        let News::Event { id, .. } = &heard[0] else { panic!("an event") };
        drop(reader);
        feed.observe(&[event(5, "acme")]);
        let mut again = feed.listen(wanted(), Some(id));
        assert_eq!(tasks(&again.next().await), [TaskId::from_bits(4), TaskId::from_bits(5)]);
    }

    #[tokio::test]
    async fn who_comes_too_late_is_told_so() {
        let feed = Arc::new(Feed::new());
        let mut reader = feed.listen(wanted(), None);
        let many: Vec<Event> = (0..KEPT as u64 + 7).map(|n| event(n + 1, "acme")).collect();
        feed.observe(&many);
        let heard = reader.next().await;
        let lost = many.len() - TOLD_TO_ONE.end();
        assert!(matches!(heard[0], News::Lagged { missed } if missed == lost as u64), "{:?}", heard[0]);
        assert_eq!(heard.len(), TOLD_TO_ONE.end() + 1);
        for foreign in ["", "x", "0-1", "ffff-0"] {
            let mut other = feed.listen(wanted(), Some(foreign));
            assert!(matches!(other.next().await[0], News::Lagged { .. }), "{foreign}");
        }
    }

    #[tokio::test]
    async fn filters_choose_among_events() {
        let feed = Arc::new(Feed::new());
        let chosen = Wanted {
            command: Some("render".into()),
            task: Some(TaskId::from_bits(2)),
            types: vec!["created".into()],
            ..wanted()
        };
        let mut reader = feed.listen(chosen, None);
        feed.observe(&[event(1, "acme"), event(2, "acme")]);
        assert_eq!(tasks(&reader.next().await), [TaskId::from_bits(2)]);
    }
}
