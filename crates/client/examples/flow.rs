//! Sending email, an image pipeline with files, a client of an API with a limit, a schedule, and a batch with what
//! comes after it: `cargo run -p codeq-client --example flow -- [base URL]`.

use codeq_client::{Error, Hold, Job, NewBatch, NewSchedule, NewTask, Outcome, Producer, Stop, Worker};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Email {
    to: String,
    subject: String,
}

/// What the mail service refuses for now is tried again, what it refuses for good is not.
async fn send_email(job: Job<Email>) -> Result<Outcome, reqwest::Error> {
    let service = std::env::var("MAIL_API").unwrap_or_else(|_| "http://127.0.0.1:8025/messages".into());
    // The id is the same in every attempt, so that the service can drop what it has seen.
    let request = reqwest::Client::new().post(service).header("Idempotency-Key", &job.id);
    let response = request.body(json!({"to": job.payload.to, "subject": job.payload.subject}).to_string());
    let response = response.send().await?;
    Ok(match response.status().as_u16() {
        200..300 => Outcome::complete(json!({"sent": job.payload.to})),
        429 | 500.. => Outcome::nack("the mail service is busy").after(Duration::from_secs(60)),
        status => Outcome::fail(format!("the mail service says {status}")),
    })
}

/// Goes on where the last attempt stopped, tells how far it is, and leaves when it is asked to.
async fn resize(job: Job<Vec<String>>) -> Result<Outcome, Error> {
    let done = job.saved::<usize>()?.unwrap_or(0);
    for (at, image) in job.payload.iter().enumerate().skip(done) {
        if let Some(Stop::Requested { reason, .. }) = job.stop() {
            return Ok(Outcome::complete(json!({"resized": at, "stopped": reason})));
        }
        job.attach(format!("{image}.thumb"), format!("a small {image}"), "text/plain")?;
        job.progress(&json!({"done": at + 1, "of": job.payload.len()})).await?;
        job.checkpoint(&(at + 1)).await?;
    }
    Ok(Outcome::complete(json!({"resized": job.payload.len()})))
}

/// What the API turns away waits as long as it says, with everything else of that customer, at no attempt's cost.
async fn call_api(job: Job<String>) -> Result<Outcome, reqwest::Error> {
    let response = reqwest::get(&job.payload).await?;
    Ok(match response.status().as_u16() {
        429 => {
            let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            let pause = Duration::from_secs(asked.and_then(|seconds| seconds.parse().ok()).unwrap_or(10));
            Outcome::nack("the API asks for a pause").after(pause).hold(Hold::Lane)
        }
        status @ 400..500 => Outcome::fail(format!("the API says {status}")),
        status => Outcome::complete(json!({"status": status})),
    })
}

async fn report(job: Job<String>) -> Result<String, String> {
    // The instant of the plan, if it was a schedule that made the task.
    let at = job.headers.get("codeq-scheduled-for").cloned().unwrap_or_else(|| "now".into());
    Ok(format!("{} for {at}", job.payload))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let base = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8080".into());
    let worker = Worker::http(&base, "dev-token")
        .handle("send_email", send_email)
        .handle("image.resize", resize)
        .handle("api.fetch", call_api)
        .handle("report", report);
    let working = tokio::spawn(worker.run_until_signal());

    let producer = Producer::http(&base, "dev-token");
    let images = NewTask::new("image.resize", &["cat", "dog"]);
    let resized = producer.create(images).await?;
    let finished = producer.wait_for_result(&resized.id, Duration::from_secs(30)).await?;
    println!("{} with {} files", finished.result.unwrap_or_default(), finished.artifacts.len());

    let nightly = NewSchedule::cron("30 2 * * *", NewTask::new("report", "sales")).timezone("Europe/Berlin");
    println!("next report at {:?}", producer.put_schedule("nightly-report", &nightly).await?.next_at);

    let batch = producer.create_batch(&NewBatch::new("mails").then(NewTask::new("report", "mails"))).await?;
    let mails =
        ["ada", "bob"].map(|name| Email { to: format!("{name}@example.com"), subject: "Hello".into() });
    producer.create_all(mails.iter().map(|mail| NewTask::new("send_email", mail).batch(&batch.id))).await;
    producer.close_batch(&batch.id).await?;
    println!("working; ctrl-c ends");
    working.await.map_err(|error| Error::Settings(error.to_string()))?
}
