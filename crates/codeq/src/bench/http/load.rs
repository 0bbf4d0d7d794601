//! Requests, as fast as the server answers them.

use super::super::meter::{Used, histogram, record};
use super::super::process::Process;
use super::super::report::{self, Row};
use super::super::store::PAYLOAD_BYTES;
use super::bare;
use super::client::{Client, string_of};
use super::target::Target;
use anyhow::{Context, bail};
use codeq_api::work::ClaimedTasks;
use codeq_store::kvrocks::KvrocksOptions;
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Items of a batch.
const BATCH: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Echo,
    Bare,
    Create,
    Claim,
    Submit,
    Cycle,
    BatchCreate,
    BatchClaim,
    BatchSubmit,
}

impl Op {
    /// In an order in which each finds what it needs.
    pub const ALL: [Op; 9] = [
        Op::Echo,
        Op::Bare,
        Op::Create,
        Op::Claim,
        Op::Submit,
        Op::Cycle,
        Op::BatchCreate,
        Op::BatchClaim,
        Op::BatchSubmit,
    ];

    pub fn is_batch(self) -> bool {
        matches!(self, Op::BatchCreate | Op::BatchClaim | Op::BatchSubmit)
    }

    /// What the other rows are compared with.
    pub fn is_ceiling(self) -> bool {
        matches!(self, Op::Echo | Op::Bare)
    }

    pub fn name(self) -> &'static str {
        match self {
            Op::Echo => "echo",
            Op::Bare => "bare",
            Op::Create => "create",
            Op::Claim => "claim",
            Op::Submit => "submit",
            Op::Cycle => "cycle",
            Op::BatchCreate => "batch-create",
            Op::BatchClaim => "batch-claim",
            Op::BatchSubmit => "batch-submit",
        }
    }
}

/// What one connection has measured: how long each request took, and how many tasks they were about.
pub type Lane = (Histogram<u64>, u64);

/// What was measured of one kind of request, over all rounds.
pub struct Tally {
    latencies: Histogram<u64>,
    /// Requests, or tasks of batches.
    count: u64,
    pub elapsed: Duration,
    cpu: Duration,
    written: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        let zero = Duration::ZERO;
        Tally { latencies: histogram(), count: 0, elapsed: zero, cpu: zero, written: 0 }
    }
}

impl Tally {
    pub fn has_run(&self) -> bool {
        self.count > 0
    }

    pub fn per_second(&self) -> f64 {
        match self.elapsed.is_zero() {
            true => 0.0,
            false => self.count as f64 / self.elapsed.as_secs_f64(),
        }
    }

    /// Adds what each connection has measured.
    pub async fn gather(&mut self, lanes: Vec<JoinHandle<anyhow::Result<Lane>>>) -> anyhow::Result<()> {
        for lane in lanes {
            let (latencies, count) = lane.await??;
            self.latencies.add(&latencies)?;
            self.count += count;
        }
        Ok(())
    }

    pub fn row(&self, name: &str, connections: usize, ceiling: Option<f64>, load: &Load<'_>, op: Op) -> Row {
        let used = Used { elapsed: self.elapsed, cpu: self.cpu, written: self.written };
        let ratio = ceiling.map(|ceiling| (self.per_second() / ceiling * 1000.0).round() / 1000.0);
        let rss_mb = load.process(op).map_or(0.0, |process| process.rss_mb().round());
        Row { ratio, rss_mb, ..Row::new(name, connections, self.count, &used, &self.latencies) }
    }
}

/// What the server is compared with.
pub enum Ceiling {
    /// A server that is there already has none.
    None,
    Echo(Process),
    Bare(Box<KvrocksOptions>),
}

impl Ceiling {
    fn has(&self, op: Op) -> bool {
        match op {
            Op::Echo => matches!(self, Ceiling::Echo(_)),
            Op::Bare => matches!(self, Ceiling::Bare(_)),
            _ => true,
        }
    }
}

/// Connections to the server and to its ceiling, and what one kind of request leaves for the next.
pub struct Load<'a> {
    target: &'a Target,
    ceiling: &'a Ceiling,
    connections: usize,
    shared: Rc<Shared>,
}

struct Shared {
    producer: String,
    worker: String,
    create: Vec<u8>,
    create_batch: Vec<u8>,
    /// The same of the command whose tasks are claimed one by one.
    backlog: Vec<u8>,
    /// Ids that wait for a result, one by one.
    claimed: RefCell<Vec<String>>,
    /// Bodies that submit the results of a whole batch.
    claimed_batches: RefCell<Vec<Vec<u8>>>,
}

const CLAIM: &[u8] = br#"{"commands":["bench"]}"#;
const CLAIM_BATCH: &[u8] = br#"{"commands":["bench-batch"],"count":100}"#;
const SUBMIT: &[u8] = br#"{"status":"COMPLETED","result":{"ok":true,"note":"as large as a result usually is: a few fields, a number or two (42), some words about what was done and where the output can be found"}}"#;

impl<'a> Load<'a> {
    pub fn new(target: &'a Target, ceiling: &'a Ceiling, connections: usize) -> Load<'a> {
        let payload = format!("\"{}\"", "p".repeat(PAYLOAD_BYTES - 2));
        let task = |command: &str| format!("{{\"command\":\"{command}\",\"payload\":{payload}}}");
        let batch =
            |command| format!("{{\"tasks\":[{}]}}", vec![task(command); BATCH].join(",")).into_bytes();
        let shared = Shared {
            producer: target.producer.clone(),
            worker: target.worker.clone(),
            create: task("bench").into_bytes(),
            create_batch: batch("bench-batch"),
            backlog: batch("bench"),
            claimed: RefCell::default(),
            claimed_batches: RefCell::default(),
        };
        Load { target, ceiling, connections, shared: Rc::new(shared) }
    }

    pub fn has(&self, op: Op) -> bool {
        self.ceiling.has(op)
    }

    fn process(&self, op: Op) -> Option<&Process> {
        match (op, self.ceiling) {
            (Op::Echo, Ceiling::Echo(echo)) => Some(echo),
            (Op::Echo | Op::Bare, _) => None,
            _ => self.target.process.as_ref(),
        }
    }

    /// Creates tasks that wait while everything else is measured.
    pub async fn fill(&self, backlog: usize) -> anyhow::Result<()> {
        let mut client = Client::connect(self.target.address).await?;
        let body = self.shared.backlog.as_slice();
        for created in (0..backlog).step_by(BATCH) {
            if created.is_multiple_of(10_000) {
                report::progress(&format!("{created} of {backlog} tasks wait"));
            }
            let response = client.post("/v1/codeq/tasks/batch", &self.shared.producer, body).await?;
            expect(200, "batch create", response.status)?;
        }
        Ok(())
    }

    /// Waits until the server has done what earlier requests left to the background.
    pub async fn settle(&self) {
        let Some(process) = &self.target.process else { return };
        for _ in 0..50 {
            let before = process.cpu();
            tokio::time::sleep(Duration::from_millis(200)).await;
            if process.cpu() - before <= Duration::from_millis(20) {
                return;
            }
        }
    }

    /// All connections at once for so long, or until there is nothing left to do.
    pub async fn run(&self, op: Op, seconds: f64, tally: &mut Tally) -> anyhow::Result<()> {
        if let (Op::Bare, Ceiling::Bare(options)) = (op, self.ceiling) {
            return bare::run(options, self.connections, seconds, tally).await;
        }
        let address = self.process(op).map_or(self.target.address, |process| process.address);
        let mut clients = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            clients.push(Client::connect(address).await?);
        }
        let usage =
            || self.process(op).map_or((Duration::ZERO, 0), |process| (process.cpu(), process.written()));
        let before = usage();
        let started = Instant::now();
        let end = started + Duration::from_secs_f64(seconds);
        let lanes = tokio::task::LocalSet::new();
        let lanes_run = clients.into_iter().map(|mut client| {
            let shared = self.shared.clone();
            lanes.spawn_local(async move { lane(op, &mut client, &shared, end).await })
        });
        let handles: Vec<_> = lanes_run.collect();
        lanes.await;
        tally.elapsed += started.elapsed();
        let after = usage();
        tally.cpu += after.0.saturating_sub(before.0);
        tally.written += after.1.saturating_sub(before.1);
        tally.gather(handles).await
    }
}

async fn lane(op: Op, client: &mut Client, shared: &Shared, end: Instant) -> anyhow::Result<Lane> {
    let mut latencies = histogram();
    let mut count = 0;
    while Instant::now() < end {
        let at = Instant::now();
        let Some(units) = once(op, client, shared).await? else { break };
        record(&mut latencies, at.elapsed());
        count += units;
    }
    Ok((latencies, count))
}

/// One request, or one cycle of three; how many tasks it was about. `None`: nothing is left.
async fn once(op: Op, client: &mut Client, shared: &Shared) -> anyhow::Result<Option<u64>> {
    match op {
        Op::Bare => bail!("a bare create is no request"),
        Op::Echo => {
            expect(200, "echo", client.post("/echo", &shared.producer, &shared.create).await?.status)?
        }
        Op::Create => {
            let response = client.post("/v1/codeq/tasks", &shared.producer, &shared.create).await?;
            expect(202, "create", response.status)?;
        }
        Op::Claim => match claim(client, shared).await? {
            Some(id) => shared.claimed.borrow_mut().push(id),
            None => return Ok(None),
        },
        Op::Submit => {
            let Some(id) = shared.claimed.borrow_mut().pop() else { return Ok(None) };
            submit(client, shared, &id).await?;
        }
        Op::Cycle => {
            let response = client.post("/v1/codeq/tasks", &shared.producer, &shared.create).await?;
            expect(202, "create", response.status)?;
            let id = claim(client, shared).await?.context("a claim found nothing after a create")?;
            submit(client, shared, &id).await?;
        }
        Op::BatchCreate => {
            let response =
                client.post("/v1/codeq/tasks/batch", &shared.producer, &shared.create_batch).await?;
            expect(200, "batch create", response.status)?;
            return Ok(Some(BATCH as u64));
        }
        Op::BatchClaim => return claim_batch(client, shared).await,
        Op::BatchSubmit => {
            let Some(body) = shared.claimed_batches.borrow_mut().pop() else { return Ok(None) };
            let response = client.post("/v1/codeq/tasks/batch/results", &shared.worker, &body).await?;
            expect(200, "batch submit", response.status)?;
            if string_of(response.body, "code").is_some() {
                bail!("a result of a batch was refused");
            }
            return Ok(Some(BATCH as u64));
        }
    }
    Ok(Some(1))
}

async fn claim(client: &mut Client, shared: &Shared) -> anyhow::Result<Option<String>> {
    let response = client.post("/v1/codeq/tasks/claim", &shared.worker, CLAIM).await?;
    if response.status == 204 {
        return Ok(None);
    }
    expect(200, "claim", response.status)?;
    Ok(Some(string_of(response.body, "id").context("a claim without an id")?.to_owned()))
}

async fn submit(client: &mut Client, shared: &Shared, id: &str) -> anyhow::Result<()> {
    let path = format!("/v1/codeq/tasks/{id}/result");
    expect(200, "submit", client.post(&path, &shared.worker, SUBMIT).await?.status)
}

async fn claim_batch(client: &mut Client, shared: &Shared) -> anyhow::Result<Option<u64>> {
    let response = client.post("/v1/codeq/tasks/claim/batch", &shared.worker, CLAIM_BATCH).await?;
    if response.status == 204 {
        return Ok(None);
    }
    expect(200, "batch claim", response.status)?;
    let claimed: ClaimedTasks<'_> = serde_json::from_slice(response.body)?;
    let submit = std::str::from_utf8(SUBMIT)?.trim_start_matches('{');
    let results = claimed.tasks.iter().map(|task| format!("{{\"taskId\":\"{}\",{submit}", task.id));
    let results: Vec<String> = results.collect();
    if results.len() == BATCH {
        let body = format!("{{\"results\":[{}]}}", results.join(","));
        shared.claimed_batches.borrow_mut().push(body.into_bytes());
    }
    Ok(Some(results.len() as u64))
}

pub fn expect(wanted: u16, what: &str, status: u16) -> anyhow::Result<()> {
    match status == wanted {
        true => Ok(()),
        false => bail!("{what} answered {status} instead of {wanted}"),
    }
}
