//! What workers do: claim, keep, give back and finish tasks.

use super::artifacts::keys;
use super::fair::Drawn;
use super::held::Held;
use super::produce::reference;
use super::sighted::Sighted;
use super::{Broker, Error, Items, merge, part};
use crate::auth::{Caller, EventTypes};
use crate::telemetry::traces::task::Verb;
use crate::workers::Protocol;
use bytes::Bytes;
use codeq_api::work::WorkerInfo;
use codeq_queue::lease::lease_length;
use codeq_queue::queue::check_command;
use codeq_queue::retry::check_refund;
use codeq_queue::store::{Abandon, Beat, Claim, Heartbeat, Nack, Report, Returned, Submit, Wait};
use codeq_queue::task::{check_checkpoint, check_progress};
use codeq_queue::{Commands, Failure, Order, Owner, Refusal, ResultRecord, Task, limits};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub protocol: Protocol,
    /// `None`: whatever the token allows.
    pub commands: Option<Vec<String>>,
    pub lease_seconds: i64,
    /// `Duration::MAX` is without end.
    pub wait: Duration,
    pub count: usize,
    pub order: Order,
    /// What the worker tells of itself.
    pub info: Option<Arc<WorkerInfo>>,
}

/// Names the attempt that a report is about.
#[derive(Clone, Debug)]
pub struct ReportRequest {
    pub id: String,
    pub owner: Arc<Owner>,
    /// As sent; a number that no attempt can have is simply not the current one.
    pub attempt: Option<i64>,
    pub protocol: Protocol,
}

#[derive(Clone, Debug)]
pub struct BeatRequest {
    pub report: ReportRequest,
    pub extend_seconds: i64,
    /// JSON text.
    pub progress: Option<String>,
    /// JSON text.
    pub checkpoint: Option<String>,
}

#[derive(Clone, Debug)]
pub struct NackRequest {
    pub report: ReportRequest,
    pub delay_seconds: i64,
    pub reason: Option<String>,
    pub refund: bool,
    /// `lane` or `queue`: nothing of it starts before the delay is over.
    pub hold: Option<String>,
    /// JSON text.
    pub checkpoint: Option<String>,
}

#[derive(Clone, Debug)]
pub struct AbandonRequest {
    pub report: ReportRequest,
    pub refund: bool,
    /// JSON text.
    pub checkpoint: Option<String>,
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
    protocol: Protocol,
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
        Lent { broker, tenant, owner: self.owner.clone(), protocol: self.protocol, tasks }
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
        self.broker.unlend((&self.tenant, &self.owner, self.protocol), &self.tasks);
        let back = self.tasks.iter().map(|task| {
            let (tenant, owner) = (self.tenant.clone(), self.owner.clone());
            Abandon::new(Report { tenant, id: task.id, owner, attempt: Some(task.attempts) }, true)
        });
        let released = self.broker.store.abandon(back.collect());
        // Without a runtime the process is ending, and the leases expire.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(released);
        }
    }
}

impl Broker {
    /// Whether the caller may claim tasks of these commands; none are all that its token allows.
    pub fn check_commands(caller: &Caller, commands: &[String]) -> Result<(), Refusal> {
        allowed(&caller.event_types, Some(commands)).map(drop)
    }

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
        let commands = allowed(&caller.event_types, request.commands.as_deref())?;
        let queues = match &commands {
            Commands::Any => 1,
            Commands::These(commands) => commands.len(),
        };
        let _places = (self.place(&caller.tenant, wait)?, self.queue_places(&caller.tenant, wait, queues)?);
        let (tenant, count) = (caller.tenant.clone(), request.count);
        let is_default_lease = request.lease_seconds <= 0;
        let claim = Claim { tenant, commands, owner: owner.clone(), lease, is_default_lease, count, wait };
        self.sight(&caller.tenant, &owner, &request);
        let tasks = self.take(claim, &request.order).await?;
        self.lend((&caller.tenant, &owner, request.protocol), &tasks, lease);
        self.traces.claimed(asked_at, &owner, lease, &tasks);
        let (tenant, protocol) = (caller.tenant.clone(), request.protocol);
        Ok(Lent { broker: self.clone(), tenant, owner, protocol, tasks })
    }

    /// What there is now, else what comes while it waits.
    async fn take(&self, claim: Claim, order: &Order) -> Result<Vec<Task>, Failure> {
        let wait = claim.wait;
        let claim = match order {
            Order::Listed => claim,
            Order::Fair(weights) => match self.take_drawn(claim, weights).await? {
                Drawn::Taken(tasks) => return Ok(tasks),
                Drawn::Open(claim) => claim,
            },
        };
        // A task can fall due at the very end of the wait: then one more look finds it.
        let last = matches!(wait, Wait::Until(_)).then(|| Claim { wait: Wait::No, ..claim.clone() });
        let claiming = match wait {
            Wait::No => self.store.claim(claim),
            _ => Held::count(self.store.claim(claim), self.held.clone()),
        };
        let claimed = self.unless_draining(wait, claiming).await?;
        let tasks = match (claimed, last) {
            (Some(tasks), Some(last)) if tasks.is_empty() => self.store.claim(last).await?,
            (claimed, _) => claimed.unwrap_or_default(),
        };
        Ok(tasks)
    }

    pub async fn heartbeat(&self, tenant: &Arc<str>, beats: Vec<BeatRequest>) -> Items<Beat> {
        let check = |beat: BeatRequest| {
            let extend = lease_length(beat.extend_seconds, self.settings.default_lease);
            Ok(Heartbeat {
                report: beat.report.check(tenant)?,
                extend,
                progress: beat.progress.as_deref().map(check_progress).transpose()?,
                checkpoint: beat.checkpoint.as_deref().map(check_checkpoint).transpose()?,
            })
        };
        let noted = self.note(&beats, |beat| {
            let extend = lease_length(beat.extend_seconds, self.settings.default_lease);
            (&beat.report, Verb::Heartbeat { extend })
        });
        let sighted = Sighted::of(beats.iter().map(|beat| &beat.report));
        let longest = beats.iter().map(|beat| beat.extend_seconds).max().unwrap_or(0);
        let beaten = each(beats, check, |sound| self.store.heartbeat(sound)).await;
        self.kept(sighted, tenant, &beaten, lease_length(longest, self.settings.default_lease));
        self.tell(noted, tenant, &beaten).await;
        beaten
    }

    pub async fn nack(&self, tenant: &Arc<str>, nacks: Vec<NackRequest>) -> Items<Returned> {
        let check = |nack: NackRequest| {
            let checkpoint = nack.checkpoint.as_deref().map(check_checkpoint).transpose()?;
            let refund = check_refund(nack.refund, nack.delay_seconds)?;
            let hold = self.check_hold(nack.hold.as_deref(), nack.delay_seconds)?;
            let report = nack.report.check(tenant)?;
            Ok(Nack { refund, hold, checkpoint, ..Nack::new(report, nack.delay_seconds, nack.reason) })
        };
        let noted = self.note(&nacks, |nack| {
            let verb = Verb::Nack { delay_seconds: nack.delay_seconds, reason: nack.reason.clone() };
            (&nack.report, verb)
        });
        let sighted = Sighted::of(nacks.iter().map(|nack| &nack.report));
        let nacked = each(nacks, check, |sound| self.store.nack(sound)).await;
        self.ended(sighted, tenant, &nacked);
        self.tell(noted, tenant, &nacked).await;
        nacked
    }

    pub async fn abandon(&self, tenant: &Arc<str>, abandons: Vec<AbandonRequest>) -> Items<Returned> {
        let check = |abandon: AbandonRequest| {
            let checkpoint = abandon.checkpoint.as_deref().map(check_checkpoint).transpose()?;
            Ok(Abandon { checkpoint, ..Abandon::new(abandon.report.check(tenant)?, abandon.refund) })
        };
        let noted = self.note(&abandons, |abandon| (&abandon.report, Verb::Abandon));
        let sighted = Sighted::of(abandons.iter().map(|abandon| &abandon.report));
        let abandoned = each(abandons, check, |sound| self.store.abandon(sound)).await;
        self.ended(sighted, tenant, &abandoned);
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
        let sighted = Sighted::of_some(submits.iter().map(|submit| Some(&submit.as_ref().ok()?.report)));
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
        self.ended(sighted, tenant, &submitted);
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
