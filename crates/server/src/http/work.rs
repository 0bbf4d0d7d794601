//! What workers send: claims, reports and results.

use super::call::{Call, parse, parse_or_empty};
use super::error::Error;
use super::produce::{common_failure, wait, within_batch};
use super::watched::Pace;
use super::{reply, show};
use crate::auth::Worker;
use crate::broker::{
    AbandonRequest, ArtifactGiven, BeatRequest, Broker, ClaimRequest, Lent, NackRequest, ReportRequest,
    SubmitRequest,
};
use crate::stamp::{WireTime, utc_seconds};
use crate::workers::Protocol;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use codeq_api::json;
use codeq_api::task::Results;
use codeq_api::work::{
    AbandonBody, ArtifactIn, BeatBody, CancelBody, ClaimBatchBody, ClaimBody, ClaimedTasks, HeartbeatBatch,
    HeartbeatBody, HeartbeatItem, NackBody, ReturnedBody, SubmitBatch, SubmitBody, SubmitTarget,
    SubmittedItem, WorkerInfo,
};
use codeq_queue::store::{Beat, Returned};
use codeq_queue::{Order, Owner, Refusal, TaskId, Weights, limits};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Longest wait of a claim.
const CLAIM_WAIT: i64 = 30;

pub async fn claim(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let text = call.read().await?;
    let body: ClaimBody<'_> = parse_or_empty(&text)?;
    let owner = owner(&call, &worker)?;
    let request = ClaimRequest {
        protocol: Protocol::Http,
        commands: body.commands,
        lease_seconds: body.lease_seconds.unwrap_or(0),
        wait: wait(body.wait_seconds.unwrap_or(0), CLAIM_WAIT),
        count: 1,
        order: order(body.order, body.weights)?,
        info: info(body.worker)?,
    };
    let pace = call.pace();
    call.forget();
    drop(text);
    let lent = lend(call.broker()?, &worker, owner, request).await?;
    let Some(task) = lent.tasks().first() else { return Ok(reply::no_content()) };
    let text = reply::encode(&call.app.show(task));
    Ok(handed_over(text, lent, pace))
}

pub async fn claim_batch(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let text = call.read().await?;
    let body: ClaimBatchBody<'_> = parse(&text)?;
    let count = body.count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    let count = count.ok_or(Refusal::InvalidBody)?;
    if count > limits::BATCH {
        return Err(Refusal::CountTooLarge(limits::BATCH).into());
    }
    let owner = owner(&call, &worker)?;
    let request = ClaimRequest {
        protocol: Protocol::Http,
        commands: body.commands,
        lease_seconds: body.lease_seconds.unwrap_or(0),
        wait: wait(body.wait_seconds.unwrap_or(0), CLAIM_WAIT),
        count,
        order: order(body.order, body.weights)?,
        info: info(body.worker)?,
    };
    let pace = call.pace();
    call.forget();
    drop(text);
    let lent = lend(call.broker()?, &worker, owner, request).await?;
    if lent.tasks().is_empty() {
        return Ok(reply::no_content());
    }
    let tasks = lent.tasks().iter().map(|task| call.app.show(task)).collect();
    let text = reply::encode(&ClaimedTasks { tasks });
    Ok(handed_over(text, lent, pace))
}

fn order(order: Option<String>, weights: Option<BTreeMap<String, i64>>) -> Result<Order, Refusal> {
    let weights =
        weights.map(|given| Weights::read(given.iter().map(|(name, weight)| (name.as_str(), *weight))));
    Order::read(order.as_deref().unwrap_or_default(), weights.transpose()?)
}

async fn lend(
    broker: &Arc<Broker>,
    worker: &Worker,
    owner: Arc<Owner>,
    request: ClaimRequest,
) -> Result<Lent, Error> {
    if owner.worker_id.is_empty() {
        return Err(Refusal::WorkerIdRequired.into());
    }
    Ok(broker.claim(&worker.0, owner, request).await?)
}

/// Whose leases they are: (`sub`, `Codeq-Worker`), as on a stream. Without the header the worker is the token.
fn owner(call: &Call, worker: &Worker) -> Result<Arc<Owner>, Refusal> {
    const REFUSAL: Refusal = Refusal::InvalidWorker("Codeq-Worker (1 to 128 visible ASCII characters)");
    let subject = &worker.0.subject;
    let name = match call.header("codeq-worker") {
        Ok(None) => subject,
        Ok(Some(name)) => {
            let is_visible = name.bytes().all(|c| c.is_ascii_graphic());
            if !is_visible || !(1..=limits::WORKER_NAME_BYTES).contains(&name.len()) {
                return Err(REFUSAL);
            }
            name
        }
        Err(_) => return Err(REFUSAL),
    };
    Ok(Arc::new(Owner::new(subject, name)))
}

fn info(given: Option<&RawValue>) -> Result<Option<Arc<WorkerInfo>>, Refusal> {
    const REFUSAL: Refusal =
        Refusal::InvalidWorker("worker (at most 512 bytes: host, pid, sdk, version, slots)");
    let Some(text) = given.map(RawValue::get) else { return Ok(None) };
    if text.len() > limits::WORKER_INFO_BYTES || !text.starts_with('{') {
        return Err(REFUSAL);
    }
    json::read_checked(text).map(|info| Some(Arc::new(info))).map_err(|_| REFUSAL)
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

fn report(call: &Call, worker: &Worker, attempt: Option<i64>) -> Result<ReportRequest, Refusal> {
    let owner = owner(call, worker)?;
    Ok(ReportRequest { id: call.param("id"), owner, attempt, protocol: Protocol::Http })
}

pub async fn heartbeat(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: HeartbeatBody = parse_or_empty(&call.read().await?)?;
    let beat = beat_request(report(&call, &worker, body.attempt)?, body);
    let beat = only(call.broker()?.heartbeat(&worker.0.tenant, vec![beat]).await)?;
    Ok(reply::ok(&beat_body(&beat, &call.app.stamp)))
}

/// Answers item by item, as the other batches do.
pub async fn heartbeat_batch(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let text = call.read().await?;
    let batch: HeartbeatBatch<'_> = parse(&text)?;
    let items = within_batch(batch.heartbeats)?;
    let owner = owner(&call, &worker)?;
    let read = |item: &&RawValue| -> Option<BeatRequest> {
        let body: HeartbeatBody = json::read_checked(item.get()).ok()?;
        let (id, owner) = (body.task_id.clone()?, owner.clone());
        let report = ReportRequest { id, owner, attempt: body.attempt, protocol: Protocol::Http };
        Some(beat_request(report, body))
    };
    let asked: Vec<Option<BeatRequest>> = items.iter().map(read).collect();
    let sound: Vec<BeatRequest> = asked.iter().flatten().cloned().collect();
    let beaten = match sound.is_empty() {
        true => Vec::new(),
        false => call.broker()?.heartbeat(&worker.0.tenant, sound).await,
    };
    if let Some(failure) = common_failure(&beaten) {
        return Err(failure);
    }
    let mut beaten = beaten.into_iter();
    let results = asked.iter().map(|asked| {
        let id = asked.as_ref().map(|beat| beat.report.id.clone()).unwrap_or_default();
        let answer = match asked {
            Some(_) => beaten.next().expect("one item, one answer").map_err(Error::from),
            None => Err(Refusal::InvalidBody.into()),
        };
        match answer {
            Ok(beat) => HeartbeatItem {
                task_id: id,
                beat: Some(beat_body(&beat, &call.app.stamp)),
                ..Default::default()
            },
            Err(error) => HeartbeatItem {
                task_id: id,
                beat: None,
                error: Some(error.text),
                code: Some(error.code.into()),
            },
        }
    });
    Ok(reply::ok(&Results { results: results.collect() }))
}

fn beat_request(report: ReportRequest, body: HeartbeatBody) -> BeatRequest {
    BeatRequest {
        report,
        extend_seconds: body.extend_seconds.unwrap_or(0),
        progress: body.progress.map(|text| text.get().to_owned()),
        checkpoint: body.checkpoint.map(|text| text.get().to_owned()),
    }
}

fn beat_body(beat: &Beat, stamp: &WireTime) -> BeatBody {
    let cancel = beat.cancel.as_ref().map(|cancel| CancelBody {
        reason: cancel.reason.as_deref().map(str::to_owned),
        deadline: stamp.text(cancel.deadline),
    });
    BeatBody { ok: true, lease_until: utc_seconds(beat.lease_until), cancel }
}

pub async fn abandon(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: AbandonBody = parse_or_empty(&call.read().await?)?;
    let abandon = AbandonRequest {
        report: report(&call, &worker, body.attempt)?,
        refund: body.refund.unwrap_or(false),
        checkpoint: body.checkpoint.map(|text| text.get().to_owned()),
    };
    let returned = only(call.broker()?.abandon(&worker.0.tenant, vec![abandon]).await)?;
    Ok(reply::ok(&ReturnedBody { status: place(returned).into(), delay_seconds: None }))
}

pub async fn nack(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: NackBody = parse_or_empty(&call.read().await?)?;
    let nack = NackRequest {
        report: report(&call, &worker, body.attempt)?,
        delay_seconds: body.delay_seconds.unwrap_or(0),
        reason: body.reason,
        refund: body.refund.unwrap_or(false),
        hold: body.hold,
        checkpoint: body.checkpoint.map(|text| text.get().to_owned()),
    };
    let returned = only(call.broker()?.nack(&worker.0.tenant, vec![nack]).await)?;
    let delay_seconds = match returned {
        Returned::Requeued { delay_seconds } => delay_seconds,
        Returned::Dead | Returned::Cancelled => 0,
    };
    Ok(reply::ok(&ReturnedBody { status: place(returned).into(), delay_seconds: Some(delay_seconds) }))
}

fn place(returned: Returned) -> &'static str {
    match returned {
        Returned::Requeued { .. } => "requeued",
        Returned::Dead => "dlq",
        Returned::Cancelled => "cancelled",
    }
}

/// The answer of a call that had one item.
fn only<T>(mut items: crate::broker::Items<T>) -> Result<T, Error> {
    Ok(items.pop().expect("one item, one answer")?)
}

pub async fn submit(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let text = call.read().await?;
    let body: SubmitBody<'_> = parse(&text).map_err(in_words_of_submit)?;
    let asked = submit_request(report(&call, &worker, body.attempt)?, body, &text);
    let record =
        only(call.broker()?.submit(&worker.0.tenant, vec![asked]).await).map_err(in_words_of_submit)?;
    let id = TaskId::parse(&call.param("id")).ok_or(Refusal::NotFound)?;
    Ok(reply::ok(&show::record(id, &record, &call.app.stamp)))
}

pub async fn submit_batch(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let text = call.read().await?;
    let batch: SubmitBatch<'_> = parse(&text)?;
    let owner = owner(&call, &worker)?;
    let items = within_batch(batch.results)?;
    let mut ids = Vec::with_capacity(items.len());
    let mut asked = Vec::with_capacity(items.len());
    for item in items {
        let body: Result<SubmitBody<'_>, _> = json::read_checked(item.get());
        let target: SubmitTarget = json::read_checked(item.get()).unwrap_or_default();
        asked.push(body.map_err(|_| Refusal::InvalidBody).and_then(|body| {
            let id = body.task_id.clone().ok_or(Refusal::InvalidBody)?;
            let (owner, attempt) = (owner.clone(), body.attempt);
            submit_request(ReportRequest { id, owner, attempt, protocol: Protocol::Http }, body, &text)
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
