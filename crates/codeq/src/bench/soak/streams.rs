//! Producers and workers over gRPC.

use super::super::grpc::stream::{Producer, Worker, task};
use super::crowd::{COMMAND, Crowd, Deed, Dice, LEASE_SECONDS, Pace, Wish, add};
use super::server::TOKEN;
use anyhow::{Context, bail};
use codeq_api::grpc::producer::CreateTask;
use codeq_api::grpc::worker::server_event::Event as Answer;
use codeq_api::grpc::worker::worker_event::Event;
use codeq_api::grpc::worker::{Abandon, Nack, Ready, Result as Outcome, Task};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Creates of one stream that are not acknowledged.
const IN_FLIGHT: usize = 64;
/// Readys that one stream has out.
const READYS: usize = 8;

pub async fn produce(crowd: Arc<Crowd>, number: u64) -> anyhow::Result<()> {
    let mut producer = Producer::connect(crowd.producer, TOKEN).await?;
    let (mut dice, mut pace) = (Dice::new(2000 + number), Pace::new());
    let mut sent: HashMap<u64, Instant> = HashMap::new();
    let (mut seq, mut keys) = (0, 0);
    while !crowd.is_over.is_cancelled() || !sent.is_empty() {
        tokio::select! {
            acks = producer.acks() => for ack in acks? {
                let at = sent.remove(&ack.seq).context("an ack of nothing")?;
                add(if ack.replayed { &crowd.replayed } else { &crowd.created }, 1);
                crowd.record(at.elapsed());
            },
            () = pace.wait(&crowd), if sent.len() < IN_FLIGHT && !crowd.is_over.is_cancelled() => {
                seq += 1;
                sent.insert(seq, Instant::now());
                producer.create(wished(dice.wish(), number, seq, &mut keys)).await?;
            }
        }
    }
    Ok(())
}

fn wished(wish: Wish, number: u64, seq: u64, keys: &mut u64) -> CreateTask {
    let mut create = task(seq, COMMAND, 0);
    match wish {
        Wish::Plain => {}
        Wish::Delayed => create.delay_seconds = 1,
        Wish::Keyed | Wish::Repeated => {
            *keys += u64::from(matches!(wish, Wish::Keyed));
            create.idempotency_key = format!("stream-{number}-{keys}");
        }
    }
    create
}

/// A worker that loses its connection now and then, and reconnects.
pub async fn work(crowd: Arc<Crowd>, number: u64) -> anyhow::Result<()> {
    let mut dice = Dice::new(3000 + number);
    while !crowd.is_done.is_cancelled() {
        live(&crowd, &mut dice).await?;
    }
    Ok(())
}

/// One connection, until the worker dies with tasks in its hands or there is nothing more to do.
async fn live(crowd: &Crowd, dice: &mut Dice) -> anyhow::Result<()> {
    let mut worker = Worker::connect(crowd.worker, TOKEN).await?;
    for _ in 0..READYS {
        worker.send(ready()).await?;
    }
    // A list, because a task that was abandoned may come again before the ack of that.
    let mut reported: Vec<(String, Instant)> = Vec::new();
    loop {
        let answer = tokio::select! {
            answer = worker.answer() => answer?,
            () = crowd.is_done.cancelled(), if reported.is_empty() => return Ok(()),
        };
        match answer {
            Answer::Task(assigned) => {
                let task = assigned.task.context("an empty assignment")?;
                let deed = dice.deed();
                // A report without its ack would leave open what has ended.
                if matches!(deed, Deed::Die) && reported.is_empty() {
                    add(&crowd.died, 1);
                    return Ok(());
                }
                reported.push((task.id.clone(), Instant::now()));
                worker.send(report(task, &deed)).await?;
                worker.send(ready()).await?;
            }
            Answer::ResultAck(ack) => {
                add(if ack.ok { &crowd.ended } else { &crowd.late }, 1);
                told(crowd, &mut reported, &ack.task_id, ack.ok, &ack.error_message)?;
            }
            Answer::NackAck(ack) => told(crowd, &mut reported, &ack.task_id, ack.ok, &ack.error_message)?,
            Answer::AbandonAck(ack) => told(crowd, &mut reported, &ack.task_id, ack.ok, &ack.error_message)?,
            other => bail!("the worker stream went on with {other:?}"),
        }
    }
}

fn told(
    crowd: &Crowd,
    reported: &mut Vec<(String, Instant)>,
    id: &str,
    ok: bool,
    error: &str,
) -> anyhow::Result<()> {
    let place = reported.iter().position(|(task, _)| task == id).context("an ack of nothing")?;
    crowd.record(reported.remove(place).1.elapsed());
    match ok || matches!(error, "lease-lost" | "not-in-progress") {
        true => Ok(()),
        false => bail!("a report was refused: {error}"),
    }
}

fn ready() -> Event {
    Event::Ready(Ready {
        commands: vec![COMMAND.to_owned()],
        lease_seconds: LEASE_SECONDS,
        count: 1,
        ..Default::default()
    })
}

fn report(task: Task, deed: &Deed) -> Event {
    let (task_id, attempt) = (task.id, task.attempts);
    match deed {
        Deed::Nack => Event::Nack(Nack {
            task_id,
            delay_seconds: 1,
            reason: "not now".into(),
            attempt,
            ..Default::default()
        }),
        Deed::Abandon => Event::Abandon(Abandon { task_id, attempt, refund: false, ..Default::default() }),
        Deed::Fail => Event::Result(Outcome {
            task_id,
            status: "FAILED".into(),
            error: "it did not work out".into(),
            attempt,
            ..Outcome::default()
        }),
        Deed::Complete | Deed::Die => Event::Result(Outcome {
            task_id,
            status: "COMPLETED".into(),
            result_json: br#"{"ok":true}"#.as_slice().into(),
            attempt,
            ..Outcome::default()
        }),
    }
}
