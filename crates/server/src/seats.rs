//! Seats: one for every connection, over all listeners together.
//!
//! There are as many as the process may have files open, less what the store and the webhooks need. A
//! connection is a stranger's until a token was accepted on it, and strangers get [`STRANGER_CONNECTIONS_MAX`] seats at most.
//! When seats run out, or strangers are too many, the one that has waited longest without asking for anything
//! gives up its seat: strangers first, then idle connections. So idle connections never keep a new caller
//! waiting.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Connections on which no token was accepted yet. Each may hold 64 KiB.
pub const STRANGER_CONNECTIONS_MAX: usize = 4096;
/// How often those who wait for a seat look again whether somebody has begun to idle.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Connections that are looked at to find one that idles.
const LOOKED_AT: usize = 4096;
/// Nobody is sent away who has waited for less: an answer may still be on its way.
const LEAST_WAIT: Duration = Duration::from_millis(100);
/// Not waiting.
const BUSY: u64 = u64::MAX;

pub struct Seats {
    most: usize,
    most_strangers: usize,
    start: Instant,
    book: Mutex<Book>,
    freed: Notify,
}

#[derive(Default)]
struct Book {
    taken: usize,
    /// Numbers rise with arrival.
    arrivals: u64,
    strangers: BTreeMap<u64, Arc<Sitting>>,
    known: BTreeMap<u64, Arc<Sitting>>,
    /// The last known connection that was looked at.
    looked_at: u64,
}

struct Sitting {
    number: u64,
    /// Milliseconds after the start, or [`BUSY`].
    waits_since: AtomicU64,
    is_known: AtomicBool,
    leave: CancellationToken,
}

/// The seat of one connection; free again when dropped.
pub struct Seat {
    reserved: Reserved,
    sitting: Arc<Sitting>,
}

impl Seats {
    pub fn new(most: usize) -> Arc<Seats> {
        let most_strangers = STRANGER_CONNECTIONS_MAX.min(most / 2).max(1);
        let (book, freed) = (Mutex::default(), Notify::new());
        Arc::new(Seats { most, most_strangers, start: Instant::now(), book, freed })
    }

    /// A seat for the next connection, as soon as there is one.
    pub async fn reserve(self: &Arc<Self>) -> Reserved {
        while !self.try_reserve() {
            let freed = self.freed.notified();
            self.make_room();
            let _ = tokio::time::timeout(LOOK_AGAIN, freed).await;
        }
        Reserved { seats: self.clone() }
    }

    fn try_reserve(&self) -> bool {
        let mut book = self.book();
        let is_free = book.taken < self.most;
        book.taken += usize::from(is_free);
        is_free
    }

    /// Asks the one to leave that has waited longest.
    fn make_room(&self) {
        let (mut book, now) = (self.book(), self.now());
        let _ = book.dismiss_stranger(now) || book.dismiss_idle(now);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(BUSY - 1)
    }

    fn free(&self) {
        self.book().taken -= 1;
        self.freed.notify_one();
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn dismiss_stranger(&mut self, now: u64) -> bool {
        let longest = self.strangers.iter().find(|(_, sitting)| sitting.waits(now)).map(|(at, _)| *at);
        let Some(sitting) = longest.and_then(|at| self.strangers.remove(&at)) else { return false };
        sitting.leave.cancel();
        true
    }

    /// Goes on where the last look ended, so that a look costs the same however many there are.
    fn dismiss_idle(&mut self, now: u64) -> bool {
        let later = self.known.range(self.looked_at + 1..);
        let found = later.chain(self.known.iter()).take(LOOKED_AT).inspect(|(at, _)| self.looked_at = **at);
        let found = found.filter(|(_, sitting)| sitting.waits(now)).map(|(at, _)| *at).next();
        let Some(sitting) = found.and_then(|at| self.known.remove(&at)) else { return false };
        sitting.leave.cancel();
        true
    }
}

/// A seat that nobody has taken yet.
pub struct Reserved {
    seats: Arc<Seats>,
}

impl Reserved {
    /// Somebody has come, who is a stranger.
    pub fn occupy(self) -> Seat {
        let mut book = self.seats.book();
        book.arrivals += 1;
        let number = book.arrivals;
        let now = self.seats.now();
        let sitting = Arc::new(Sitting {
            number,
            waits_since: AtomicU64::new(now),
            is_known: AtomicBool::new(false),
            leave: CancellationToken::new(),
        });
        book.strangers.insert(number, sitting.clone());
        if book.strangers.len() > self.seats.most_strangers {
            book.dismiss_stranger(now);
        }
        drop(book);
        Seat { reserved: self, sitting }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.seats.free();
    }
}

impl Seat {
    /// Resolves when the seat has to be given up.
    pub fn dismissed(&self) -> CancellationToken {
        self.sitting.leave.clone()
    }

    /// A token was accepted.
    pub fn is_known(&self) {
        if self.sitting.is_known.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut book = self.reserved.seats.book();
        if let Some(sitting) = book.strangers.remove(&self.sitting.number) {
            book.known.insert(sitting.number, sitting);
        }
    }

    /// Whether nothing was asked for that is still to be answered.
    pub fn is_waiting(&self, is_waiting: bool) {
        let since = if is_waiting { self.reserved.seats.now() } else { BUSY };
        self.sitting.waits_since.store(since, Ordering::Relaxed);
    }
}

impl Sitting {
    fn waits(&self, now: u64) -> bool {
        let since = self.waits_since.load(Ordering::Relaxed);
        since != BUSY && u128::from(now.saturating_sub(since)) >= LEAST_WAIT.as_millis()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut book = self.reserved.seats.book();
        book.strangers.remove(&self.sitting.number);
        book.known.remove(&self.sitting.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn take(seats: &Arc<Seats>) -> Seat {
        seats.reserve().await.occupy()
    }

    fn is_dismissed(seat: &Seat) -> bool {
        seat.dismissed().is_cancelled()
    }

    #[tokio::test]
    async fn the_stranger_who_waited_longest_makes_room() {
        let seats = Seats::new(6);
        let (busy, first, second) = (take(&seats).await, take(&seats).await, take(&seats).await);
        busy.is_waiting(false);
        tokio::time::sleep(LEAST_WAIT).await;
        // Three of six seats are for strangers.
        let _fourth = take(&seats).await;
        assert!(!is_dismissed(&busy) && is_dismissed(&first) && !is_dismissed(&second));
    }

    #[tokio::test]
    async fn who_comes_when_all_seats_are_taken_gets_the_seat_of_one_that_idles() {
        let seats = Seats::new(3);
        let mut taken = Vec::new();
        for _ in 0..3 {
            let seat = take(&seats).await;
            seat.is_known();
            seat.is_waiting(false);
            taken.push(seat);
        }
        let next = tokio::time::timeout(3 * LEAST_WAIT, seats.reserve()).await;
        assert!(next.is_err(), "nobody idles");
        taken[1].is_waiting(true);
        let (seats, leaving) = (seats.clone(), taken.remove(1));
        let reserving = tokio::spawn(async move { seats.reserve().await.occupy() });
        leaving.dismissed().cancelled().await;
        drop(leaving);
        reserving.await.expect("a seat");
        assert!(taken.iter().all(|seat| !is_dismissed(seat)));
    }

    #[tokio::test]
    async fn a_seat_that_nobody_took_is_free_again() {
        let seats = Seats::new(1);
        drop(seats.reserve().await);
        drop(take(&seats).await);
        assert_eq!(seats.book().taken, 0);
        assert!(seats.book().strangers.is_empty());
    }
}
