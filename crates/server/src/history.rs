//! What charts show: how every queue went over the last day.
//!
//! The store's events are counted as they happen; every five seconds the counts are stored together with
//! the depth of each queue, for an hour in steps of five seconds and for a day in minutes. The history lives in
//! memory; beside an embedded store it is saved now and then, and goes on after a restart ([`saved`]). Over a store that several processes share, each counts what it did itself.

pub mod saved;
mod series;
mod shown;

pub use shown::{Shown, ShownQueue};

use crate::broker::Broker;
use codeq_queue::event::{Event, What};
use codeq_queue::{QueueKey, QueueStats, State, Time};
use hashbrown::HashMap;
use series::{FINE, Sample, Series, UNIT};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Between two samples.
pub const STEP: Duration = Duration::from_secs(5);
const STEP_MILLIS: i64 = 5_000;
/// Queues that have a history. A further one takes the place of one that was quiet for an hour.
const QUEUES: usize = 256;
/// A queue that was quiet for this many steps is forgotten: nothing of it is left to show.
const FORGOTTEN: u32 = 24 * 3600 / 5;

const _: () = assert!(QUEUES * Series::BYTES <= 64 << 20, "a day of history takes 64 MiB at most");

pub struct History {
    since: Time,
    gathered: Mutex<Gathered>,
    kept: Mutex<Kept>,
}

/// What happened since the last sample.
#[derive(Default)]
struct Gathered {
    slots: HashMap<QueueKey, usize>,
    samples: Vec<Sample>,
    /// The queue of the last event: the next one is mostly of the same.
    last: Option<(QueueKey, usize)>,
}

struct Kept {
    /// The number of the newest sample, counted from the epoch.
    step: i64,
    series: HashMap<QueueKey, Series>,
}

impl History {
    pub fn new(now: Time) -> History {
        let kept = Kept { step: step_of(now), series: HashMap::new() };
        History { since: now, gathered: Mutex::default(), kept: Mutex::new(kept) }
    }

    /// Counts what has happened. Quick: it runs between two commits.
    pub fn observe(&self, events: &[Event]) {
        let mut gathered = lock(&self.gathered);
        for event in events {
            if let Some(sample) = gathered.sample(&event.queue) {
                count(sample, event);
            }
        }
    }

    /// Puts away what was gathered up to `now`, with the depths of the queues.
    pub fn sample(&self, now: Time, queues: &[QueueStats]) {
        let step = step_of(now);
        let mut kept = lock(&self.kept);
        if step <= kept.step {
            return;
        }
        // Steps that were missed, because the machine slept for instance, stay empty.
        for missed in (step - i64::try_from(FINE).unwrap_or(i64::MAX)).max(kept.step + 1)..step {
            kept.put(missed, HashMap::new());
        }
        let mut samples = lock(&self.gathered).take();
        for queue in queues {
            let key = QueueKey::new(&queue.tenant, &queue.command);
            let (command, sample) = samples.entry(key).or_default();
            *command = Some(queue.command.clone());
            sample.depth = [queue.ready_total(), queue.delayed, queue.in_progress, queue.dead]
                .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        }
        kept.put(step, samples);
    }
}

type Samples = HashMap<QueueKey, (Option<Arc<str>>, Sample)>;

impl Gathered {
    fn sample(&mut self, queue: &QueueKey) -> Option<&mut Sample> {
        let is_last = |known: &QueueKey| {
            Arc::ptr_eq(&known.command, &queue.command) && Arc::ptr_eq(&known.tenant, &queue.tenant)
        };
        let slot = match &self.last {
            Some((known, slot)) if is_last(known) => *slot,
            _ => self.slot(queue)?,
        };
        self.samples.get_mut(slot)
    }

    fn slot(&mut self, queue: &QueueKey) -> Option<usize> {
        let slot = match self.slots.get(queue) {
            Some(slot) => *slot,
            None if self.samples.len() >= QUEUES => return None,
            None => {
                self.samples.push(Sample::default());
                self.slots.insert(queue.clone(), self.samples.len() - 1);
                self.samples.len() - 1
            }
        };
        self.last = Some((queue.clone(), slot));
        Some(slot)
    }

    fn take(&mut self) -> Samples {
        let Gathered { slots, samples, .. } = std::mem::take(self);
        slots.into_iter().map(|(queue, slot)| (queue, (None, samples[slot].clone()))).collect()
    }
}

fn count(sample: &mut Sample, event: &Event) {
    let add = |counter: &mut u32| *counter = counter.saturating_add(1);
    match &event.what {
        What::Created => add(&mut sample.created),
        What::Claimed { .. } => add(&mut sample.claimed),
        What::Returned { .. } => add(&mut sample.returned),
        What::Ended { state, created_at, .. } => {
            match state {
                State::Completed => add(&mut sample.completed),
                _ => add(&mut sample.failed),
            }
            sample.took(event.at.since(*created_at));
        }
        What::Progress { .. }
        | What::Promoted
        | What::Released
        | What::Reopened
        | What::Paused
        | What::Resumed
        | What::Ticked { .. } => {}
    }
}

impl Kept {
    /// One sample for every queue: a queue that nothing is told of was empty and quiet.
    fn put(&mut self, step: i64, mut samples: Samples) {
        self.step = step;
        let is_minute = (step + 1) % UNIT == 0;
        self.series.retain(|queue, series| {
            let (command, sample) = samples.remove(queue).unwrap_or_default();
            series.put(command, sample, is_minute);
            series.quiet < FORGOTTEN
        });
        for (queue, (command, sample)) in samples {
            if sample.is_quiet() || !self.has_room() {
                continue;
            }
            let mut series = Series::new(queue.command.clone());
            series.put(command, sample, is_minute);
            self.series.insert(queue, series);
        }
    }

    fn has_room(&mut self) -> bool {
        if self.series.len() < QUEUES {
            return true;
        }
        let quiet = |series: &Series| usize::try_from(series.quiet).unwrap_or(usize::MAX);
        let quietest = self.series.iter().max_by_key(|(_, series)| series.quiet);
        let quietest = quietest.filter(|(_, series)| quiet(series) >= FINE).map(|(queue, _)| queue.clone());
        quietest.is_some_and(|queue| self.series.remove(&queue).is_some())
    }
}

fn step_of(time: Time) -> i64 {
    time.millis().div_euclid(STEP_MILLIS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes samples until dropped, and saves them in this directory, if there is one.
pub async fn keep(history: Arc<History>, broker: Arc<Broker>, directory: Option<PathBuf>) {
    // In the middle of a step: a tick that comes a little early or late still falls into its own.
    let phase = broker.now().millis().rem_euclid(STEP_MILLIS);
    let wait = (STEP_MILLIS / 2 - phase).rem_euclid(STEP_MILLIS);
    let first = Instant::now() + Duration::from_millis(u64::try_from(wait).unwrap_or(0));
    let mut round = tokio::time::interval_at(first, STEP);
    let mut save_at = first + saved::EVERY;
    loop {
        round.tick().await;
        if let Some(directory) = directory.clone()
            && Instant::now() >= save_at
        {
            save(history.clone(), directory).await;
            save_at = Instant::now() + saved::EVERY;
        }
        // Counts wait for a store that is away; depths are not made up.
        if let Ok(queues) = broker.queues(None).await {
            history.sample(broker.now(), &queues);
        }
    }
}

/// Saves the history; a file that cannot be written costs charts only, and is told.
pub async fn save(history: Arc<History>, directory: PathBuf) {
    let saving = tokio::task::spawn_blocking(move || saved::save(&history, &directory)).await;
    if let Ok(Err(error)) = saving {
        tracing::warn!(err = %error, "cannot save the history of the charts");
    }
}

#[cfg(test)]
mod tests;
