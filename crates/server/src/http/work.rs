//! What workers send: claims, reports and results.

use super::call::{Call, parse, parse_or_empty};
use super::error::Error;
use super::produce::{common_failure, wait, within_batch};
use super::watched::Pace;
use super::{reply, show};
use crate::auth::Worker;
use crate::broker::{ArtifactGiven, Broker, ClaimRequest, Lent, ReportRequest, SubmitRequest};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use codeq_api::json;
use codeq_api::task::Results;
use codeq_api::work::{
    AbandonBody, ArtifactIn, ClaimBatchBody, ClaimBody, ClaimedTasks, HeartbeatBody, NackBody, Ok as OkBody,
    ReturnedBody, SubmitBatch, SubmitBody, SubmitTarget, SubmittedItem,
};
use codeq_queue::store::Returned;
use codeq_queue::{Owner, Refusal, TaskId, limits};
use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Longest wait of a claim.
const CLAIM_WAIT: i64 = 30;

pub async fn claim(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: ClaimBody = parse_or_empty(&call.read().await?)?;
    let request = ClaimRequest {
        commands: body.commands,
        lease_seconds: body.lease_seconds.unwrap_or(0),
        wait: wait(body.wait_seconds.unwrap_or(0), CLAIM_WAIT),
        count: 1,
    };
    let pace = call.pace();
    call.forget_head();
    let lent = lend(call.broker()?, &worker, request).await?;
    let Some(task) = lent.tasks().first() else { return Ok(reply::no_content()) };
    let text = reply::encode(&call.app.show(task));
    Ok(handed_over(text, lent, pace))
}

pub async fn claim_batch(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: ClaimBatchBody = parse(&call.read().await?)?;
    let count = body.count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    let count = count.ok_or(Refusal::InvalidBody)?;
    if count > limits::BATCH {
        return Err(Refusal::CountTooLarge(limits::BATCH).into());
    }
    let request = ClaimRequest {
        commands: body.commands,
        lease_seconds: body.lease_seconds.unwrap_or(0),
        count,
        ..ClaimRequest::default()
    };
    let lent = lend(call.broker()?, &worker, request).await?;
    if lent.tasks().is_empty() {
        return Ok(reply::no_content());
    }
    let tasks = lent.tasks().iter().map(|task| call.app.show(task)).collect();
    let text = reply::encode(&ClaimedTasks { tasks });
    Ok(handed_over(text, lent, call.pace()))
}

async fn lend(broker: &Arc<Broker>, worker: &Worker, request: ClaimRequest) -> Result<Lent, Error> {
    if worker.0.subject.is_empty() {
        return Err(Refusal::WorkerIdRequired.into());
    }
    Ok(broker.claim(&worker.0, owner(worker), request).await?)
}

fn owner(worker: &Worker) -> Arc<Owner> {
    Arc::new(Owner::new(&worker.0.subject, &worker.0.subject))
}

/// An answer with tasks in it. They are the worker's once the system has taken the text for a connection
/// that is still open; an answer that does not get there goes back with a refund.
fn handed_over(text: Bytes, lent: Lent, pace: Option<Arc<Pace>>) -> Response {
    let mut response = reply::ok(&());
    *response.body_mut() = Body::new(LentBody { text: Some(text), lent: Some(lent), pace });
    response
}

struct LentBody {
    text: Option<Bytes>,
    lent: Option<Lent>,
    pace: Option<Arc<Pace>>,
}

impl hyper::body::Body for LentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        let text = self.text.take();
        match (self.lent.take(), &self.pace) {
            (Some(lent), Some(pace)) => pace.carry(lent),
            (Some(mut lent), None) => lent.hand_over(),
            (None, _) => {}
        }
        Poll::Ready(text.map(|text| Ok(hyper::body::Frame::data(text))))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_none()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.text.as_ref().map_or(0, |text| text.len() as u64))
    }
}

fn report(call: &Call, worker: &Worker, attempt: Option<i64>) -> ReportRequest {
    ReportRequest { id: call.param("id"), owner: owner(worker), attempt }
}

pub async fn heartbeat(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: HeartbeatBody = parse_or_empty(&call.read().await?)?;
    let beat = (report(&call, &worker, body.attempt), body.extend_seconds.unwrap_or(0));
    only(call.broker()?.heartbeat(&worker.0.tenant, vec![beat]).await)?;
    Ok(reply::ok(&OkBody { ok: true }))
}

pub async fn abandon(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: AbandonBody = parse_or_empty(&call.read().await?)?;
    let abandon = (report(&call, &worker, body.attempt), body.refund.unwrap_or(false));
    let returned = only(call.broker()?.abandon(&worker.0.tenant, vec![abandon]).await)?;
    Ok(reply::ok(&ReturnedBody { status: place(returned).into(), delay_seconds: None }))
}

pub async fn nack(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: NackBody = parse_or_empty(&call.read().await?)?;
    let nack = (report(&call, &worker, body.attempt), body.delay_seconds.unwrap_or(0), body.reason);
    let returned = only(call.broker()?.nack(&worker.0.tenant, vec![nack]).await)?;
    let delay_seconds = match returned {
        Returned::Requeued { delay_seconds } => delay_seconds,
        Returned::Dead => 0,
    };
    Ok(reply::ok(&ReturnedBody { status: place(returned).into(), delay_seconds: Some(delay_seconds) }))
}

fn place(returned: Returned) -> &'static str {
    match returned {
        Returned::Requeued { .. } => "requeued",
        Returned::Dead => "dlq",
    }
}

/// The answer of a call that had one item.
fn only<T>(mut items: crate::broker::Items<T>) -> Result<T, Error> {
    Ok(items.pop().expect("one item, one answer")?)
}

pub async fn submit(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let text = call.read().await?;
    let body: SubmitBody<'_> = parse(&text).map_err(in_words_of_submit)?;
    let asked = submit_request(report(&call, &worker, body.attempt), body, &text);
    let record =
        only(call.broker()?.submit(&worker.0.tenant, vec![asked]).await).map_err(in_words_of_submit)?;
    let id = TaskId::parse(&call.param("id")).ok_or(Refusal::NotFound)?;
    Ok(reply::ok(&show::record(id, &record, &call.app.stamp)))
}

pub async fn submit_batch(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let text = call.read().await?;
    let batch: SubmitBatch<'_> = parse(&text)?;
    let items = within_batch(batch.results)?;
    let mut ids = Vec::with_capacity(items.len());
    let mut asked = Vec::with_capacity(items.len());
    for item in items {
        let body: Result<SubmitBody<'_>, _> = json::read_checked(item.get());
        let target: SubmitTarget = json::read_checked(item.get()).unwrap_or_default();
        asked.push(body.map_err(|_| Refusal::InvalidBody).and_then(|body| {
            let id = body.task_id.clone().ok_or(Refusal::InvalidBody)?;
            submit_request(ReportRequest { id, owner: owner(&worker), attempt: body.attempt }, body, &text)
        }));
        ids.push(target.task_id.unwrap_or_default());
    }
    let submitted = call.broker()?.submit(&worker.0.tenant, asked).await;
    if let Some(failure) = common_failure(&submitted) {
        return Err(failure.saying("storage_unavailable", "batch submit failed"));
    }
    let results = ids.iter().zip(&submitted).map(|(id, item)| submitted_item(&call, id, item));
    Ok(reply::ok(&Results { results: results.collect() }))
}

fn submitted_item<'a>(
    call: &Call,
    id: &'a str,
    item: &'a Result<codeq_queue::ResultRecord, crate::broker::Error>,
) -> SubmittedItem<'a> {
    let task_id = Cow::Borrowed(id);
    match (item, TaskId::parse(id)) {
        (Ok(record), Some(id)) => {
            let result = Some(show::record(id, record, &call.app.stamp));
            SubmittedItem { task_id, result, error: None, code: None }
        }
        (Ok(_), None) => unreachable!("a result was stored for an id that names no task"),
        (Err(error), _) => {
            let error = in_words_of_submit(Error::from(error.clone()));
            SubmittedItem { task_id, result: None, error: Some(error.text), code: Some(error.code.into()) }
        }
    }
}

fn in_words_of_submit(error: Error) -> Error {
    error.saying("invalid_body", "invalid request body").saying("task_not_found", "task not found")
}

/// `text` is what `body` was read from: the files in it are not copied.
fn submit_request(
    report: ReportRequest,
    body: SubmitBody<'_>,
    text: &Bytes,
) -> Result<SubmitRequest, Refusal> {
    if body.result.is_some_and(|result| !result.get().starts_with('{')) {
        return Err(Refusal::InvalidBody);
    }
    let artifacts = body.artifacts.unwrap_or_default().into_iter().map(|given| artifact(given, text));
    Ok(SubmitRequest {
        report,
        status: body.status.ok_or(Refusal::InvalidBody)?,
        result: body.result.map(|result| result.get().into()),
        error: body.error,
        artifacts: artifacts.collect::<Result<_, _>>()?,
    })
}

fn artifact(given: ArtifactIn<'_>, text: &Bytes) -> Result<ArtifactGiven, Refusal> {
    let content = given.content_base64.map(|content| match content {
        Cow::Borrowed(content) => text.slice_ref(content.as_bytes()),
        Cow::Owned(content) => Bytes::from(content),
    });
    Ok(ArtifactGiven {
        name: given.name.ok_or(Refusal::InvalidBody)?,
        url: given.url,
        content,
        content_type: given.content_type,
    })
}
