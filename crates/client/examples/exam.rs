//! The Rust runner of the exam; see sdks/exam/exam.py.

use codeq_client::{
    Created, Error, Job, NewBatch, NewSchedule, NewTask, Outcome, Producer, Stop, Token, Unique, Worker,
};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Order {
    url: String,
    tokens: VecDeque<String>,
    log: String,
    worker: u32,
    concurrency: usize,
    lease: f64,
    grace: f64,
    tasks: Vec<Create>,
    many: bool,
    cancel: Option<Cancel>,
    schedule: Option<Schedule>,
    batch: Option<Batch>,
}

impl Default for Order {
    fn default() -> Order {
        let (url, tokens, log, worker, tasks, many) = Default::default();
        let (cancel, schedule, batch) = Default::default();
        Order {
            url,
            tokens,
            log,
            worker,
            concurrency: 16,
            lease: 60.0,
            grace: 25.0,
            tasks,
            many,
            cancel,
            schedule,
            batch,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Create {
    command: Option<String>,
    payload: Box<RawValue>,
    max_attempts: Option<u32>,
    lane: Option<String>,
    unique: Option<String>,
    webhook: Option<String>,
}

#[derive(Deserialize)]
struct Cancel {
    ids: Vec<String>,
    grace: f64,
    reason: String,
}

#[derive(Deserialize)]
struct Schedule {
    name: String,
    cron: String,
    payload: Box<RawValue>,
}

#[derive(Deserialize)]
struct Batch {
    members: Vec<Box<RawValue>>,
    then: Box<RawValue>,
}

/// What a payload asks its handler to do.
#[derive(Deserialize)]
#[serde(default)]
struct Deed {
    #[serde(rename = "do")]
    verb: String,
    until: u32,
    text: String,
    seconds: f64,
    value: Box<RawValue>,
}

impl Default for Deed {
    fn default() -> Deed {
        let value = RawValue::from_string("null".into()).expect("JSON");
        Deed { verb: String::new(), until: 0, text: String::new(), seconds: 0.0, value }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&arguments[2])?;
    let order: Order = serde_json::from_str(&text)?;
    match arguments[1].as_str() {
        "worker" => work(order).await?,
        _ => produce(order).await?,
    }
    Ok(())
}

/// Every token once, the last one for ever.
fn token(order: &Order) -> Token {
    let tokens = Arc::new(Mutex::new(order.tokens.clone()));
    Token::renewed(move || {
        let mut tokens = tokens.lock().expect("nobody panics with it");
        let first = tokens.front().cloned().unwrap_or_default();
        if tokens.len() > 1 {
            tokens.pop_front();
        }
        std::future::ready(Ok::<_, std::io::Error>(first))
    })
}

async fn work(order: Order) -> Result<(), Box<dyn std::error::Error>> {
    let log = Arc::new(File::options().append(true).open(&order.log)?);
    let worker = Worker::http(&order.url, token(&order))
        .concurrency(order.concurrency)
        .lease(Duration::from_secs_f64(order.lease))
        .grace(Duration::from_secs_f64(order.grace))
        .handle("exam", move |job: Job<Box<RawValue>>| {
            let log = log.clone();
            async move {
                let note = |event: &str| {
                    let (task, attempt, worker) = (&job.id, job.attempt, order.worker);
                    let line = json!({"event": event, "task": task, "attempt": attempt, "worker": worker});
                    (&*log).write_all(format!("{line}\n").as_bytes()).expect("the log can be written");
                };
                note("start");
                let outcome = act(&job).await;
                if job.is_cancelled() {
                    note("stopped");
                }
                note("end");
                outcome
            }
        });
    Ok(worker.run_until_signal().await?)
}

async fn act(job: &Job<Box<RawValue>>) -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
    let deed: Deed = serde_json::from_str(job.payload.get())?;
    let seconds = Duration::from_secs_f64(deed.seconds);
    // Whether it slept to the end.
    let rest = || async {
        tokio::select! {
            () = tokio::time::sleep(seconds) => true,
            () = job.cancelled() => false,
        }
    };
    match deed.verb.as_str() {
        "flaky" if job.attempt < deed.until => return Err("not yet".into()),
        "raise" => return Err(deed.text.into()),
        "fail" => return Ok(Outcome::fail(deed.text)),
        "block" => std::thread::sleep(seconds),
        "sleep" if !rest().await => return Err("asked to stop".into()),
        "heed" => {
            rest().await;
            let heeded = matches!(job.stop(), Some(Stop::Requested { deadline: Some(_), .. }));
            return Ok(Outcome::complete(json!({"heeded": heeded})));
        }
        "resume" => match job.saved::<Box<RawValue>>()? {
            Some(saved) => {
                return Ok(Outcome::complete(RawValue::from_string(format!("{{\"from\":{saved}}}"))?));
            }
            None => {
                job.checkpoint(&deed.value).await?;
                return Err("the next attempt goes on".into());
            }
        },
        "report" => {
            job.progress(&deed.value).await?;
            rest().await;
        }
        _ => {}
    }
    Ok(Outcome::complete(&job.payload))
}

async fn produce(order: Order) -> Result<(), Box<dyn std::error::Error>> {
    let producer = Producer::http(&order.url, token(&order));
    if let Some(Cancel { ids, grace, reason }) = &order.cancel {
        for id in ids {
            producer.cancel(id, Duration::from_secs_f64(*grace), reason).await?;
        }
        return Ok(());
    }
    if let Some(Schedule { name, cron, payload }) = &order.schedule {
        let plan = NewSchedule::cron(cron, NewTask::new("exam", payload));
        producer.put_schedule(name, &plan).await?;
        return Ok(());
    }
    if let Some(batch) = &order.batch {
        return tell(in_batch(&producer, batch).await?);
    }
    let many = order.many;
    let tasks: Vec<NewTask> = order.tasks.into_iter().map(new_task).collect();
    if many {
        return tell(producer.create_all(tasks).await);
    }
    let mut made = Vec::new();
    for task in tasks {
        made.push(producer.create(task).await);
    }
    tell(made)
}

fn new_task(create: Create) -> NewTask {
    let mut task = NewTask::new(create.command.unwrap_or_else(|| "exam".into()), &create.payload);
    if let Some(attempts) = create.max_attempts {
        task = task.max_attempts(attempts);
    }
    if let Some(lane) = create.lane {
        task = task.lane(lane);
    }
    if let Some(url) = create.webhook {
        task = task.webhook(url);
    }
    match create.unique {
        Some(key) => task.unique(Unique::new(key)),
        None => task,
    }
}

async fn in_batch(producer: &Producer, batch: &Batch) -> Result<Vec<Result<Created, Error>>, Error> {
    let opened = producer.create_batch(&NewBatch::default()).await?;
    let members = batch.members.iter().map(|payload| NewTask::new("exam", payload).batch(&opened.id));
    let mut made = producer.create_all(members).await;
    made.push(producer.create(NewTask::new("exam", &batch.then).after(&opened.id)).await);
    producer.close_batch(&opened.id).await?;
    Ok(made)
}

fn tell(made: Vec<Result<Created, Error>>) -> Result<(), Box<dyn std::error::Error>> {
    for one in made {
        match one {
            Ok(created) => println!("{}", json!({"id": created.id})),
            Err(error @ Error::Refused { .. }) => {
                println!("{}", json!({"type": "Refused", "code": error.code()}));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
