//! `codeq bench soak`: a constant, mixed load for any length of time, and whether anything grows.

mod chart;
mod crowd;
mod requests;
pub mod server;
mod streams;
pub mod watch;

use super::meter::{Disk, Used};
use super::report::{self, Output, Row};
use anyhow::{Context, bail};
use crowd::{COMMAND, Crowd, count};
use server::Server;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use watch::{Sample, Watch, trend};

/// Producers and workers of each protocol.
const LANES: u64 = 8;
const STREAMS: u64 = 2;
/// Time until caches and pools have filled; a quarter of the run if that is shorter.
const SETTLED: Duration = Duration::from_secs(300);
/// How long the last tasks may take to end.
const LAST: Duration = Duration::from_secs(60);
/// Growth below this is none, whatever the noise: of memory as a share, of handles in number.
const RSS_SHARE: f64 = 0.02;
const HANDLES: f64 = 4.0;

/// A constant, mixed load at about half of what the machine takes, over HTTP and gRPC: creates, delayed,
/// keyed and repeated ones, claims, results, nacks, abandons, and workers that lose their connection while
/// they hold a task. Memory, open handles, disk and latencies are looked at every second; in the end every
/// task has to have ended, and retention has to give the disk back.
///
/// Examples:
///   codeq bench soak --minutes 20 --svg soak.svg
///   codeq bench soak --minutes 0.1 --json
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct SoakBench {
    /// Length of the load, in minutes.
    #[arg(long, default_value_t = 20.0)]
    minutes: f64,
    /// Write the samples as an SVG picture to this file.
    #[arg(long)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What was seen in one run.
struct Seen {
    samples: Vec<Sample>,
    /// When the load ended, in seconds.
    loaded: f64,
    rows: Vec<Row>,
}

impl SoakBench {
    pub fn run(self) -> anyhow::Result<()> {
        codeq_server::raise_file_limit();
        let root = self.output.root()?;
        let server = Server::start(root.path(), self.retention())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let seen = runtime.block_on(self.soak(&server))?;
        if let Some(file) = &self.svg {
            let text = chart::draw(&seen.samples, seen.loaded, &seen.rows[0]);
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
        self.output.print(&seen.rows, &root)
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64((self.minutes * 60.0).clamp(1.0, 1e7))
    }

    /// Several times within the run.
    fn retention(&self) -> Duration {
        Duration::from_secs((self.time().as_secs() / 10).clamp(2, 60))
    }

    async fn soak(&self, server: &Server) -> anyhow::Result<Seen> {
        let crowd = Crowd::new(server.http(), server.producer()?, server.worker()?, LANES + STREAMS);
        let crowd = Arc::new(crowd);
        let empty = Disk::of(&server.data);
        let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
        for number in 0..LANES {
            producers.spawn(requests::produce(crowd.clone(), number));
            workers.spawn(requests::work(crowd.clone(), number));
        }
        for number in 0..STREAMS {
            producers.spawn(streams::produce(crowd.clone(), number));
            workers.spawn(streams::work(crowd.clone(), number));
        }
        alive(&mut producers, &mut workers, calibrate(&crowd, self.time() / 10)).await?;
        let mut watch = Watch::new(server, &crowd);
        let before = (server.process.cpu(), server.process.written(), count(&crowd.ended));
        alive(&mut producers, &mut workers, self.load(&mut watch)).await?;
        let used = Used {
            elapsed: watch.elapsed(),
            cpu: server.process.cpu().saturating_sub(before.0),
            written: server.process.written().saturating_sub(before.1),
        };
        let soaked = soaked(&watch, &crowd, count(&crowd.ended) - before.2, &used);
        let loaded = watch.elapsed().as_secs_f64();
        finish(server, &crowd, producers, workers, &mut watch).await?;
        let rested = self.rested(&mut watch, empty).await?;
        Ok(Seen { samples: watch.samples, loaded, rows: vec![soaked, rested] })
    }

    async fn load(&self, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        while watch.elapsed() < self.time() {
            let seen = watch.second().await?;
            report::progress(&format!(
                "{:.0} s of {:.0} s: {:.0} tasks/s, p99 {:.1} ms, RSS {:.0} MB, {} handles, disk {:.0} MB",
                seen.at,
                self.time().as_secs_f64(),
                seen.per_second,
                seen.p99_ms,
                seen.rss_mb,
                seen.handles,
                seen.disk.all_mb
            ));
        }
        Ok(())
    }

    /// The disk once everything has been forgotten, or the time for that is over.
    async fn rested(&self, watch: &mut Watch<'_>, empty: Disk) -> anyhow::Result<Row> {
        let peak = watch.samples.iter().map(|sample| sample.disk.kept_mb).fold(0.0, f64::max);
        // Half of what the load had added, and a little for what is written while nothing happens.
        let back = empty.kept_mb + (peak - empty.kept_mb) / 2.0 + 1.0;
        let from = Instant::now();
        let mut last = watch.second().await?;
        while last.disk.kept_mb > back && from.elapsed() < self.patience() {
            report::progress(&format!("retention: {:.0} MB of at most {peak:.0} MB", last.disk.kept_mb));
            last = watch.second().await?;
        }
        let is_back = if last.disk.kept_mb <= back { "given back" } else { "not given back" };
        let verdict = format!(
            "disk {is_back}: without journals {:.1} MB after {} s, at most {peak:.1} MB, empty {:.1} MB",
            last.disk.kept_mb,
            from.elapsed().as_secs(),
            empty.kept_mb
        );
        Ok(Row {
            name: "retention".into(),
            rss_mb: last.rss_mb.round(),
            handles: Some(last.handles as usize),
            disk_mb: Some(last.disk.all_mb.round()),
            verdict: Some(verdict),
            ..Row::default()
        })
    }

    /// How long it may take until what is over has left the disk.
    fn patience(&self) -> Duration {
        self.retention() * 3 + Duration::from_secs(10)
    }
}

/// Waits for `what`, or for the first of the crowd that fails.
async fn alive(
    producers: &mut JoinSet<anyhow::Result<()>>,
    workers: &mut JoinSet<anyhow::Result<()>>,
    what: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    tokio::select! {
        done = what => done,
        Some(ended) = producers.join_next() => { ended??; bail!("a producer ended early") }
        Some(ended) = workers.join_next() => { ended??; bail!("a worker ended early") }
    }
}

/// As fast as they can for a while; from then on half as fast.
async fn calibrate(crowd: &Crowd, time: Duration) -> anyhow::Result<()> {
    report::progress("finding out what the machine takes");
    let time = time.clamp(Duration::from_secs(1), Duration::from_secs(10));
    let from = count(&crowd.created) + count(&crowd.replayed);
    tokio::time::sleep(time).await;
    let made = count(&crowd.created) + count(&crowd.replayed) - from;
    crowd.set_rate((made as f64 / time.as_secs_f64() / 2.0) as u64);
    Ok(())
}

/// Lets every task come to its end, and counts.
async fn finish(
    server: &Server,
    crowd: &Crowd,
    mut producers: JoinSet<anyhow::Result<()>>,
    mut workers: JoinSet<anyhow::Result<()>>,
    watch: &mut Watch<'_>,
) -> anyhow::Result<()> {
    crowd.is_over.cancel();
    while let Some(ended) = producers.join_next().await {
        ended??;
    }
    let from = Instant::now();
    while server.unfinished(COMMAND).await? > 0 {
        if from.elapsed() > LAST {
            bail!("{} tasks have not ended in {LAST:?}", server.unfinished(COMMAND).await?);
        }
        report::progress("waiting for the last tasks");
        watch.second().await?;
    }
    crowd.is_done.cancel();
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    let (created, ended, refused) = (count(&crowd.created), count(&crowd.ended), count(&crowd.refused));
    // A write that was answered 503 may have happened or not.
    match created == ended || refused > 0 {
        true => Ok(()),
        false => bail!("{created} tasks were created and {ended} ended"),
    }
}

fn soaked(watch: &Watch<'_>, crowd: &Crowd, ended: u64, used: &Used) -> Row {
    let settled = SETTLED.min(used.elapsed / 4).as_secs_f64();
    let samples = &watch.samples;
    let rss_trend = trend(samples, settled, |sample| sample.rss_mb, RSS_SHARE, 0.0);
    let handles_trend = trend(samples, settled, |sample| sample.handles, 0.0, HANDLES);
    let last = samples.last();
    let words = format!(
        "{} replayed, {} workers died, {} late reports",
        count(&crowd.replayed),
        count(&crowd.died),
        count(&crowd.late)
    );
    let in_flight = usize::try_from(2 * (LANES + STREAMS)).unwrap_or(0);
    Row {
        rss_mb: last.map_or(0.0, |sample| sample.rss_mb.round()),
        disk_mb: last.map(|sample| sample.disk.all_mb.round()),
        handles: last.map(|sample| sample.handles as usize),
        refused: Some(count(&crowd.refused)),
        rss_trend,
        handles_trend,
        verdict: Some(words),
        ..Row::new("soak", in_flight, ended, used, &watch.latencies)
    }
}
