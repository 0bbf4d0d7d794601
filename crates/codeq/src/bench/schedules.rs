//! `codeq bench schedules`: how late ticks are, from the plan to the durable task.

use crate::say;
use anyhow::{Context, ensure};
use codeq_queue::create::CreateRequest;
use codeq_queue::event::{TickOutcome, What};
use codeq_queue::schedule::{ScheduleRequest, Schedules};
use codeq_queue::{Event, Time};
use codeq_store::local::{self, LocalOptions, LocalStore};
use codeq_store::{Clock, SystemClock};
use serde_json::json;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Puts under way at a time.
const IN_FLIGHT: usize = 64;
/// Queues that the tasks go to.
const COMMANDS: u64 = 100;
const TENANT: &str = "bench";

#[derive(clap::Args)]
pub struct SchedulesBench {
    /// Schedules that tick once a minute each, spread evenly.
    #[arg(long, default_value_t = 100_000)]
    schedules: u64,
    /// Schedules that fall due in the same second, at the end.
    #[arg(long, default_value_t = 10_000)]
    burst: u64,
    /// How long the spread ones are watched.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was seen of ticks.
#[derive(Default)]
struct Seen {
    /// What the names of those begin with that are watched.
    watched: &'static str,
    ticks: HashSet<(Arc<str>, i64)>,
    late_ms: Vec<u64>,
    twice: u64,
    without_task: u64,
}

impl Seen {
    fn see(&mut self, events: &[Event], now: Time) {
        for event in events {
            let What::Ticked { schedule, outcome, scheduled_for, count } = &event.what else { continue };
            if !schedule.starts_with(self.watched) {
                continue;
            }
            if *outcome != TickOutcome::Fired {
                self.without_task += count;
                continue;
            }
            self.twice += u64::from(!self.ticks.insert((schedule.clone(), scheduled_for.millis())));
            let late = now.since(*scheduled_for).as_millis();
            self.late_ms.push(u64::try_from(late).unwrap_or(u64::MAX));
        }
    }
}

fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

impl SchedulesBench {
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.measure())
    }

    async fn measure(self) -> anyhow::Result<()> {
        let directory = tempfile::tempdir().context("cannot make a directory")?;
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let sees = seen.clone();
        let observer = Arc::new(move |events: &[Event]| {
            sees.lock().unwrap_or_else(PoisonError::into_inner).see(events, SystemClock.now());
        });
        let options = LocalOptions { observer: Some(observer), ..LocalOptions::new(directory.path()) };
        let store = local::open(options)?;
        let watch = |watched| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *seen, Seen { watched, ..Seen::default() })
        };

        let count = self.schedules.max(1);
        let anchor = |n: u64| Time::from_millis(i64::try_from(n * 60_000 / count).unwrap_or(0));
        put(&store, "spread", count, 60, anchor).await?;
        watch("spread");
        let begun = SystemClock.now();
        tokio::time::sleep(Duration::from_secs(self.seconds)).await;
        let spread = watch("burst");
        let watched = SystemClock.now().since(begun).as_secs_f64();

        // Far enough ahead to put them all.
        let at = SystemClock.now().plus_seconds(10 + self.burst / 500);
        put(&store, "burst", self.burst, 31_622_400, |_| at).await?;
        let wait = at.since(SystemClock.now()) + Duration::from_secs(5);
        tokio::time::sleep(wait).await;
        report(&self, watched, spread, watch(""))
    }
}

fn report(bench: &SchedulesBench, watched: f64, mut spread: Seen, mut burst: Seen) -> anyhow::Result<()> {
    for seen in [&mut spread, &mut burst] {
        seen.late_ms.sort_unstable();
    }
    let row = |seen: &Seen| {
        let late = &seen.late_ms;
        (percentile(late, 50), percentile(late, 99), late.last().copied().unwrap_or(0))
    };
    let (spread_row, burst_row) = (row(&spread), row(&burst));
    let burst_count = burst.ticks.len();
    let rate = spread.late_ms.len() as f64 / watched;
    let values = json!({
        "schedules": bench.schedules, "seconds": watched, "ticks": spread.late_ms.len(), "ticksPerSecond": rate,
        "lateMs": {"p50": spread_row.0, "p99": spread_row.1, "max": spread_row.2},
        "burst": burst_count, "burstLateMs": {"p50": burst_row.0, "p99": burst_row.1, "max": burst_row.2},
        "twice": spread.twice + burst.twice, "withoutTask": spread.without_task + burst.without_task,
    });
    match bench.json {
        true => say!("{values}"),
        false => {
            say!("{} ticks of {} schedules, {rate:.0} a second", spread.late_ms.len(), bench.schedules);
            say!("late    p50 {} ms, p99 {} ms, at most {} ms", spread_row.0, spread_row.1, spread_row.2);
            say!(
                "burst of {burst_count}: p50 {} ms, p99 {} ms, at most {} ms",
                burst_row.0,
                burst_row.1,
                burst_row.2
            );
        }
    }
    ensure!(spread.twice + burst.twice == 0, "a tick made two tasks");
    ensure!(burst_count as u64 == bench.burst, "{burst_count} of {} ticks of the burst came", bench.burst);
    Ok(())
}

async fn put(
    store: &Arc<LocalStore>,
    kind: &str,
    count: u64,
    every_seconds: i64,
    anchor: impl Fn(u64) -> Time,
) -> anyhow::Result<()> {
    let mut puts: JoinSet<anyhow::Result<()>> = JoinSet::new();
    for n in 0..count {
        let request = ScheduleRequest {
            every_seconds: Some(every_seconds),
            anchor: Some(anchor(n)),
            overlap: Some("allow".into()),
            task: CreateRequest {
                tenant: TENANT.into(),
                command: format!("{kind}-{}", n % COMMANDS),
                payload: "{\"n\":1}".into(),
                ..CreateRequest::default()
            },
            task_text: "{}".into(),
            ..ScheduleRequest::default()
        };
        let (store, name) = (store.clone(), format!("{kind}-{n}"));
        puts.spawn(async move {
            let definition = request.check(&name, 5, 1 << 20, SystemClock.now())?;
            store.put_schedule(TENANT.into(), name, definition).await??;
            Ok(())
        });
        while puts.len() >= IN_FLIGHT {
            puts.join_next().await.expect("there are some")??;
        }
    }
    while let Some(put) = puts.join_next().await {
        put??;
    }
    Ok(())
}
