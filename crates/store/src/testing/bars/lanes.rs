//! Lanes and rates.

use super::{create, resident_bytes};
use crate::testing::exam::bench::Bench;
use crate::testing::exam::request::New;
use codeq_queue::Task;
use codeq_queue::store::Cancel;
use std::collections::BTreeMap;
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

/// Bytes of memory for each lane, besides its name and its task.
const LANE_BYTES_MAX: i64 = 200;
/// Bytes of the longest name of a lane here, as it is allocated.
const NAME_BYTES: i64 = 16;

impl ManyLanes {
    /// What holds for very many lanes. Memory is measured in pages, so it says nothing about few.
    pub fn check(&self) {
        let most = LANE_BYTES_MAX + NAME_BYTES;
        assert!(self.bytes <= most, "{} bytes for a lane and its name, at most {most}", self.bytes);
        let (many, one) = (self.claim_p99, self.claim_p99_of_one);
        assert!(many <= 2 * one, "claims take {many:?} with many lanes, {one:?} with one");
    }
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

async fn put(bench: &Bench, policy: &str) {
    let store = bench.store();
    let policies = store.policing().expect("the store keeps policies");
    let put = policies.put_policy(bench.key("mail"), policy.into());
    bench.ask("put policy", put).await.expect("the policy is right");
}

/// The time that so many tasks in so many lanes take from their create to their end: with limits of the queue and of lanes,
/// and a rate of each, that are never reached, or with none.
pub async fn unreached_limits(bench: &Bench, lanes: usize, tasks: usize, is_limited: bool) -> Duration {
    if is_limited {
        let rate = r#"{"limit":1000000,"periodSeconds":1,"burst":1000000}"#;
        let lanes = format!(r#"{{"concurrency":1000,"rate":{rate}}}"#);
        put(bench, &format!(r#"{{"concurrency":100000,"rate":{rate},"lanes":{lanes}}}"#)).await;
    }
    let begun = Instant::now();
    create(bench, (0..tasks).map(|index| New::of("mail").lane(&(index % lanes).to_string()))).await;
    let mut left = tasks;
    while left > 0 {
        let claimed = bench.claim(&["mail"], 100).await;
        assert!(!claimed.is_empty(), "no limit is reached");
        super::complete(bench, &claimed).await;
        left -= claimed.len();
    }
    begun.elapsed()
}

/// Lanes with a rate of ten a second, whose tasks never wait long: whatever has not started is cancelled at once, so that
/// nothing of a lane is left but what it has used up. Gives the starts of one lane, which are as many as the rate allows.
pub async fn lane_rates(bench: &Bench, lanes: usize, burst: usize, seconds: usize) -> usize {
    let rate = format!(r#"{{"limit":10,"periodSeconds":1,"burst":{burst}}}"#);
    put(bench, &format!(r#"{{"lanes":{{"rate":{rate}}}}}"#)).await;
    let mut starts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for step in 0..10 * seconds {
        let tasks = (0..lanes * burst).map(|index| New::of("mail").lane(&(index % lanes).to_string()));
        let made = create(bench, tasks).await;
        for task in bench.claim(&["mail"], made.len()).await {
            starts.entry(lane(&task).to_owned()).or_default().push(step);
        }
        let cancels = made.iter().map(|task| Cancel::now(bench.named(task.id))).collect();
        assert!(bench.ask("cancel", bench.store().cancel(cancels)).await.iter().all(Result::is_ok));
        bench.advance_ms(100);
    }
    let expected = 10 * seconds + burst - 1;
    for (lane, starts) in &starts {
        assert_eq!(starts.len(), expected, "starts of lane {lane}");
        for (index, first) in starts.iter().enumerate() {
            let window = starts[index..].iter().take_while(|start| **start < first + 10).count();
            assert!(window < 10 + burst, "{window} starts of lane {lane} within a second");
        }
    }
    assert_eq!(starts.len(), lanes, "every lane starts some");
    expected
}

/// Hungry workers and a rate: how many starts there are in so many seconds of a clock that is moved by the
/// millisecond. No window of one second holds more than the rate and its burst allow, and no start is lost.
pub async fn steady_rate(bench: &Bench, limit: usize, burst: usize, seconds: usize) -> usize {
    put(bench, &format!(r#"{{"rate":{{"limit":{limit},"periodSeconds":1,"burst":{burst}}}}}"#)).await;
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
