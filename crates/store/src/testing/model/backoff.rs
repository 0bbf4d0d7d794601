//! The shortest and longest wait that each policy allows.

use codeq_queue::{Backoff, BackoffPolicy};

/// Both ends are allowed.
pub fn range(backoff: &Backoff, used: u32) -> (u64, u64) {
    let base = u128::from(backoff.base_seconds);
    let n = used.max(1);
    let power: u128 = if n > 60 { 1 << 60 } else { 1 << n };
    let whole = at_most(base * power, backoff.max_seconds);
    match backoff.policy {
        BackoffPolicy::Fixed => same(at_most(base, backoff.max_seconds)),
        BackoffPolicy::Linear => same(at_most(base * u128::from(n), backoff.max_seconds)),
        BackoffPolicy::Exponential => same(whole),
        BackoffPolicy::ExpEqualJitter => (whole / 2, whole / 2 + whole / 2),
        BackoffPolicy::ExpFullJitter => (0, whole),
    }
}

fn same(seconds: u64) -> (u64, u64) {
    (seconds, seconds)
}

fn at_most(seconds: u128, max: u64) -> u64 {
    u64::try_from(seconds).unwrap_or(u64::MAX).min(max)
}
