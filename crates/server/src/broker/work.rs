//! What workers do: claim, keep, give back and finish tasks.

use super::artifacts::keys;
use super::held::Held;
use super::produce::reference;
use super::{Broker, Error, Items, merge, part};
use crate::auth::{Caller, EventTypes};
use crate::telemetry::traces::task::Verb;
use bytes::Bytes;
use codeq_queue::lease::lease_length;
use codeq_queue::queue::check_command;
use codeq_queue::store::{Abandon, Claim, Heartbeat, Nack, Report, Returned, Submit, Wait};
use codeq_queue::{Commands, Failure, Owner, Refusal, ResultRecord, Task, limits};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct ClaimRequest {
    /// `None`: whatever the token allows.
    pub commands: Option<Vec<String>>,
    pub lease_seconds: i64,
    /// `Duration::MAX` is without end.
    pub wait: Duration,
    pub count: usize,
}

/// Names the attempt that a report is about.
#[derive(Clone, Debug)]
pub struct ReportRequest {
    pub id: String,
    pub owner: Arc<Owner>,
    /// As sent; a number that no attempt can have is simply not the current one.
    pub attempt: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct SubmitRequest {
    pub report: ReportRequest,
    pub status: String,
    pub result: Option<Arc<str>>,
    pub error: Option<String>,
    pub artifacts: Vec<ArtifactGiven>,
}

#[derive(Clone, Debug, Default)]
pub struct ArtifactGiven {
    pub name: String,
    pub url: Option<String>,
    /// Base64, as sent.
    pub content: Option<Bytes>,
    pub content_type: Option<String>,
}

/// Tasks on their way to a worker. Dropped before [`Lent::hand_over`], they go back to their queues with a
/// refund: nobody is lent a task that was never written to them.
pub struct Lent {
    broker: Arc<Broker>,
    tenant: Arc<str>,
    owner: Arc<Owner>,
    tasks: Vec<Task>,
}

impl Lent {
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Keeps the first `count` and gives the others away.
    pub fn split_off(&mut self, count: usize) -> Lent {
        let tasks = self.tasks.split_off(count.min(self.tasks.len()));
        let (broker, tenant) = (self.broker.clone(), self.tenant.clone());
        Lent { broker, tenant, owner: self.owner.clone(), tasks }
    }

    /// They have reached the worker as far as we can know.
    pub fn hand_over(&mut self) {
        self.tasks.clear();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        let back = self.tasks.iter().map(|task| Abandon {
            report: Report {
                tenant: self.tenant.clone(),
                id: task.id,
                owner: self.owner.clone(),
                attempt: Some(task.attempts),
            },
            refund: true,
        });
        let released = self.broker.store.abandon(back.collect());
        // Without a runtime the process is ending, and the leases expire.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(released);
        }
    }
}

impl Broker {
    /// Lends up to `count` tasks, waiting for the first if asked to.
    pub async fn claim(
        self: &Arc<Self>,
        caller: &Caller,
        owner: Arc<Owner>,
        request: ClaimRequest,
    ) -> Result<Lent, Error> {
        let wait = self.until(request.wait);
        let asked_at = self.traces.now();
        let lease = lease_length(request.lease_seconds, self.settings.default_lease);
        let claim = Claim {
            tenant: caller.tenant.clone(),
            commands: allowed(&caller.event_types, request.commands.as_deref())?,
            owner: owner.clone(),
            lease,
            count: request.count,
            wait,
        };
        let claiming = match wait {
            Wait::No => self.store.claim(claim),
            _ => Held::count(self.store.claim(claim), self.held.clone()),
        };
        let claimed = self.unless_draining(wait, claiming).await?;
        let tasks = claimed.unwrap_or_default();
        self.traces.claimed(asked_at, &owner, lease, &tasks);
        Ok(Lent { broker: self.clone(), tenant: caller.tenant.clone(), owner, tasks })
    }

    pub async fn heartbeat(&self, tenant: &Arc<str>, beats: Vec<(ReportRequest, i64)>) -> Items<()> {
        let check = |(report, extend_seconds): (ReportRequest, i64)| {
            let extend = lease_length(extend_seconds, self.settings.default_lease);
            Ok(Heartbeat { report: report.check(tenant)?, extend })
        };
        let noted = self.note(&beats, |(report, extend_seconds)| {
            let extend = lease_length(*extend_seconds, self.settings.default_lease);
            (report, Verb::Heartbeat { extend })
        });
        let beaten = each(beats, check, |sound| self.store.heartbeat(sound)).await;
        self.tell(noted, tenant, &beaten).await;
        beaten
    }

    pub async fn nack(
        &self,
        tenant: &Arc<str>,
        nacks: Vec<(ReportRequest, i64, Option<String>)>,
    ) -> Items<Returned> {
        let check = |(report, delay_seconds, reason): (ReportRequest, i64, Option<String>)| {
            Ok(Nack { report: report.check(tenant)?, delay_seconds, reason })
        };
        let noted = self.note(&nacks, |(report, delay_seconds, reason)| {
            (report, Verb::Nack { delay_seconds: *delay_seconds, reason: reason.clone() })
        });
        let nacked = each(nacks, check, |sound| self.store.nack(sound)).await;
        self.tell(noted, tenant, &nacked).await;
        nacked
    }

    pub async fn abandon(&self, tenant: &Arc<str>, abandons: Vec<(ReportRequest, bool)>) -> Items<Returned> {
        let check =
            |(report, refund): (ReportRequest, bool)| Ok(Abandon { report: report.check(tenant)?, refund });
        let noted = self.note(&abandons, |(report, _)| (report, Verb::Abandon));
        let abandoned = each(abandons, check, |sound| self.store.abandon(sound)).await;
        self.tell(noted, tenant, &abandoned).await;
        abandoned
    }

    /// Ends attempts; each item is stored with its result and callback, or not at all. Files are stored
    /// before and are unreachable if the item is refused.
    pub async fn submit(
        &self,
        tenant: &Arc<str>,
        submits: Vec<Result<SubmitRequest, Refusal>>,
    ) -> Items<ResultRecord> {
        let noted = self.note_submits(&submits);
        let (mut sound, mut places, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for submit in submits {
            let prepared = self.prepare(tenant, submit).await;
            files.push(prepared.as_ref().map(|submit| keys(&submit.outcome)).unwrap_or_default());
            places.push(prepared.map(|submit| sound.push(submit)));
        }
        let submitted = match sound.is_empty() {
            true => merge(places, Ok(Vec::new())),
            false => merge(places, self.store.submit(sound).await),
        };
        // After a failure the result may be there all the same, and so must its files.
        for (item, keys) in submitted.iter().zip(files) {
            if matches!(item, Err(Error::Refused(_))) {
                self.discard(&keys).await;
            }
        }
        self.tell(noted, tenant, &submitted).await;
        submitted
    }

    async fn prepare(
        &self,
        tenant: &Arc<str>,
        submit: Result<SubmitRequest, Refusal>,
    ) -> Result<Submit, Error> {
        let submit = submit?;
        let report = submit.report.check(tenant)?;
        let outcome = self.store_artifacts(&report, submit).await?;
        Ok(Submit { report, outcome })
    }
}

impl ReportRequest {
    fn check(&self, tenant: &Arc<str>) -> Result<Report, Refusal> {
        let task = reference(tenant, &self.id)?;
        let attempt = self.attempt.map(|given| u32::try_from(given).unwrap_or(u32::MAX));
        Ok(Report { tenant: task.tenant, id: task.id, owner: self.owner.clone(), attempt })
    }
}

async fn each<R, T, U, A>(
    requests: Vec<R>,
    check: impl Fn(R) -> Result<T, Refusal>,
    send: impl FnOnce(Vec<T>) -> A,
) -> Items<U>
where
    A: Future<Output = Result<Vec<Result<U, Refusal>>, Failure>>,
{
    let (sound, places) = part(requests.into_iter().map(check));
    match sound.is_empty() {
        true => merge(places, Ok(Vec::new())),
        false => merge(places, send(sound).await),
    }
}

/// Which queues a claim looks at: what was asked for, if the token allows all of it.
fn allowed(token: &EventTypes, asked: Option<&[String]>) -> Result<Commands, Refusal> {
    let asked = asked.unwrap_or_default();
    if asked.len() > limits::CLAIM_COMMANDS {
        return Err(Refusal::InvalidBody);
    }
    let mut commands: Vec<&str> = Vec::with_capacity(asked.len());
    let mut is_any = asked.is_empty();
    for command in asked {
        if command.trim() == "*" {
            is_any = true;
            continue;
        }
        commands.push(check_command(command)?);
    }
    if asked.iter().any(|command| command.trim() == "*") && *token != EventTypes::All {
        return Err(Refusal::EventTypeNotAllowed);
    }
    if commands.iter().any(|command| !token.is_allowed(command)) {
        return Err(Refusal::EventTypeNotAllowed);
    }
    match token {
        _ if !is_any => Ok(Commands::these(commands)),
        EventTypes::All => Ok(Commands::Any),
        EventTypes::These(own) => Ok(Commands::these(own.iter().map(|command| &**command))),
    }
}
