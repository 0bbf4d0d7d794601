//! Very many creates of one key, and very many heartbeats.

use super::{create, processor_time, resident_bytes};
use crate::testing::exam::bench::{Bench, LEASE};
use crate::testing::exam::request::New;
use codeq_queue::store::Heartbeat;
use codeq_queue::{OnConflict, UniqueUntil};
use std::time::Duration;

/// So many creates of one key that replace each other are one task. Gives how many bytes of memory came with them.
pub async fn debounce(bench: &Bench, creates: usize) -> i64 {
    let wish = |payload: usize| {
        let new = New::of("render").unique("k", UniqueUntil::Ended, OnConflict::Replace);
        new.payload(&payload.to_string()).delayed_ms(60_000)
    };
    let first = create(bench, (0..1).map(wish)).await[0].id;
    let before = resident_bytes();
    for payload in 1..creates {
        let made = bench.make(wish(payload)).await;
        assert!(made.is_duplicate && made.task.id == first, "every create finds the first task");
    }
    let after = resident_bytes();
    let stats = bench.stats("render").await;
    assert_eq!((stats.delayed, stats.ready_total(), stats.in_progress), (1, 0, 0));
    bench.advance(60);
    let task = bench.take("render").await;
    assert_eq!(
        (task.id, &*task.body.payload),
        (first, &*(creates - 1).to_string()),
        "the last payload counts"
    );
    i64::try_from(after).unwrap_or(i64::MAX) - i64::try_from(before).unwrap_or(0)
}

/// Heartbeats with progress of so many running tasks, all of them in each of so many rounds and 100 together. Gives the
/// processor time of a round: with one round a second, the share of a processor.
pub async fn heartbeats(bench: &Bench, running: usize, rounds: usize) -> Duration {
    create(bench, (0..running).map(|_| New::of("long"))).await;
    let mut tasks = Vec::with_capacity(running);
    while tasks.len() < running {
        tasks.extend(bench.claim(&["long"], 500).await);
    }
    let before = processor_time();
    for round in 0..rounds {
        for tasks in tasks.chunks(100) {
            let beat = |task| Heartbeat {
                progress: Some(format!("{{\"percent\":{round}}}").into()),
                ..Heartbeat::new(bench.report(task), LEASE)
            };
            let beats = bench.store().heartbeat(tasks.iter().map(beat).collect());
            assert!(bench.ask("heartbeat", beats).await.iter().all(Result::is_ok));
        }
        bench.advance(1);
    }
    let took = processor_time().saturating_sub(before);
    assert_eq!(bench.stats("long").await.in_progress, running as u64, "no lease ran out");
    took / u32::try_from(rounds.max(1)).unwrap_or(1)
}
