//! `codeq bench store`: cycles of create, claim and complete against the store itself.

use super::meter::{Reading, histogram, record};
use super::report::{self, Output, Row};
use super::{drive, journal, restart};
use codeq_queue::create::CreateRequest;
use codeq_queue::options::OptionsRequest;
use codeq_queue::store::{Claim, Report, Submit, Wait};
use codeq_queue::{Commands, NewTask, Outcome, Owner, QueueKey, Store, Time};
use codeq_store::local::{self, Durability, LocalOptions};
use codeq_store::memory::{self, MemoryOptions};
use codeq_store::{Rules, SystemClock};
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const PAYLOAD_BYTES: usize = 300;
const RESULT_BYTES: usize = 200;
const TENANT: &str = "bench";
const COMMAND: &str = "cycle";
const LANED: &str = "laned";
/// Never reached.
const LIMITS: &str = r#"{"concurrency":1000000,"rate":{"limit":1000000,"periodSeconds":1,"burst":1000000},
    "lanes":{"concurrency":1000000,"rate":{"limit":1000000,"periodSeconds":1,"burst":1000000}}}"#;

/// Cycles of create + claim + complete (300-byte payload, 200-byte result) on every store, for several
/// numbers of cycles in flight, against the bare journal writing the same bytes.
///
/// Examples:
///   codeq bench store --json
///   codeq bench store --in-flight 256 --seconds 60 --retention-seconds 3 --drain
///   codeq bench store --backlog 5000000
///   codeq bench store --restart 1000000
///   codeq bench store --only memory,local-fsync --in-flight 256 --lanes 10000 --limits
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct StoreBench {
    /// Numbers of cycles under way at once.
    #[arg(long, value_delimiter = ',', default_value = "1,8,64,256,1024")]
    in_flight: Vec<usize>,
    /// Seconds per row.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Repeat the rows with this many ready tasks waiting.
    #[arg(long, default_value_t = 0)]
    backlog: u64,
    /// Measure how long a store with this many live tasks takes to open after kill -9.
    #[arg(long)]
    restart: Option<u64>,
    /// Only these rows: journal, local-fsync, local-os, memory.
    #[arg(long, value_delimiter = ',', default_value = "journal,local-fsync,local-os,memory")]
    only: Vec<String>,
    /// How long finished tasks are kept.
    #[arg(long, default_value_t = 86_400.0)]
    retention_seconds: f64,
    /// Repeat the rows with tasks of this many lanes.
    #[arg(long, default_value_t = 0)]
    lanes: usize,
    /// With lanes: limits on the queue and on its lanes that are never reached.
    #[arg(long, requires = "lanes")]
    limits: bool,
    /// Count the time until the tree has everything.
    #[arg(long)]
    drain: bool,
    /// Cycles per second over all; 0 is as fast as it goes.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// After the run, stay idle for this many seconds and report the disk use.
    #[arg(long)]
    idle_seconds: Option<u64>,
    #[command(flatten)]
    output: Output,
}

impl StoreBench {
    pub fn run(self) -> anyhow::Result<()> {
        let root = self.output.root()?;
        let mut rows = Vec::new();
        if let Some(tasks) = self.restart {
            rows.push(restart::measure(root.path(), tasks)?);
        } else {
            self.cycles(root.path(), 0, &mut rows)?;
            if self.backlog > 0 {
                self.cycles(root.path(), self.backlog, &mut rows)?;
            }
        }
        self.output.print(&rows, &root)
    }

    fn cycles(&self, root: &Path, backlog: u64, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        let wanted = |name: &str| self.only.iter().any(|only| only == name);
        let stores = ["local-fsync", "local-os", "memory"].into_iter().filter(|name| wanted(name));
        for name in stores {
            let directory = root.join(name);
            let bench = Target::open(name, &directory, self.retention_seconds)?;
            bench.fill(name, backlog)?;
            for in_flight in &self.in_flight {
                // The ceiling is taken beside every row that is compared with it: this machine's disk is
                // not the same from one minute to the next.
                let ceiling = match wanted("journal") {
                    true => Some(journal::run(
                        root,
                        *in_flight,
                        self.seconds.min(5.0),
                        local::sample_cycle(PAYLOAD_BYTES, RESULT_BYTES),
                    )?),
                    false => None,
                };
                report::progress(&format!("{name}, {in_flight} in flight, {backlog} waiting"));
                let mut row =
                    bench.measure(name, *in_flight, self.seconds, self.rate, self.drain, Queue::Plain)?;
                row.ratio = ceiling.as_ref().map(|ceiling| round(row.per_second / ceiling.per_second));
                row.backlog = (self.backlog > 0).then_some(backlog);
                if name == "local-fsync" && backlog == 0 {
                    rows.extend(ceiling);
                }
                rows.push(row);
                if self.lanes > 0 {
                    rows.push(self.in_lanes(&bench, name, *in_flight)?);
                }
            }
            if let (Some(seconds), Some(row)) = (self.idle_seconds, rows.last_mut()) {
                std::thread::sleep(Duration::from_secs(seconds));
                row.disk_mb = bench.local.as_ref().map(|local| local.disk_bytes() as f64 / 1e6);
            }
            drop(bench);
            let _ = std::fs::remove_dir_all(&directory);
        }
        Ok(())
    }
}

impl StoreBench {
    /// The same load on a queue with lanes; its ratio is that to the row before.
    fn in_lanes(&self, bench: &Target, name: &str, in_flight: usize) -> anyhow::Result<Row> {
        report::progress(&format!("{name}, {in_flight} in flight, {} lanes", self.lanes));
        if self.limits {
            bench.limit()?;
        }
        let plain = bench.measure(name, in_flight, self.seconds, self.rate, self.drain, Queue::Plain)?;
        let lanes = Queue::Lanes(self.lanes);
        let mut row = bench.measure(name, in_flight, self.seconds, self.rate, self.drain, lanes)?;
        row.name = format!("{name}+lanes");
        row.ratio = Some(round(row.per_second / plain.per_second));
        Ok(row)
    }
}

/// What the tasks of a load have in common.
#[derive(Clone, Copy)]
enum Queue {
    Plain,
    /// Of another command, with this many lanes.
    Lanes(usize),
}

impl Queue {
    fn command(self) -> &'static str {
        match self {
            Queue::Plain => COMMAND,
            Queue::Lanes(_) => LANED,
        }
    }
}

fn round(ratio: f64) -> f64 {
    (ratio * 1000.0).round() / 1000.0
}

struct Target {
    store: Arc<dyn Store>,
    local: Option<Arc<local::LocalStore>>,
}

pub fn rules(retention_seconds: f64) -> Rules {
    Rules { retention: Duration::from_secs_f64(retention_seconds), ..Rules::default() }
}

pub fn new_task() -> NewTask {
    task_of(COMMAND, OptionsRequest::default())
}

fn laned_task(lane: usize) -> NewTask {
    task_of(LANED, OptionsRequest { lane: Some(format!("lane-{lane}")), ..OptionsRequest::default() })
}

/// A small task of any queue.
pub fn task_in(tenant: &str, command: &str) -> NewTask {
    let (tenant, command) = (tenant.into(), command.into());
    let request = CreateRequest { tenant, command, payload: "1".into(), ..CreateRequest::default() };
    request.check(5, PAYLOAD_BYTES, Time::ZERO).expect("the bench's task is sound")
}

fn task_of(command: &str, options: OptionsRequest) -> NewTask {
    let request = CreateRequest {
        tenant: TENANT.into(),
        command: command.into(),
        payload: format!("\"{}\"", "p".repeat(PAYLOAD_BYTES - 2)),
        options,
        ..CreateRequest::default()
    };
    request.check(5, PAYLOAD_BYTES, Time::ZERO).expect("the bench's task is sound")
}

impl Target {
    fn open(name: &str, directory: &Path, retention_seconds: f64) -> anyhow::Result<Target> {
        let rules = rules(retention_seconds);
        let durability = if name == "local-os" { Durability::Os } else { Durability::Fsync };
        if name == "memory" {
            let options = MemoryOptions { rules, shards: 1, clock: Arc::new(SystemClock), observer: None };
            return Ok(Target { store: memory::open(options)?, local: None });
        }
        let local = local::open(LocalOptions { rules, durability, ..LocalOptions::new(directory) })?;
        Ok(Target { store: local.clone(), local: Some(local) })
    }

    fn fill(&self, name: &str, backlog: u64) -> anyhow::Result<()> {
        let task = new_task();
        let (store, name) = (self.store.clone(), name.to_owned());
        let told = move |done| report::progress(&format!("{name}: {done} of {backlog} tasks waiting"));
        drive::drive(vec![Box::pin(async move { fill(&*store, &task, backlog, told).await })])?;
        self.wait_drained();
        Ok(())
    }

    /// Puts a policy whose limits are never reached.
    fn limit(&self) -> anyhow::Result<()> {
        let store = self.store.clone();
        drive::drive(vec![Box::pin(async move {
            let keeper = store.policing().ok_or_else(|| anyhow::anyhow!("the store keeps no policies"))?;
            keeper.put_policy(QueueKey::new(TENANT, LANED), LIMITS.into()).await??;
            Ok(())
        })])
    }

    fn wait_drained(&self) {
        while self.local.as_ref().is_some_and(|local| local.unsettled_bytes() > 0) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn measure(
        &self,
        name: &str,
        in_flight: usize,
        seconds: f64,
        rate: u64,
        drain: bool,
        queue: Queue,
    ) -> anyhow::Result<Row> {
        let shared = Rc::new(RefCell::new(Tally { all: histogram(), claims: histogram(), cycles: 0 }));
        let started = Reading::take();
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(seconds);
        let pace = (rate > 0).then(|| Duration::from_secs_f64(in_flight as f64 / rate as f64));
        let workers = (0..in_flight).map(|number| -> Pin<Box<dyn Future<Output = _>>> {
            Box::pin(worker(self.store.clone(), shared.clone(), number, end, pace, queue))
        });
        drive::drive(workers.collect())?;
        let stopped = Instant::now();
        if drain {
            self.wait_drained();
        }
        let used = started.used();
        let drained = stopped.elapsed();
        let tally = shared.borrow();
        let mut row = Row::new(name, in_flight, tally.cycles, &used, &tally.all);
        row.claim_p99_us = Some(tally.claims.value_at_quantile(0.99));
        row.drain_ms = drain.then(|| u64::try_from(drained.as_millis()).unwrap_or(u64::MAX));
        Ok(row)
    }
}

/// Creates `count` tasks in batches.
pub async fn fill(store: &dyn Store, task: &NewTask, count: u64, told: impl Fn(u64)) -> anyhow::Result<()> {
    let mut done = 0;
    while done < count {
        let batch = usize::try_from((count - done).min(1000)).unwrap_or(1000);
        store.create(vec![task.clone(); batch]).await?;
        done += batch as u64;
        if done.is_multiple_of(100_000) {
            told(done);
        }
    }
    Ok(())
}

struct Tally {
    all: Histogram<u64>,
    claims: Histogram<u64>,
    cycles: u64,
}

async fn worker(
    store: Arc<dyn Store>,
    tally: Rc<RefCell<Tally>>,
    number: usize,
    end: Instant,
    pace: Option<Duration>,
    queue: Queue,
) -> anyhow::Result<()> {
    let mut turn = number;
    let owner = Arc::new(Owner::new("bench", &format!("worker-{number}")));
    let tenant: Arc<str> = TENANT.into();
    let claim = Claim {
        tenant: tenant.clone(),
        commands: Commands::these([queue.command()]),
        owner: owner.clone(),
        lease: Duration::from_secs(300),
        is_default_lease: false,
        count: 1,
        wait: Wait::No,
    };
    let task = new_task();
    let outcome = Outcome::completed(&format!("{{\"r\":\"{}\"}}", "r".repeat(RESULT_BYTES - 8)));
    let mut next = Instant::now();
    while Instant::now() < end {
        if let Some(pace) = pace {
            next += pace;
            drive::sleep_until(next).await;
        }
        let at = Instant::now();
        // Neighbours take other lanes.
        turn = turn.wrapping_mul(31).wrapping_add(number + 1);
        let task = match queue {
            Queue::Plain => task.clone(),
            Queue::Lanes(lanes) => laned_task(turn % lanes),
        };
        store.create(vec![task]).await?.remove(0)?;
        let created = Instant::now();
        let claimed = store.claim(claim.clone()).await?.pop();
        let claimed = claimed.ok_or_else(|| anyhow::anyhow!("a claim found nothing after a create"))?;
        let lent = Instant::now();
        let report = Report {
            tenant: tenant.clone(),
            id: claimed.id,
            owner: owner.clone(),
            attempt: Some(claimed.attempts),
        };
        store.submit(vec![Submit { report, outcome: outcome.clone() }]).await?.remove(0)?;
        let mut tally = tally.borrow_mut();
        record(&mut tally.all, created - at);
        record(&mut tally.all, lent - created);
        record(&mut tally.claims, lent - created);
        record(&mut tally.all, lent.elapsed());
        tally.cycles += 1;
    }
    Ok(())
}
