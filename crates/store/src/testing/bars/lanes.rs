//! Lanes and rates.

use super::{create, resident_bytes};
use crate::testing::exam::bench::Bench;
use crate::testing::exam::request::New;
use codeq_queue::Task;
use std::time::{Duration, Instant};

fn lane(task: &Task) -> &str {
    task.body.lane().unwrap_or_default()
}

/// One lane with `ready` tasks beside others with one each, and 16 workers: within two claims for each lane all
/// others are done. Gives how many claims it took.
pub async fn flood(bench: &Bench, ready: usize, lanes: usize) -> usize {
    create(bench, (0..ready).map(|_| New::of("mail").lane("flood"))).await;
    create(bench, (0..lanes).map(|index| New::of("mail").lane(&format!("lane-{index}")))).await;
    let (mut claims, mut left) = (0, lanes);
    while left > 0 {
        assert!(claims < 2 * (lanes + 1), "{left} of {lanes} lanes wait after {claims} claims");
        let tasks = bench.claim(&["mail"], 16).await;
        claims += tasks.len();
        left -= tasks.iter().filter(|task| lane(task) != "flood").count();
        super::complete(bench, &tasks).await;
    }
    claims
}

/// What claims take, and how much memory is used, with one task in each of so many lanes; and the same with as many
/// tasks in one lane.
pub struct ManyLanes {
    pub claim_p99: Duration,
    pub claim_p99_of_one: Duration,
    /// For each lane, besides the task.
    pub bytes: i64,
}

pub async fn many_lanes(bench: &Bench, lanes: usize, claims: usize) -> ManyLanes {
    let begun = resident_bytes();
    create(bench, (0..lanes).map(|_| New::of("one").lane("lane"))).await;
    let middle = resident_bytes();
    create(bench, (0..lanes).map(|index| New::of("many").lane(&index.to_string()))).await;
    let ended = resident_bytes();
    let of_one = p99(bench, "one", claims).await;
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let more = (signed(ended) - signed(middle)) - (signed(middle) - signed(begun));
    let count = i64::try_from(lanes).unwrap_or(i64::MAX).max(1);
    ManyLanes { claim_p99: p99(bench, "many", claims).await, claim_p99_of_one: of_one, bytes: more / count }
}

async fn p99(bench: &Bench, command: &str, claims: usize) -> Duration {
    let mut took = Vec::with_capacity(claims);
    for _ in 0..claims {
        let begun = Instant::now();
        let claimed = bench.claim(&[command], 1).await;
        took.push(begun.elapsed());
        assert_eq!(claimed.len(), 1, "there is enough to claim");
    }
    took.sort_unstable();
    took[(took.len() * 99 / 100).min(took.len() - 1)]
}

/// Hungry workers and a rate: how many starts there are in so many seconds of a clock that is moved by the
/// millisecond. No window of one second holds more than the rate and its burst allow, and no start is lost.
pub async fn steady_rate(bench: &Bench, limit: usize, burst: usize, seconds: usize) -> usize {
    let store = bench.store();
    let policies = store.policing().expect("the store keeps policies");
    let text = format!(r#"{{"rate":{{"limit":{limit},"periodSeconds":1,"burst":{burst}}}}}"#);
    let put = policies.put_policy(bench.key("mail"), text.as_str().into());
    bench.ask("put policy", put).await.expect("the policy is right");
    create(bench, (0..limit * (seconds + 1)).map(|_| New::of("mail"))).await;
    let mut starts: Vec<usize> = Vec::new();
    for millis in 0..seconds * 1000 {
        let started = bench.claim(&["mail"], 50).await.len();
        starts.extend(std::iter::repeat_n(millis, started));
        bench.advance_ms(1);
    }
    for (index, first) in starts.iter().enumerate() {
        let window = starts[index..].iter().take_while(|start| **start < first + 1000).count();
        assert!(window < limit + burst, "{window} starts within a second from {first} ms on");
    }
    let expected = limit * seconds + burst - 1;
    assert!(starts.len() <= expected && starts.len() + 1 >= expected, "{} of {expected}", starts.len());
    starts.len()
}
