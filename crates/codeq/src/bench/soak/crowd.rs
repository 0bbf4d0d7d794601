//! What producers and workers of a soak share: how fast, how long, and what came of it.

use super::super::meter::{histogram, record};
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

pub const COMMAND: &str = "soak";
/// Seconds that a worker may hold a task. A worker that dies delays its task by this much.
pub const LEASE_SECONDS: i32 = 3;
/// Tasks that may be under way while the producers run as fast as they can.
const MOST_UNFINISHED: u64 = 4000;
/// A producer that is later than this has lost the time; it does not send all it missed at once.
const LATEST: Duration = Duration::from_millis(500);
/// How soon a producer looks again whether there is room.
const PAUSE: Duration = Duration::from_millis(5);

pub struct Crowd {
    pub http: SocketAddr,
    pub producer: SocketAddr,
    pub worker: SocketAddr,
    /// Creates a second of all producers together; 0: as fast as they can.
    rate: AtomicU64,
    producers: u64,
    pub created: AtomicU64,
    pub ended: AtomicU64,
    pub replayed: AtomicU64,
    /// Answers 429 and 503.
    pub refused: AtomicU64,
    /// Reports that came too late.
    pub late: AtomicU64,
    /// Workers that dropped their connection while they held a task.
    pub died: AtomicU64,
    latencies: Mutex<Histogram<u64>>,
    /// Nothing more is created.
    pub is_over: CancellationToken,
    /// Nothing more is worked on.
    pub is_done: CancellationToken,
}

impl Crowd {
    pub fn new(http: SocketAddr, producer: SocketAddr, worker: SocketAddr, producers: u64) -> Crowd {
        let zero = || AtomicU64::new(0);
        Crowd {
            http,
            producer,
            worker,
            rate: zero(),
            producers,
            created: zero(),
            ended: zero(),
            replayed: zero(),
            refused: zero(),
            late: zero(),
            died: zero(),
            latencies: Mutex::new(histogram()),
            is_over: CancellationToken::new(),
            is_done: CancellationToken::new(),
        }
    }

    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate.max(1), Ordering::Relaxed);
    }

    pub fn record(&self, elapsed: Duration) {
        record(&mut self.latencies.lock().unwrap_or_else(PoisonError::into_inner), elapsed);
    }

    /// What was recorded since the last call.
    pub fn take_latencies(&self) -> Histogram<u64> {
        std::mem::replace(&mut *self.latencies.lock().unwrap_or_else(PoisonError::into_inner), histogram())
    }

    fn has_room(&self) -> bool {
        let unfinished = count(&self.created).saturating_sub(count(&self.ended));
        count(&self.rate) > 0 || unfinished < MOST_UNFINISHED
    }
}

pub fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

pub fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// When a producer creates next.
pub struct Pace {
    next: Instant,
}

impl Pace {
    pub fn new() -> Pace {
        Pace { next: Instant::now() }
    }

    /// Returns when it is time; dropped and called again, it waits for the same moment.
    pub async fn wait(&mut self, crowd: &Crowd) {
        while !crowd.has_room() {
            tokio::time::sleep(PAUSE).await;
        }
        let rate = count(&crowd.rate);
        if rate == 0 {
            self.next = Instant::now();
            return;
        }
        self.next = self.next.max(Instant::now().checked_sub(LATEST).unwrap_or(self.next));
        tokio::time::sleep_until(self.next.into()).await;
        self.next += Duration::from_secs_f64(crowd.producers as f64 / rate as f64);
    }
}

/// What a producer asks for.
pub enum Wish {
    Plain,
    Delayed,
    Keyed,
    /// The last keyed create once more.
    Repeated,
}

/// What a worker does with a task.
pub enum Deed {
    Complete,
    Fail,
    Nack,
    Abandon,
    Die,
}

/// Chance, the same in every run.
pub struct Dice(SmallRng);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(SmallRng::seed_from_u64(seed))
    }

    pub fn wish(&mut self) -> Wish {
        match self.0.random_range(0..100) {
            0..10 => Wish::Delayed,
            10..20 => Wish::Keyed,
            20..30 => Wish::Repeated,
            _ => Wish::Plain,
        }
    }

    pub fn deed(&mut self) -> Deed {
        match self.0.random_range(0..1000) {
            0..2 => Deed::Die,
            2..32 => Deed::Nack,
            32..62 => Deed::Abandon,
            62..92 => Deed::Fail,
            _ => Deed::Complete,
        }
    }
}
