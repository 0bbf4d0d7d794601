//! Cycles over streams: producers keep creates in flight, workers take and finish them.

use super::super::meter::{Used, histogram, record};
use super::super::process::Process;
use super::super::report::Row;
use super::Target;
use super::stream::{Answer, Producer, Worker, sent_us, task};
use anyhow::Context;
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const COMMAND: &str = "bench";

/// Tasks that are created and not finished, for every message in flight: enough that nobody waits for
/// anybody, few enough that the backlog does not grow.
const SLACK: usize = 4;

/// How many tasks go into a message, and how many messages are under way on a stream.
#[derive(Clone, Copy)]
pub struct Shape {
    pub is_batch: bool,
    pub create: usize,
    pub claim: usize,
    pub in_flight: usize,
}

impl Shape {
    fn suffix(self) -> &'static str {
        if self.is_batch { "-batch" } else { "-single" }
    }
}

/// What was measured, over all rounds.
pub struct Tally {
    creates: Histogram<u64>,
    assignments: Histogram<u64>,
    results: Histogram<u64>,
    count: u64,
    elapsed: Duration,
    cpu: Duration,
    written: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        let (elapsed, cpu) = (Duration::ZERO, Duration::ZERO);
        let (creates, assignments, results) = (histogram(), histogram(), histogram());
        Tally { creates, assignments, results, count: 0, elapsed, cpu, written: 0 }
    }
}

impl Tally {
    pub fn per_second(&self) -> f64 {
        match self.elapsed.is_zero() {
            true => 0.0,
            false => self.count as f64 / self.elapsed.as_secs_f64(),
        }
    }

    /// The latency of a row is that of a result and its ack; of the echo, that of a message.
    pub fn row(
        &self,
        name: &str,
        shape: Shape,
        flight: usize,
        ceiling: f64,
        process: Option<&Process>,
    ) -> Row {
        let used = Used { elapsed: self.elapsed, cpu: self.cpu, written: self.written };
        let name = format!("{name}{}", shape.suffix());
        let has_cycles = !self.results.is_empty();
        let latencies = if has_cycles { &self.results } else { &self.creates };
        let at = |histogram: &Histogram<u64>, q| has_cycles.then(|| histogram.value_at_quantile(q));
        Row {
            ratio: (ceiling > 0.0).then(|| (self.per_second() / ceiling * 1000.0).round() / 1000.0),
            rss_mb: process.map_or(0.0, |process| process.rss_mb().round()),
            create_p50_us: at(&self.creates, 0.5),
            create_p99_us: at(&self.creates, 0.99),
            assignment_p50_us: at(&self.assignments, 0.5),
            assignment_p99_us: at(&self.assignments, 0.99),
            ..Row::new(&name, flight, self.count, &used, latencies)
        }
    }

    fn add(&mut self, part: Part) -> anyhow::Result<()> {
        self.creates.add(&part.creates)?;
        self.assignments.add(&part.assignments)?;
        self.results.add(&part.results)?;
        self.count += part.count;
        Ok(())
    }
}

/// What one stream measured.
struct Part {
    creates: Histogram<u64>,
    assignments: Histogram<u64>,
    results: Histogram<u64>,
    count: u64,
}

impl Part {
    fn new() -> Part {
        Part { creates: histogram(), assignments: histogram(), results: histogram(), count: 0 }
    }
}

fn usage(process: Option<&Process>) -> (Duration, u64) {
    process.map_or((Duration::ZERO, 0), |process| (process.cpu(), process.written()))
}

/// Creates that are only acknowledged: what streams and messages alone can do.
pub async fn echo(
    address: SocketAddr,
    streams: usize,
    shape: Shape,
    time: Duration,
    tally: &mut Tally,
    process: &Process,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let before = usage(Some(process));
    let room = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
    let mut producers = JoinSet::new();
    for _ in 0..streams {
        let producer = Producer::connect(address, "echo").await?;
        producers.spawn(produce(producer, shape, start, start + time, room.clone()));
    }
    while let Some(part) = producers.join_next().await {
        let part = part??;
        let count = part.creates.len();
        tally.add(Part { count, ..part })?;
    }
    close(tally, start, before, Some(process));
    Ok(())
}

pub async fn cycles(
    target: &Target,
    streams: usize,
    shape: Shape,
    time: Duration,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let most = streams * shape.in_flight * shape.create.max(shape.claim) * SLACK;
    let room = Arc::new(Semaphore::new(most));
    let is_over = CancellationToken::new();
    let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
    let start = Instant::now();
    let before = usage(target.process.as_ref());
    for _ in 0..streams {
        let worker = Worker::connect(target.worker, &target.token).await?;
        workers.spawn(work(worker, shape, start, room.clone(), is_over.clone()));
        let producer = Producer::connect(target.producer, &target.token).await?;
        producers.spawn(produce(producer, shape, start, start + time, room.clone()));
    }
    while let Some(part) = producers.join_next().await {
        tally.add(part??)?;
    }
    // Every task is finished before the clock stops.
    let _all = room.acquire_many(u32::try_from(most)?).await?;
    close(tally, start, before, target.process.as_ref());
    is_over.cancel();
    while let Some(part) = workers.join_next().await {
        tally.add(part??)?;
    }
    Ok(())
}

fn close(tally: &mut Tally, start: Instant, before: (Duration, u64), process: Option<&Process>) {
    let after = usage(process);
    tally.elapsed += start.elapsed();
    tally.cpu += after.0.saturating_sub(before.0);
    tally.written += after.1.saturating_sub(before.1);
}

fn micros(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Keeps `in_flight` messages under way until `end`, a permit for every task.
async fn produce(
    mut producer: Producer,
    shape: Shape,
    start: Instant,
    end: Instant,
    room: Arc<Semaphore>,
) -> anyhow::Result<Part> {
    let mut part = Part::new();
    let mut sent: Vec<u64> = Vec::new();
    let mut under_way = 0;
    let permits = u32::try_from(shape.create)?;
    loop {
        while under_way < shape.in_flight && Instant::now() < end {
            match room.try_acquire_many(permits) {
                Ok(taken) => taken.forget(),
                Err(_) if under_way > 0 => break,
                Err(_) => room.acquire_many(permits).await?.forget(),
            }
            let now = micros(start);
            let first = sent.len() as u64;
            sent.resize(sent.len() + shape.create, now);
            match shape.is_batch {
                true => {
                    let tasks = (first..first + shape.create as u64).map(|seq| task(seq, COMMAND, now));
                    producer.create_batch(tasks.collect()).await?;
                }
                false => producer.create(task(first, COMMAND, now)).await?,
            }
            under_way += 1;
        }
        if under_way == 0 {
            return Ok(part);
        }
        let acks = producer.acks().await?;
        let now = micros(start);
        for ack in acks {
            let at = usize::try_from(ack.seq).ok().and_then(|seq| sent.get(seq)).context("an unknown ack")?;
            record(&mut part.creates, Duration::from_micros(now - at));
        }
        under_way -= 1;
    }
}

/// Keeps `in_flight` Readys under way and finishes at once what comes, giving its permits back.
async fn work(
    mut worker: Worker,
    shape: Shape,
    start: Instant,
    room: Arc<Semaphore>,
    is_over: CancellationToken,
) -> anyhow::Result<Part> {
    let mut part = Part::new();
    let mut reported = VecDeque::new();
    for _ in 0..shape.in_flight {
        worker.ready(COMMAND, shape.claim).await?;
    }
    loop {
        let answer = tokio::select! {
            answer = worker.next() => answer?,
            () = is_over.cancelled() => return Ok(part),
        };
        match answer {
            Answer::Tasks(tasks) => {
                let now = micros(start);
                for at in tasks.iter().filter_map(sent_us) {
                    record(&mut part.assignments, Duration::from_micros(now.saturating_sub(at)));
                }
                reported.push_back(now);
                worker.complete(tasks).await?;
                worker.ready(COMMAND, shape.claim).await?;
            }
            Answer::Done(count) => {
                let at = reported.pop_front().context("an ack without a result")?;
                record(&mut part.results, Duration::from_micros(micros(start) - at));
                part.count += count as u64;
                room.add_permits(count);
            }
        }
    }
}
