//! `codeq bench queues`: what very many queues cost: creates, claims of any command, memory, and opening after kill -9.

use super::meter::{histogram, record, rss_mb};
use super::report;
use super::store::task_in;
use crate::say;
use anyhow::{Context, ensure};
use codeq_queue::order::ReadyQuestion;
use codeq_queue::store::{Claim, Wait};
use codeq_queue::{Commands, NewTask, OperatorStore, Owner, Store};
use codeq_store::local::{self, LocalOptions};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Creates and claims that are timed, one at a time.
const TIMED: u64 = 500;
const BATCH: u64 = 1000;
const COMMANDS_OF_A_CLAIM: usize = 256;

#[derive(clap::Args)]
pub struct QueuesBench {
    /// Queues, each with one task.
    #[arg(long, default_value_t = 1_000_000)]
    queues: u64,
    /// Tenants among which they are shared out.
    #[arg(long, default_value_t = 10_000)]
    tenants: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct FillQueues {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    queues: u64,
    #[arg(long)]
    tenants: u64,
}

/// What the process that was killed had told.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filled {
    one_command_p50_us: u64,
    new_command_p50_us: u64,
    any_command_p50_us: u64,
    ready_commands_p50_us: u64,
    rss_before_mb: f64,
    rss_mb: f64,
}

impl QueuesBench {
    pub fn run(self) -> anyhow::Result<()> {
        let root = tempfile::tempdir().context("cannot make a directory")?;
        let directory = root.path().join("data");
        let filled = self.fill(&directory)?;
        report::progress("opening");
        let at = Instant::now();
        let store = local::open(LocalOptions::new(&directory))?;
        let open_ms = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let kept =
            runtime.block_on(store.queues(None))?.iter().filter(|queue| queue.ready_total() > 0).count();
        let bytes = (filled.rss_mb - filled.rss_before_mb) * 1_048_576.0 / self.queues.max(1) as f64;
        let mut values = serde_json::to_value(&filled)?;
        for (name, value) in [("queues", self.queues), ("tenants", self.tenants), ("openMs", open_ms)] {
            values[name] = value.into();
        }
        values["bytesPerQueueAndTask"] = bytes.round().into();
        if self.json {
            say!("{values}");
        } else {
            say!("{} queues of {} tenants", self.queues, self.tenants);
            say!("create, one command       p50 {} us", filled.one_command_p50_us);
            say!("create, a new command     p50 {} us", filled.new_command_p50_us);
            say!("claim of any command      p50 {} us", filled.any_command_p50_us);
            say!("draw for a fair claim     p50 {} us", filled.ready_commands_p50_us);
            say!("memory                    {} MB, {bytes:.0} bytes for a queue and its task", filled.rss_mb);
            say!("open after kill -9        {open_ms} ms");
        }
        ensure!(kept as u64 >= self.queues, "{kept} queues are there");
        Ok(())
    }

    /// In a process of its own, which is killed.
    fn fill(&self, directory: &Path) -> anyhow::Result<Filled> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "fill-queues", "--queues", &self.queues.to_string()]);
        command.args(["--tenants", &self.tenants.to_string(), "--directory"]).arg(directory);
        let mut filler = command.stdout(Stdio::piped()).spawn()?;
        let output = filler.stdout.take().context("the filler's output is piped")?;
        let mut filled = None;
        for line in BufReader::new(output).lines() {
            let line = line?;
            filled = serde_json::from_str(&line).ok();
            if filled.is_some() {
                break;
            }
            report::progress(&format!("filling: {line} of {}", self.queues));
        }
        filler.kill()?;
        filler.wait()?;
        filled.context("the filling process ended early")
    }
}

impl FillQueues {
    pub fn run(self) -> anyhow::Result<()> {
        let store = local::open(LocalOptions::new(&self.directory))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let filled = runtime.block_on(self.fill(&*store))?;
        println!("{}", serde_json::to_string(&filled)?);
        std::io::stdout().flush()?;
        loop {
            std::thread::park();
        }
    }

    fn tenant(&self, number: u64) -> Arc<str> {
        format!("tenant-{}", number % self.tenants.max(1)).into()
    }

    fn task(&self, number: u64) -> NewTask {
        task_in(&self.tenant(number), &format!("command-{number}"))
    }

    async fn fill(&self, store: &dyn Store) -> anyhow::Result<Filled> {
        let one = || task_in("one", "one");
        timed(TIMED / 10, async |_| store.create(vec![one()]).await.map(drop)).await?;
        let alone = timed(TIMED, async |_| store.create(vec![one()]).await.map(drop)).await?;
        let rss_before_mb = rss_mb();
        for from in (0..self.queues).step_by(BATCH as usize) {
            let tasks = (from..self.queues.min(from + BATCH)).map(|number| self.task(number));
            store.create(tasks.collect()).await?;
            if from % 100_000 == 0 {
                println!("{from}");
            }
        }
        let rss_mb = rss_mb();
        let crowded =
            timed(TIMED, async |n| store.create(vec![self.task(self.queues + n)]).await.map(drop)).await?;
        let owner = Arc::new(Owner::new("bench", "bench"));
        // A tenant has a share of the queues, and this one as many as all others together.
        let many = |n| task_in("many", &format!("command-{n}"));
        for from in (0..self.queues / 10).step_by(BATCH as usize) {
            store.create((from..from + BATCH).map(many).collect()).await?;
        }
        let any = timed(TIMED, async |_| {
            let claim = Claim {
                tenant: "many".into(),
                commands: Commands::Any,
                count: 1,
                lease: Duration::from_secs(300),
                is_default_lease: false,
                owner: owner.clone(),
                wait: Wait::No,
            };
            store.claim(claim).await.map(drop)
        });
        let any = any.await?;
        let drawn = timed(TIMED, async |_| {
            let (tenant, named) = ("many".into(), Vec::new());
            store.ready_commands(ReadyQuestion { tenant, named, most: COMMANDS_OF_A_CLAIM }).await.map(drop)
        });
        Ok(Filled {
            one_command_p50_us: alone.value_at_quantile(0.5),
            new_command_p50_us: crowded.value_at_quantile(0.5),
            any_command_p50_us: any.value_at_quantile(0.5),
            ready_commands_p50_us: drawn.await?.value_at_quantile(0.5),
            rss_before_mb,
            rss_mb,
        })
    }
}

async fn timed(
    count: u64,
    act: impl AsyncFn(u64) -> Result<(), codeq_queue::Failure>,
) -> anyhow::Result<Histogram<u64>> {
    let mut latencies = histogram();
    for number in 0..count {
        let at = Instant::now();
        act(number).await?;
        record(&mut latencies, at.elapsed());
    }
    Ok(latencies)
}
