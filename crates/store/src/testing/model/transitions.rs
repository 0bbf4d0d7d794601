//! What producers and workers do to tasks.

use super::backoff;
use super::state::{Entry, Model};
use codeq_queue::attempt::AttemptEnd;
use codeq_queue::store::{Abandon, Beat, Claim, Created, Heartbeat, Nack, Report, Returned, Submit, TaskRef};
use codeq_queue::{
    Attempt, AttemptOutcome, Commands, Delay, FailureReason, Lease, NewTask, Outcome, QueueKey, Refusal,
    ResultRecord, State, Status, Task, TaskId, Time,
};
use std::sync::Arc;

/// Picks the seconds to wait between the shortest and the longest allowed.
pub type Choose<'a> = &'a mut dyn FnMut(TaskId, u64, u64) -> u64;

impl Model {
    pub fn create(&mut self, new: &NewTask, id: TaskId) -> Created {
        let same = |entry: &&Entry| {
            let body = &entry.task.body;
            body.tenant == new.body.tenant
                && body.command.eq_ignore_ascii_case(&new.body.command)
                && body.idempotency_key.is_some()
                && body.idempotency_key == new.body.idempotency_key
        };
        if let Some(entry) = self.entries.iter().find(same) {
            return Created { task: entry.task.clone(), is_replay: true, is_duplicate: false };
        }
        let at = match new.delay {
            Delay::None => self.now,
            Delay::For(duration) => self.now.plus(duration),
            Delay::Until(at) => at,
        };
        let state = if at > self.now { State::Delayed { until: at } } else { self.next_ready() };
        let task = Task {
            id,
            body: new.body.clone(),
            priority: new.priority,
            state,
            attempts: 0,
            refunds: 0,
            max_attempts: new.max_attempts,
            error: None,
            checkpoint: None,
            progress: None,
            created_at: self.now,
            updated_at: self.now,
        };
        let accepted = self.accept();
        let entry = Entry { task: task.clone(), record: None, history: Vec::new(), ends: None, accepted };
        self.spellings.insert(entry.key(), (&*new.body.command).into());
        self.entries.push(entry);
        Created { task, is_replay: false, is_duplicate: false }
    }

    pub(super) fn accept(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn next_ready(&mut self) -> State {
        self.counter += 1;
        State::Ready { seq: self.counter }
    }

    /// Every task that the next step of this claim may take; more than one only where queues tie or have lanes.
    pub fn candidates(&self, claim: &Claim) -> Vec<TaskId> {
        let open = |key: QueueKey| if self.paused.contains(&key) { Vec::new() } else { self.heads(&key) };
        let ids = |heads: Vec<&Entry>| heads.into_iter().map(|entry| entry.task.id).collect::<Vec<TaskId>>();
        match &claim.commands {
            Commands::These(commands) => {
                let heads = commands.iter().map(|command| open(QueueKey::new(&claim.tenant, command)));
                heads.map(ids).find(|heads| !heads.is_empty()).unwrap_or_default()
            }
            Commands::Any => {
                let queues = self.keys(Some(&claim.tenant)).into_iter().map(open);
                let queues: Vec<Vec<&Entry>> = queues.filter(|heads| !heads.is_empty()).collect();
                let rank = |heads: &Vec<&Entry>| {
                    let one =
                        |entry: &&Entry| (std::cmp::Reverse(entry.task.priority), entry.task.created_at);
                    heads.iter().map(one).min()
                };
                let best = queues.iter().map(rank).min();
                queues.into_iter().filter(|heads| Some(rank(heads)) == best).flat_map(ids).collect()
            }
        }
    }

    pub fn lend(&mut self, id: TaskId, claim: &Claim) -> Task {
        let now = self.now;
        let entry = self.entry(id);
        let lease = Lease::new(claim.owner.clone(), now.plus(claim.lease), now);
        entry.task.state = State::Running(lease.into());
        entry.task.attempts += 1;
        entry.task.updated_at = entry.task.updated_at.max(now);
        let attempt = entry.task.attempts;
        let worker_id = claim.owner.worker_id.clone();
        entry.history.push(Attempt { attempt, worker_id, claimed_at: now, end: None });
        if entry.history.len() > 20 {
            entry.history.remove(0);
        }
        let (key, task) = (entry.key(), entry.task.clone());
        self.fill(&key, task.body.lane());
        self.last_claims.insert(key, now);
        task
    }

    fn guard(&self, report: &Report) -> Result<(TaskId, Time), Refusal> {
        let named = TaskRef { tenant: report.tenant.clone(), id: report.id };
        let entry = self.find(&named).ok_or(Refusal::NotFound)?;
        if matches!(entry.task.state, State::Cancelled) {
            return Err(Refusal::Cancelled);
        }
        if report.attempt.is_some() && report.attempt != Some(entry.task.attempts) {
            return Err(Refusal::LeaseLost);
        }
        match &entry.task.state {
            State::Running(lease) if lease.owner == report.owner => Ok((entry.task.id, lease.until)),
            State::Running(_) => Err(Refusal::NotOwner),
            _ => Err(Refusal::NotInProgress),
        }
    }

    pub fn heartbeat(&mut self, beat: &Heartbeat) -> Result<Beat, Refusal> {
        let (id, until) = self.guard(&beat.report)?;
        if until <= self.now {
            return Err(Refusal::LeaseLost);
        }
        let now = self.now;
        let task = &mut self.entry(id).task;
        if let State::Running(lease) = &mut task.state {
            *lease = Lease { until: now.plus(beat.extend), ..(**lease).clone() }.into();
        }
        task.updated_at = task.updated_at.max(now);
        Ok(Beat { lease_until: now.plus(beat.extend), cancel: None })
    }

    pub fn nack(&mut self, nack: &Nack, choose: Choose) -> Result<Returned, Refusal> {
        let (id, _) = self.guard(&nack.report)?;
        let reason = given(nack.reason.as_deref());
        let explicit = u64::try_from(nack.delay_seconds).ok().filter(|seconds| *seconds > 0);
        let outcome = if nack.refund { AttemptOutcome::Refunded } else { AttemptOutcome::Nack };
        self.end_attempt(id, outcome, reason.as_deref());
        if let Some(reason) = &reason {
            self.entry(id).task.error = Some(reason.clone());
        }
        if nack.refund {
            self.entry(id).task.refunds += 1;
        } else if self.is_spent(id) {
            return Ok(self.bury(id, reason.unwrap_or("MAX_ATTEMPTS".into())));
        }
        Ok(self.put_back(id, explicit, choose))
    }

    pub fn abandon(&mut self, abandon: &Abandon) -> Result<Returned, Refusal> {
        let (id, _) = self.guard(&abandon.report)?;
        if abandon.refund {
            self.end_attempt(id, AttemptOutcome::Refunded, None);
            self.entry(id).task.refunds += 1;
        } else {
            self.end_attempt(id, AttemptOutcome::Abandoned, None);
            if self.is_spent(id) {
                return Ok(self.bury(id, "MAX_ATTEMPTS".into()));
            }
        }
        self.make_ready(id);
        Ok(Returned::Requeued { delay_seconds: 0 })
    }

    pub(super) fn expire(&mut self, id: TaskId, choose: Choose) {
        self.end_attempt(id, AttemptOutcome::LeaseExpired, None);
        self.entry(id).task.error = Some("LEASE_EXPIRED".into());
        if self.is_spent(id) {
            self.bury(id, "LEASE_EXPIRED".into());
        } else {
            self.put_back(id, None, choose);
        }
    }

    pub fn submit(&mut self, submit: &Submit) -> Result<ResultRecord, Refusal> {
        let (id, _) = self.guard(&submit.report)?;
        let (status, error) = check(&submit.outcome)?;
        let record = ResultRecord {
            status,
            result: submit.outcome.result.clone(),
            error: error.clone(),
            failure_reason: None,
            artifacts: submit.outcome.artifacts.clone(),
            completed_at: self.now,
        };
        let (state, outcome) = match status {
            Status::Completed => (State::Completed, AttemptOutcome::Completed),
            Status::Failed => (State::Failed, AttemptOutcome::Failed),
        };
        self.end_attempt(id, outcome, error.as_deref());
        if error.is_some() {
            self.entry(id).task.error = error;
        }
        Ok(self.finish(id, state, record))
    }

    fn is_spent(&mut self, id: TaskId) -> bool {
        let task = &self.entry(id).task;
        task.attempts - task.refunds >= task.max_attempts
    }

    pub(super) fn end_attempt(&mut self, id: TaskId, outcome: AttemptOutcome, error: Option<&str>) {
        let now = self.now;
        if let Some(attempt) = self.entry(id).history.last_mut().filter(|attempt| attempt.end.is_none()) {
            attempt.end = Some(AttemptEnd::new(now.max(attempt.claimed_at), outcome, error));
        }
    }

    pub(super) fn make_ready(&mut self, id: TaskId) {
        let (ready, now) = (self.next_ready(), self.now);
        let task = &mut self.entry(id).task;
        task.state = ready;
        task.updated_at = task.updated_at.max(now);
    }

    fn put_back(&mut self, id: TaskId, explicit: Option<u64>, choose: Choose) -> Returned {
        let task = &self.entry(id).task;
        let used = task.attempts - task.refunds;
        let delay_seconds = match explicit {
            Some(seconds) => seconds.min(self.rules.backoff.max_seconds),
            None => {
                let (low, high) = backoff::range(&self.rules.backoff, used);
                if low == high { low } else { choose(id, low, high) }
            }
        };
        self.make_ready(id);
        if delay_seconds > 0 {
            let until = self.now.plus_seconds(delay_seconds);
            self.entry(id).task.state = State::Delayed { until };
        }
        Returned::Requeued { delay_seconds }
    }

    fn bury(&mut self, id: TaskId, error: Arc<str>) -> Returned {
        self.entry(id).task.error = Some(error.clone());
        self.finish(id, State::Dead, refused(error, FailureReason::MaxAttempts, self.now));
        Returned::Dead
    }

    pub(super) fn finish(&mut self, id: TaskId, state: State, mut record: ResultRecord) -> ResultRecord {
        let keep = match state {
            State::Dead => self.rules.dead_retention,
            _ => Some(self.rules.retention),
        };
        let now = self.now;
        let entry = self.entry(id);
        entry.task.state = state;
        entry.task.updated_at = entry.task.updated_at.max(now);
        record.completed_at = entry.task.updated_at;
        entry.ends = keep.map(|keep| record.completed_at.plus(keep));
        entry.record = Some(record.clone());
        self.call_back(id);
        record
    }
}

/// The record of a task that no worker ended.
pub(super) fn refused(error: Arc<str>, reason: FailureReason, now: Time) -> ResultRecord {
    ResultRecord {
        status: Status::Failed,
        result: None,
        error: Some(error),
        failure_reason: Some(reason),
        artifacts: Vec::new(),
        completed_at: now,
    }
}

fn given(text: Option<&str>) -> Option<Arc<str>> {
    let text = text.filter(|text| !text.trim().is_empty())?;
    let end = (0..=text.len().min(8192)).rev().find(|end| text.is_char_boundary(*end));
    Some(text[..end.unwrap_or(0)].into())
}

fn check(outcome: &Outcome) -> Result<(Status, Option<Arc<str>>), Refusal> {
    let (status, error) = match &*outcome.status {
        "COMPLETED" if outcome.result.is_none() => return Err(Refusal::ResultRequired),
        "COMPLETED" => (Status::Completed, None),
        "FAILED" => (Status::Failed, Some(given(outcome.error.as_deref()).ok_or(Refusal::ErrorRequired)?)),
        _ => return Err(Refusal::InvalidStatus),
    };
    // What artifacts may be called is not a transition; the rules of names are used as they are.
    for artifact in &outcome.artifacts {
        codeq_queue::result::check_artifact_name(&artifact.name)?;
    }
    Ok((status, error))
}
