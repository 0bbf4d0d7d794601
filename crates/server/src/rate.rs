//! Rate limits: a token bucket per scope and caller. Where several processes serve one keyspace the store has
//! the buckets and every limited request asks it once; otherwise they are here and nothing is asked.

use crate::config::RateLimit;
use crate::telemetry::seldom::ThrottledLog;
use codeq_queue::shared::{Bucket as SharedBucket, Shared};
use codeq_queue::{Failure, Time};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Buckets kept per scope. A full bucket is the same as none, so those are dropped first.
const BUCKETS: usize = 100_000;
/// Units that a request takes. `requestsPerMinute` units come in every millisecond: whole numbers, so nothing
/// is lost to rounding.
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

/// The limit of one scope, wherever its buckets are.
pub struct Limiter {
    scope: RateScope,
    own: Option<Buckets>,
    complaints: ThrottledLog,
}

impl Limiter {
    /// `None`: no limit.
    pub fn new(scope: RateScope, limit: Option<RateLimit>) -> Limiter {
        Limiter { scope, own: limit.map(Buckets::new), complaints: ThrottledLog::default() }
    }

    pub fn has_limit(&self) -> bool {
        self.own.is_some()
    }

    /// Takes one request out of the caller's bucket, or tells in how many seconds there will be one. Who
    /// cannot be asked allows: a limit must not be the reason that work stands still.
    pub async fn take(
        &self,
        shared: Option<&Arc<dyn Shared>>,
        caller: &[u8; 32],
        operation: &'static str,
        now: Time,
    ) -> Result<(), u64> {
        let Some(own) = &self.own else { return Ok(()) };
        let Some(shared) = shared else { return own.take(caller, now) };
        let bucket = SharedBucket {
            scope: self.scope.word(),
            caller: *caller,
            per_second: f64::from(own.limit.requests_per_minute) / 60.0,
            capacity: own.limit.burst_size,
        };
        shared.take_token(bucket).await.unwrap_or_else(|failure| {
            self.complain(operation, &failure, now);
            Ok(())
        })
    }

    fn complain(&self, op: &'static str, failure: &Failure, now: Time) {
        if self.complaints.may(now) {
            tracing::warn!(scope = self.scope.word(), op, err = %failure, "rate limit check failed");
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: u64,
    filled_at: Time,
}

/// The buckets of one scope in this process. Whose they are is told by a hash.
struct Buckets {
    limit: RateLimit,
    callers: Mutex<HashMap<[u8; 32], Bucket>>,
}

impl Buckets {
    fn new(limit: RateLimit) -> Buckets {
        Buckets { limit, callers: Mutex::default() }
    }

    fn take(&self, caller: &[u8; 32], now: Time) -> Result<(), u64> {
        let limit = &self.limit;
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
        let buckets = Buckets::new(RateLimit { requests_per_minute: 60, burst_size: 2 });
        let take = |millis| buckets.take(&[7; 32], Time::from_millis(millis));
        assert_eq!((take(0), take(0), take(0)), (Ok(()), Ok(()), Err(1)));
        assert_eq!(take(999), Err(1));
        assert_eq!(take(1000), Ok(()));
        assert_eq!(buckets.take(&[8; 32], Time::from_millis(1000)), Ok(()));
        assert_eq!((take(60_000), take(60_000), take(60_000)), (Ok(()), Ok(()), Err(1)));
        let slow = Buckets::new(RateLimit { requests_per_minute: 2, burst_size: 1 });
        assert_eq!(slow.take(&[7; 32], Time::ZERO), Ok(()));
        assert_eq!(slow.take(&[7; 32], Time::ZERO), Err(30));
        for millis in 1..30_000 {
            assert!(slow.take(&[7; 32], Time::from_millis(millis)).is_err(), "{millis}");
        }
        assert_eq!(slow.take(&[7; 32], Time::from_millis(30_000)), Ok(()));
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let buckets = Buckets::new(RateLimit { requests_per_minute: 1, burst_size: 1 });
        for caller in 0..BUCKETS * 2 + 5 {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&caller.to_be_bytes());
            assert_eq!(buckets.take(&hash, Time::ZERO), Ok(()));
        }
        assert!(buckets.callers.lock().unwrap().len() <= BUCKETS);
    }
}
