//! Claims and reports over HTTP.

use super::claim::Claims;
use super::link::{Assigned, Report, Told, Word, told};
use crate::http::{Http, json, parse, segment};
use crate::task::Task;
use crate::{Error, limits};
use codeq_api::work::{
    AbandonBody, ClaimBatchBody, ClaimBody, ClaimedTasks, HeartbeatBody, NackBody, SubmitBody,
};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(super) struct HttpLink {
    http: Http,
}

impl HttpLink {
    pub fn new(http: Http) -> HttpLink {
        HttpLink { http }
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
        let answer = self.http.post("/tasks/claim/batch", body, Duration::ZERO).await?;
        if answer.status == 204 {
            return Ok(Vec::new());
        }
        let claimed: ClaimedTasks<'static> = parse(&answer.text)?;
        Ok(claimed.tasks.into_iter().map(assigned).collect())
    }

    async fn claim_one(&self, claims: &Claims) -> Result<Vec<Assigned>, Error> {
        let info = claims.identity.json();
        let body = json(&ClaimBody {
            commands: Some(claims.commands.clone()),
            lease_seconds: Some(claims.lease_seconds),
            wait_seconds: i64::try_from(limits::CLAIM_WAIT.as_secs()).ok(),
            order: claims.turns.order.clone(),
            weights: claims.turns.weights_in_json(),
            worker: info.as_deref(),
        })?;
        let answer = self.http.post("/tasks/claim", body, limits::CLAIM_WAIT).await?;
        if answer.status == 204 {
            return Ok(Vec::new());
        }
        let task: Task = parse(&answer.text)?;
        Ok(vec![assigned(task)])
    }

    pub async fn report(&self, report: &Report) -> Result<Told, Error> {
        let attempt = Some(i64::from(report.attempt));
        let (verb, body) = match &report.word {
            Word::Heartbeat { extend_seconds } => (
                "heartbeat",
                json(&HeartbeatBody {
                    extend_seconds: Some(*extend_seconds),
                    attempt,
                    ..Default::default()
                })?,
            ),
            Word::Nack { reason, delay_seconds } => {
                let (reason, delay_seconds) = (Some(reason.clone()), Some(*delay_seconds));
                ("nack", json(&NackBody { delay_seconds, reason, attempt, ..Default::default() })?)
            }
            Word::Abandon { refund } => {
                ("abandon", json(&AbandonBody { attempt, refund: Some(*refund), ..Default::default() })?)
            }
            Word::Complete(result) => {
                let status = Some("COMPLETED".to_owned());
                (
                    "result",
                    json(&SubmitBody { status, result: Some(result), attempt, ..SubmitBody::default() })?,
                )
            }
            Word::Fail(text) => {
                let (status, error) = (Some("FAILED".to_owned()), Some(text.clone()));
                ("result", json(&SubmitBody { status, error, attempt, ..SubmitBody::default() })?)
            }
        };
        let path = format!("/tasks/{}/{verb}", segment(&report.id)?);
        match self.http.post(&path, body, Duration::ZERO).await {
            Ok(_) => Ok(Told::Accepted),
            Err(error) => told(error),
        }
    }
}

fn assigned(task: Task) -> Assigned {
    Assigned {
        id: task.id.into_owned(),
        command: task.command.into_owned(),
        payload: task.payload.into_owned(),
        attempt: task.attempts,
        max_attempts: task.max_attempts,
        priority: task.priority,
        headers: task.headers.into_owned().into_iter().collect(),
        received: Instant::now(),
    }
}
