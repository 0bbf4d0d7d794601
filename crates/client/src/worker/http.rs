//! Claims and reports over HTTP.

use super::claim::Claims;
use super::context::{Artifact, Kept};
use super::link::{Assigned, CancelNotice, Report, ReportAnswer, Word, told};
use super::results::ResultBatches;
use crate::http::{Http, json, parse, segment};
use crate::task::Task;
use crate::time::instant;
use crate::{Error, limits};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use codeq_api::work::{
    AbandonBody, ArtifactIn, BeatBody, ClaimBatchBody, ClaimBody, ClaimedTasks, HeartbeatBody, NackBody,
    SubmitBody,
};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(super) struct HttpLink {
    http: Http,
    results: Arc<ResultBatches>,
}

impl HttpLink {
    pub fn new(http: Http) -> HttpLink {
        HttpLink { results: ResultBatches::new(http.clone()), http }
    }

    /// Up to `count` tasks that are there now; if there are none, waits a while for one, or for `stop`.
    ///
    /// Only the wait is interrupted, and then the server lends nothing to it. The first request is always
    /// seen through: what it brings must be given back, and not be left to the end of its lease.
    pub async fn claim(
        &self,
        claims: &Claims,
        count: usize,
        stop: &CancellationToken,
    ) -> Result<Vec<Assigned>, Error> {
        let tasks = self.claim_now(claims, count.min(limits::HTTP_BATCH)).await?;
        if !tasks.is_empty() {
            return Ok(tasks);
        }
        tokio::select! {
            biased;
            claimed = self.claim_one(claims) => claimed,
            () = stop.cancelled() => Ok(Vec::new()),
        }
    }

    async fn claim_now(&self, claims: &Claims, count: usize) -> Result<Vec<Assigned>, Error> {
        let info = claims.identity.json();
        let body = json(&ClaimBatchBody {
            commands: Some(claims.commands.clone()),
            lease_seconds: Some(claims.lease_seconds),
            count: i64::try_from(count).ok(),
            order: claims.turns.order.clone(),
            weights: claims.turns.weights_in_json(),
            worker: info.as_deref(),
            ..ClaimBatchBody::default()
        })?;
        let asked = Instant::now();
        let answer = self.http.post("/tasks/claim/batch", body, Duration::ZERO).await?;
        if answer.status == 204 {
            return Ok(Vec::new());
        }
        let claimed: ClaimedTasks<'static> = parse(&answer.text)?;
        Ok(claimed.tasks.into_iter().map(|task| assigned(task, asked)).collect())
    }

    async fn claim_one(&self, claims: &Claims) -> Result<Vec<Assigned>, Error> {
        let info = claims.identity.json();
        let wait = longest_wait(claims.crew.lease);
        let body = json(&ClaimBody {
            commands: Some(claims.commands.clone()),
            lease_seconds: Some(claims.lease_seconds),
            wait_seconds: i64::try_from(wait.as_secs()).ok(),
            order: claims.turns.order.clone(),
            weights: claims.turns.weights_in_json(),
            worker: info.as_deref(),
        })?;
        let asked = Instant::now();
        let answer = self.http.post("/tasks/claim", body, wait).await?;
        if answer.status == 204 {
            return Ok(Vec::new());
        }
        let task: Task = parse(&answer.text)?;
        Ok(vec![assigned(task, begun(asked, Instant::now(), wait, claims.crew.lease))])
    }

    pub async fn report(&self, report: Report) -> Result<ReportAnswer, Error> {
        let Report { id, attempt, word } = report;
        let attempt = Some(i64::from(attempt));
        match word {
            Word::Heartbeat { extend_seconds, said } => {
                let body = HeartbeatBody {
                    extend_seconds: Some(extend_seconds),
                    attempt,
                    progress: said.progress,
                    checkpoint: said.checkpoint,
                    ..HeartbeatBody::default()
                };
                self.post(&id, "heartbeat", json(&body)?).await
            }
            Word::Nack { reason, delay_seconds, hold } => {
                let (reason, delay_seconds) = (Some(reason), Some(delay_seconds));
                let nack = NackBody { delay_seconds, reason, attempt, ..NackBody::default() };
                let body = HoldingNack { nack, hold: hold.map(super::outcome::Hold::word) };
                self.post(&id, "nack", json(&body)?).await
            }
            Word::Abandon { refund } => {
                let body = AbandonBody { attempt, refund: Some(refund), ..AbandonBody::default() };
                self.post(&id, "abandon", json(&body)?).await
            }
            Word::Complete { result, artifacts } => {
                let (status, result) = (Some("COMPLETED".to_owned()), Some(&*result));
                self.submit(id, SubmitBody { status, result, attempt, ..SubmitBody::default() }, artifacts)
                    .await
            }
            Word::Fail { text, artifacts } => {
                let (status, error) = (Some("FAILED".to_owned()), Some(text));
                self.submit(id, SubmitBody { status, error, attempt, ..SubmitBody::default() }, artifacts)
                    .await
            }
        }
    }

    async fn post(&self, id: &str, verb: &str, body: String) -> Result<ReportAnswer, Error> {
        let path = format!("/tasks/{}/{verb}", segment(id)?);
        match self.http.post(&path, body, Duration::ZERO).await {
            Ok(answer) => Ok(ReportAnswer::Accepted(cancel(&answer.text))),
            Err(error) => told(error),
        }
    }

    async fn submit(
        &self,
        id: String,
        body: SubmitBody<'_>,
        artifacts: Vec<Artifact>,
    ) -> Result<ReportAnswer, Error> {
        let artifacts: Vec<ArtifactIn<'_>> = artifacts.into_iter().map(artifact).collect();
        let artifacts = (!artifacts.is_empty()).then_some(artifacts);
        self.results.send(json(&SubmitBody { task_id: Some(id), artifacts, ..body })?).await
    }
}

/// A nack with what it keeps back.
#[derive(Serialize)]
struct HoldingNack {
    #[serde(flatten)]
    nack: NackBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<&'static str>,
}

/// Whether the answer to a report asks for the end of the task. One that is not understood was a yes all the same.
fn cancel(text: &str) -> Option<CancelNotice> {
    let cancel = serde_json::from_str::<BeatBody>(text).ok()?.cancel?;
    Some(CancelNotice { reason: cancel.reason.unwrap_or_default(), deadline: instant(&cancel.deadline) })
}

fn artifact(one: Artifact) -> ArtifactIn<'static> {
    let (url, content) = match one.kept {
        Kept::Link(url) => (Some(url), None),
        Kept::Content(content) => (None, Some(BASE64_STANDARD.encode(content).into())),
    };
    let content_type = (!one.content_type.is_empty()).then_some(one.content_type);
    ArtifactIn { name: Some(one.name), url, content_base64: content, content_type }
}

/// At most half of a lease, so that one counted from before the claim has the other half left.
fn longest_wait(lease: Duration) -> Duration {
    let half = Duration::from_secs(lease.as_secs() / 2);
    half.clamp(Duration::from_secs(1), limits::CLAIM_WAIT)
}

/// When a lease begins that a waiting claim brought: when it was asked for, because the answer may be long on its way.
/// Waits are whole seconds, so one of less than two cannot be counted from before all of it.
fn begun(asked: Instant, answered: Instant, wait: Duration, lease: Duration) -> Instant {
    let half = lease / 2;
    match wait <= half {
        true => asked,
        false => answered.checked_sub(half).map_or(asked, |latest| asked.max(latest)),
    }
}

fn assigned(task: Task, received: Instant) -> Assigned {
    Assigned {
        id: task.id.into_owned(),
        command: task.command.into_owned(),
        payload: task.payload.into_owned(),
        attempt: task.attempts,
        max_attempts: task.max_attempts,
        priority: task.priority,
        headers: task.headers.into_owned().into_iter().collect(),
        lane: task.lane.into_owned(),
        tags: task.tags.into_iter().map(std::borrow::Cow::into_owned).collect(),
        trace_parent: task.trace_parent.into_owned(),
        trace_state: task.trace_state.into_owned(),
        checkpoint: task.checkpoint.map(|checkpoint| checkpoint.0),
        received,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_waits_for_at_most_half_a_lease() {
        for (lease, wait) in [(1, 1), (2, 1), (5, 2), (10, 5), (60, 20), (43_200, 20)] {
            assert_eq!(longest_wait(Duration::from_secs(lease)), Duration::from_secs(wait), "{lease}");
        }
    }

    #[test]
    fn a_lease_begins_when_it_is_asked_for() {
        let (asked, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(begun(asked, asked + second, second, 2 * second), asked);
        assert_eq!(begun(asked, asked + second, second, second), asked + second / 2);
    }
}
