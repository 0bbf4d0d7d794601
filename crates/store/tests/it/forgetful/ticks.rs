//! Power goes around ticks: after it each tick has its task, and none has two.

use super::Ground;
use codeq_store::testing::exam::bench::eventually;
use codeq_store::testing::exam::schedules::{every_ten, find, put, tasks, ticks};
use std::sync::{Arc, Mutex};

const TICKS: u64 = 12;
/// Moments looked at of each run.
const MOMENTS: usize = 60;

/// Lives through ticks, with a photograph of the disk around every call that changes it; then crashes at each.
#[tokio::test]
async fn each_tick_makes_one_task_whenever_power_goes() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let begun = bench.now();
    let change = |r: &mut codeq_queue::schedule::ScheduleRequest| {
        (r.catch_up, r.overlap) = (Some("all".into()), Some("allow".into()));
        // A few of these fill a segment, so that tables are written in between.
        r.task.payload = format!("\"{}\"", "x".repeat(1500));
    };
    put(&bench, "n", every_ten(change)).await.expect("it is sound");
    let photographs: Arc<Mutex<Vec<Ground>>> = Arc::default();
    let (on_disk, kept) = (ground.clone(), photographs.clone());
    ground.files.set_watch(Some(Arc::new(move |_, _| {
        kept.lock().unwrap().push(on_disk.copy());
    })));
    for tick in 0..TICKS {
        bench.advance(10);
        bench.settle().await;
        if tick % 3 == 0 {
            let task = bench.take("report").await;
            bench.complete(&task).await;
        }
    }
    ground.files.set_watch(None);
    let expected: Vec<String> = (1..=TICKS).map(|n| begun.plus_seconds(10 * n).to_utc()).collect();
    let photographs = std::mem::take(&mut *photographs.lock().unwrap());
    assert!(photographs.len() > 2 * TICKS as usize, "{} photographs", photographs.len());
    let step = photographs.len().div_ceil(MOMENTS);
    for (index, mut ground) in (0..).zip(photographs.into_iter().step_by(step)) {
        ground.disk.crash(index);
        let bench = ground.bench();
        // Segments are small, so a turn makes few of what was missed.
        eventually("the ticks are made", async || ticks(&bench).await.len() >= expected.len()).await;
        bench.settle().await;
        let mut found = ticks(&bench).await;
        found.sort();
        assert_eq!(found, expected, "crash {index}");
        let schedule = find(&bench, "n").await.expect("it was acknowledged before");
        assert_eq!((schedule.progress.missed, schedule.progress.skipped), (0, 0), "crash {index}");
        assert_eq!(schedule.progress.last_at, Some(begun.plus_seconds(10 * TICKS)), "crash {index}");
        let last = tasks(&bench).await.pop().map(|task| task.id);
        assert_eq!(schedule.progress.last_task, last, "crash {index}");
    }
}

/// A call to the disk fails around a tick: the tick waits, and is made once when the disk is well again.
#[tokio::test]
async fn a_full_disk_delays_ticks_and_loses_none() {
    let mut ground = Ground::busy();
    let bench = ground.bench();
    let begun = bench.now();
    let change = |r: &mut codeq_queue::schedule::ScheduleRequest| {
        (r.catch_up, r.overlap) = (Some("all".into()), Some("allow".into()));
    };
    put(&bench, "n", every_ten(change)).await.expect("it is sound");
    ground.disk.set_free_bytes(0);
    for _ in 0..3 {
        bench.advance(10);
        bench.settle().await;
    }
    ground.disk.set_free_bytes(u64::MAX);
    eventually("the ticks are made", async || ticks(&bench).await.len() == 3).await;
    let expected: Vec<String> = (1..=3).map(|n| begun.plus_seconds(10 * n).to_utc()).collect();
    assert_eq!(ticks(&bench).await, expected);
}
