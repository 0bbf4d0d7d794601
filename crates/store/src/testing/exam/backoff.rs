//! Backoff: how long each policy makes a failed attempt wait, as seen from outside.

use super::bench::{Bench, LEASE, until};
use super::candidate::Open;
use super::request::New;
use crate::Rules;
use codeq_queue::store::Returned;
use codeq_queue::{Backoff, BackoffPolicy, Place, Task};

fn bench(open: &Open, policy: BackoffPolicy, base_seconds: u64, max_seconds: u64) -> Bench {
    let backoff = Backoff { policy, base_seconds, max_seconds };
    Bench::with(open, Rules { backoff, ..Rules::default() })
}

/// Nacks the task `count` times without a delay of its own and gives the seconds it was made to wait.
async fn observed(bench: &Bench, count: usize) -> Vec<u64> {
    let mut task = bench.create_and_take(New::of("render").max_attempts(100)).await;
    let mut delays = Vec::new();
    for _ in 0..count {
        let Ok(Returned::Requeued { delay_seconds }) = bench.nack(&task, 0, "x").await else {
            panic!("a task with attempts left is requeued")
        };
        assert_eq!(seconds_to_wait(bench, &bench.get(task.id).await), delay_seconds);
        delays.push(delay_seconds);
        bench.advance(delay_seconds);
        task = bench.take("render").await;
    }
    bench.complete(&task).await;
    delays
}

fn seconds_to_wait(bench: &Bench, task: &Task) -> u64 {
    match task.state.place() {
        Place::PendingList => 0,
        _ => until(task).since(bench.now()).as_secs(),
    }
}

/// Every delay lies in its range and, over many draws, the ends of the first range are reached.
async fn check_jitter(bench: &Bench, ranges: &[(u64, u64)]) {
    let mut first = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let delays = observed(bench, ranges.len()).await;
        for (n, (delay, (low, high))) in delays.iter().zip(ranges).enumerate() {
            assert!((low..=high).contains(&delay), "attempt {}: {delay} not in {low}..={high}", n + 1);
        }
        first.insert(delays[0]);
    }
    assert!(first.len() > 1, "60 independent draws are not all the same");
}

pub async fn a_fixed_backoff_is_always_the_base(open: Open) {
    let bench = bench(&open, BackoffPolicy::Fixed, 5, 900);
    assert_eq!(observed(&bench, 4).await, [5, 5, 5, 5]);
}

pub async fn a_fixed_backoff_is_at_most_the_maximum(open: Open) {
    let bench = bench(&open, BackoffPolicy::Fixed, 50, 7);
    assert_eq!(observed(&bench, 2).await, [7, 7]);
}

pub async fn a_linear_backoff_grows_by_the_base(open: Open) {
    let bench = bench(&open, BackoffPolicy::Linear, 5, 17);
    assert_eq!(observed(&bench, 5).await, [5, 10, 15, 17, 17]);
}

pub async fn an_exponential_backoff_doubles(open: Open) {
    let bench = bench(&open, BackoffPolicy::Exponential, 5, 100);
    assert_eq!(observed(&bench, 6).await, [10, 20, 40, 80, 100, 100]);
}

pub async fn an_equal_jitter_is_between_half_and_whole(open: Open) {
    let bench = bench(&open, BackoffPolicy::ExpEqualJitter, 5, 31);
    check_jitter(&bench, &[(5, 10), (10, 20), (15, 30), (15, 30)]).await;
}

pub async fn a_full_jitter_is_between_nothing_and_whole(open: Open) {
    let bench = bench(&open, BackoffPolicy::ExpFullJitter, 1, 6);
    check_jitter(&bench, &[(0, 2), (0, 4), (0, 6), (0, 6)]).await;
}

pub async fn a_backoff_counts_used_attempts_only(open: Open) {
    let bench = bench(&open, BackoffPolicy::Linear, 5, 900);
    let task = bench.create_and_take(New::of("render")).await;
    bench.refund(&task).await.expect("the owner may refund");
    let task = bench.take("render").await;
    assert_eq!(bench.nack(&task, 0, "x").await, Ok(Returned::Requeued { delay_seconds: 5 }));
    bench.advance(5);
    let task = bench.take("render").await;
    assert_eq!((task.attempts, task.used()), (3, 2));
    assert_eq!(bench.nack(&task, 0, "x").await, Ok(Returned::Requeued { delay_seconds: 10 }));
}

pub async fn an_expired_lease_waits_by_the_policy(open: Open) {
    let bench = bench(&open, BackoffPolicy::Exponential, 5, 900);
    for (used, delay) in [(1, 10), (2, 20), (3, 40)] {
        let task = match used {
            1 => bench.create_and_take(New::of("render")).await,
            _ => bench.take("render").await,
        };
        bench.advance_ms(u64::try_from(LEASE.as_millis()).expect("a minute fits"));
        assert_eq!(until(&bench.get(task.id).await), bench.now().plus_seconds(delay));
        bench.advance(delay);
    }
}
