//! A producer and a worker in one program: a thousand additions and their sum.
//!
//! `cargo run -p codeq-client --example end_to_end -- [base URL [producer stream, worker stream]]`

use codeq_client::{Connection, Error, Job, NewTask, Producer, Worker};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const TASKS: u64 = 1000;

#[derive(serde::Serialize, serde::Deserialize)]
struct Add {
    a: u64,
    b: u64,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Sum {
    sum: u64,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let connection = connection();
    let (end, ended) = oneshot::channel::<()>();
    let add = |job: Job<Add>| async move { Ok::<_, String>(Sum { sum: job.payload.a + job.payload.b }) };
    let worker = tokio::spawn(Worker::new(&connection).concurrency(64).handle("add", add).run_until(ended));

    let started = Instant::now();
    let producer = Producer::new(&connection);
    let tasks = (0..TASKS).map(|n| NewTask::new("add", &Add { a: n, b: 1 }));
    let mut total = 0;
    for created in producer.create_all(tasks).await {
        let finished = producer.wait_for_result(&created?.id, Duration::from_secs(60)).await?;
        total += finished.json::<Sum>()?.sum;
    }
    println!("{TASKS} tasks, total {total}, in {:.2?}", started.elapsed());
    drop(end);
    worker.await.unwrap_or_else(|error| Err(Error::Settings(error.to_string())))
}

fn connection() -> Connection {
    let mut arguments = std::env::args().skip(1);
    let base = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8080".into());
    let connection = Connection::new("dev-token").http(base);
    match (arguments.next(), arguments.next()) {
        (Some(producer), Some(worker)) => connection.producer_stream(producer).worker_stream(worker),
        _ => connection,
    }
}
