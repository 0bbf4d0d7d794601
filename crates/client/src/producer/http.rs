//! Creates over HTTP.

use crate::http::{Answer, Http, json, parse};
use crate::task::{Created, NewTask, Task};
use crate::{Error, limits, refusal};
use codeq_api::task::{CreateBatch, CreatedItem, Results};
use serde_json::value::RawValue;
use std::time::Duration;

/// One answer for every task, in order.
pub(super) async fn create(http: &Http, tasks: &[&NewTask]) -> Vec<Result<Created, Error>> {
    // The route for one task wants a payload that is something; the others take null.
    if let [task] = tasks
        && !task.is_null()
    {
        return vec![create_one(http, task).await];
    }
    let mut answers: Vec<Result<Created, Error>> = Vec::with_capacity(tasks.len());
    let mut batch: Vec<(usize, Box<RawValue>)> = Vec::new();
    let mut bytes = 0;
    for task in tasks {
        match task.body().and_then(raw) {
            Ok(body) => {
                if batch.len() == limits::HTTP_BATCH || bytes + body.get().len() > limits::HTTP_BATCH_BYTES {
                    send(http, std::mem::take(&mut batch), &mut answers).await;
                    bytes = 0;
                }
                bytes += body.get().len();
                batch.push((answers.len(), body));
                answers.push(Err(Error::unavailable("not sent")));
            }
            Err(error) => answers.push(Err(error)),
        }
    }
    send(http, batch, &mut answers).await;
    answers
}

fn raw(body: String) -> Result<Box<RawValue>, Error> {
    RawValue::from_string(body).map_err(|error| Error::Json(error.to_string()))
}

async fn create_one(http: &Http, task: &NewTask) -> Result<Created, Error> {
    let answer = http.post("/tasks", task.body()?, Duration::ZERO).await?;
    let task: Task = parse(&answer.text)?;
    let Answer { replayed, deduplicated, .. } = answer;
    Ok(Created { id: task.id.into_owned(), replayed, deduplicated })
}

/// Sends a batch and puts the answers to where they belong.
async fn send(http: &Http, batch: Vec<(usize, Box<RawValue>)>, answers: &mut [Result<Created, Error>]) {
    if batch.is_empty() {
        return;
    }
    let (places, bodies): (Vec<usize>, Vec<Box<RawValue>>) = batch.into_iter().unzip();
    match send_batch(http, &bodies).await {
        Ok(items) if items.len() == places.len() => {
            places.into_iter().zip(items).for_each(|(place, item)| answers[place] = item);
        }
        Ok(_) => places.into_iter().for_each(|place| answers[place] = Err(Error::unavailable("no answer"))),
        // One item that cannot be read spoils the whole body.
        Err(Error::Refused { status: 400 | 413, .. }) if places.len() > 1 => {
            for (place, body) in places.into_iter().zip(bodies) {
                let alone = send_batch(http, &[body]).await.and_then(|mut items| {
                    items.pop().unwrap_or_else(|| Err(Error::unavailable("no answer")))
                });
                answers[place] = alone;
            }
        }
        Err(error) => places.into_iter().for_each(|place| answers[place] = Err(error.clone())),
    }
}

async fn send_batch(http: &Http, bodies: &[Box<RawValue>]) -> Result<Vec<Result<Created, Error>>, Error> {
    let body = json(&CreateBatch { tasks: Some(bodies.iter().map(AsRef::as_ref).collect()) })?;
    let answer = http.post("/tasks/batch", body, Duration::ZERO).await?;
    let items: Results<CreatedItem<'_>> = parse(&answer.text)?;
    Ok(items.results.into_iter().map(created).collect())
}

fn created(item: CreatedItem<'_>) -> Result<Created, Error> {
    match item.task {
        Some(task) => {
            let (replayed, deduplicated) = (item.replayed, item.deduplicated);
            Ok(Created { id: task.id.into_owned(), replayed, deduplicated })
        }
        None => {
            let (code, text) = (item.code.unwrap_or_default(), item.error.unwrap_or_default());
            Err(refusal::from_code(&code, &text))
        }
    }
}
