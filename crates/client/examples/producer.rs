//! Creates a task and waits for its result: `cargo run -p codeq-client --example producer`.
//!
//! Arguments: base URL, and the address of the producer stream to create over it. Run the worker beside it.

use codeq_client::{Connection, Error, NewTask, Producer};
use std::time::Duration;

#[derive(serde::Serialize)]
struct Greet {
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let base = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8080".into());
    let mut connection = Connection::new("dev-token").http(base);
    if let Some(address) = arguments.next() {
        connection = connection.producer_stream(address);
    }
    let producer = Producer::new(&connection);
    let task = NewTask::new("greet", &Greet { name: "world".into() }).priority(5).max_attempts(3);
    let created = producer.create(task).await?;
    println!("created {}", created.id);
    let finished = producer.wait_for_result(&created.id, Duration::from_secs(60)).await?;
    println!(
        "{}: {}",
        finished.task.status,
        finished.result.map_or_else(String::new, |result| result.to_string())
    );
    Ok(())
}
