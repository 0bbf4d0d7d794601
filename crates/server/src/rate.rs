//! Rate limits: a token bucket per scope and caller, in this process.

use crate::config::RateLimit;
use codeq_queue::Time;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Buckets kept per scope. A full bucket is the same as none, so those are dropped first.
const BUCKETS: usize = 100_000;
/// Levels are counted in units of which a request takes so many and `requestsPerMinute` come in every
/// millisecond: whole numbers, nothing is lost however often one asks.
const REQUEST: u64 = 60_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateScope {
    Producer,
    Worker,
    Webhook,
    Admin,
}

impl RateScope {
    pub fn word(self) -> &'static str {
        match self {
            RateScope::Producer => "producer",
            RateScope::Worker => "worker",
            RateScope::Webhook => "webhook",
            RateScope::Admin => "admin",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: u64,
    filled_at: Time,
}

/// The buckets of one scope. Whose they are is told by a hash.
pub struct Buckets {
    limit: Option<RateLimit>,
    callers: Mutex<HashMap<[u8; 32], Bucket>>,
}

impl Buckets {
    /// `None`: no limit.
    pub fn new(limit: Option<RateLimit>) -> Buckets {
        Buckets { limit, callers: Mutex::default() }
    }

    /// Takes one request out of the caller's bucket, or tells in how many seconds there will be one.
    pub fn take(&self, caller: &[u8; 32], now: Time) -> Result<(), u64> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= BUCKETS && !callers.contains_key(caller) {
            make_room(&mut callers, limit, now);
        }
        let capacity = capacity(limit);
        let bucket = callers.entry(*caller).or_insert(Bucket { level: capacity, filled_at: now });
        bucket.level = level(bucket, limit, now);
        bucket.filled_at = bucket.filled_at.max(now);
        if bucket.level >= REQUEST {
            bucket.level -= REQUEST;
            return Ok(());
        }
        let missing = REQUEST - bucket.level;
        Err(missing.div_ceil(u64::from(limit.requests_per_minute) * 1000).max(1))
    }
}

fn level(bucket: &Bucket, limit: &RateLimit, now: Time) -> u64 {
    let elapsed = u64::try_from(now.since(bucket.filled_at).as_millis()).unwrap_or(u64::MAX);
    let gained = elapsed.saturating_mul(limit.requests_per_minute.into());
    bucket.level.saturating_add(gained).min(capacity(limit))
}

fn capacity(limit: &RateLimit) -> u64 {
    u64::from(limit.burst_size) * REQUEST
}

fn make_room(callers: &mut HashMap<[u8; 32], Bucket>, limit: &RateLimit, now: Time) {
    callers.retain(|_, bucket| level(bucket, limit, now) < capacity(limit));
    if callers.len() >= BUCKETS {
        callers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_starts_full_and_refills_at_its_rate() {
        let buckets = Buckets::new(Some(RateLimit { requests_per_minute: 60, burst_size: 2 }));
        let take = |millis| buckets.take(&[7; 32], Time::from_millis(millis));
        assert_eq!((take(0), take(0), take(0)), (Ok(()), Ok(()), Err(1)));
        assert_eq!(take(999), Err(1));
        assert_eq!(take(1000), Ok(()));
        assert_eq!(buckets.take(&[8; 32], Time::from_millis(1000)), Ok(()));
        assert_eq!((take(60_000), take(60_000), take(60_000)), (Ok(()), Ok(()), Err(1)));
        let slow = Buckets::new(Some(RateLimit { requests_per_minute: 2, burst_size: 1 }));
        assert_eq!(slow.take(&[7; 32], Time::ZERO), Ok(()));
        assert_eq!(slow.take(&[7; 32], Time::ZERO), Err(30));
        for millis in 1..30_000 {
            assert!(slow.take(&[7; 32], Time::from_millis(millis)).is_err(), "{millis}");
        }
        assert_eq!(slow.take(&[7; 32], Time::from_millis(30_000)), Ok(()));
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let buckets = Buckets::new(Some(RateLimit { requests_per_minute: 1, burst_size: 1 }));
        for caller in 0..BUCKETS * 2 + 5 {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&caller.to_be_bytes());
            assert_eq!(buckets.take(&hash, Time::ZERO), Ok(()));
        }
        assert!(buckets.callers.lock().unwrap().len() <= BUCKETS);
    }
}
