//! Greets until ctrl-c: `cargo run -p codeq-client --example worker`.
//!
//! Arguments: base URL, and the address of the worker stream to work over it.

use codeq_client::{Connection, Error, Job, Outcome, Worker};
use std::time::Duration;

#[derive(serde::Deserialize)]
struct Greet {
    name: String,
}

async fn greet(job: Job<Greet>) -> Outcome {
    println!("task {} attempt {}: {}", job.id, job.attempt, job.payload.name);
    match job.payload.name.as_str() {
        "" => Outcome::fail("nobody to greet"),
        "later" => Outcome::nack("they sleep").after(Duration::from_secs(60)),
        name => Outcome::complete(serde_json::json!({"greeting": format!("Hello, {name}!")})),
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let base = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8080".into());
    let mut connection = Connection::new("dev-token").http(base);
    if let Some(address) = arguments.next() {
        connection = connection.worker_stream(address);
    }
    let worker =
        Worker::new(&connection).concurrency(4).lease(Duration::from_secs(30)).handle("greet", greet);
    println!("waiting for tasks; ctrl-c ends");
    worker.run_until(tokio::signal::ctrl_c()).await
}
