//! What workers say about the tasks they hold: heartbeat, nack, abandon, submit.

use crate::kvrocks::context::known::Known;
use crate::kvrocks::coordination::events::Told;
use crate::kvrocks::format::outcome::{delivery_text, result_text};
use crate::kvrocks::format::record;
use crate::kvrocks::redis::batch::Item;
use crate::kvrocks::redis::reply::{Answered, string};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::create::seconds;
use codeq_queue::event::What;
use codeq_queue::policy::Hold;
use codeq_queue::store::{Abandon, Beat, Heartbeat, Items, Nack, Report, Returned, Submit};
use codeq_queue::task::{MAX_ATTEMPTS, callback_body, reason_text};
use codeq_queue::{
    AttemptOutcome, CancelRequest, Event, Failure, FailureReason, Refusal, ResultRecord, State, Status,
    TaskId, Time, limits,
};
use std::sync::Arc;
use std::time::Duration;

/// The answer to one item, and what is to be told of it.
type Settled<T> = (Result<T, Refusal>, Vec<Event>);

impl StoreContext {
    pub async fn heartbeat(self: Arc<Self>, beats: Vec<Heartbeat>) -> Result<Items<Beat>, Failure> {
        let now = self.enter().await?;
        let ids: Vec<TaskId> = beats.iter().map(|beat| beat.report.id).collect();
        let known = self.known_each(&ids).await;
        let answers = beats.into_iter().zip(known).map(|(beat, known)| {
            let known = match known {
                Ok(known) => known,
                Err(failure) => return Item::Failed(failure),
            };
            let call = known.as_deref().map(|known| self.heartbeat_call(&beat, known, now));
            let has_checkpoint = beat.checkpoint.is_some();
            let told = known.clone().zip(beat.progress).filter(|_| self.teller.observer.is_some());
            let report = beat.report;
            let item = self.report(known, call, move |answer| {
                let (beat, attempt) = beaten(answer);
                let event =
                    told.map(|(known, progress)| progress_event(&known, report, attempt, progress, now));
                (Ok(beat), event.into_iter().collect())
            });
            // A beat that a failover takes is followed by the next; a checkpoint is not.
            if has_checkpoint { item } else { item.without_waiting() }
        });
        self.run_items(answers).await
    }

    fn heartbeat_call(&self, beat: &Heartbeat, known: &Known, now: Time) -> Call {
        let until = now.plus(beat.extend);
        self.guarded(Script::Heartbeat, &beat.report, known, now)
            .number(beat.extend.max(Duration::from_millis(1)).as_millis())
            .number(until.millis())
            .arg(record::lease_text(until))
            .arg(self.lease_clock())
            .arg(beat.progress.as_deref().unwrap_or_default())
            .arg(beat.checkpoint.as_deref().unwrap_or_default())
    }

    pub async fn nack(self: Arc<Self>, nacks: Vec<Nack>) -> Result<Items<Returned>, Failure> {
        let now = self.enter().await?;
        let ids: Vec<TaskId> = nacks.iter().map(|nack| nack.report.id).collect();
        let known = self.known_each(&ids).await;
        let callbacks = self.rules.callbacks;
        let answers = nacks.into_iter().zip(known).map(|(nack, known)| {
            let known = match known {
                Ok(known) => known,
                Err(failure) => return Item::Failed(failure),
            };
            let reason = reason_text(nack.reason.as_deref());
            let call = known.as_deref().map(|known| self.nack_call(&nack, known, reason.as_deref(), now));
            let is_refund = nack.ending().is_refund();
            let outcome = if is_refund { AttemptOutcome::Refunded } else { AttemptOutcome::Nack };
            self.report(known, call, move |answer| returned(answer, outcome, reason, now, callbacks))
        });
        self.run_items(answers).await
    }

    fn nack_call(&self, nack: &Nack, known: &Known, reason: Option<&str>, now: Time) -> Call {
        let explicit = u64::try_from(nack.delay_seconds).ok().filter(|seconds| *seconds > 0);
        let draw = f64::from(rand::random::<u32>()) / (f64::from(u32::MAX) + 1.0);
        let call = self
            .guarded(Script::Nack, &nack.report, known, now)
            .arg(explicit.map(|seconds| seconds.to_string()).unwrap_or_default())
            .arg(self.backoff_ranges.as_str())
            .number(draw)
            .arg(reason.unwrap_or_default())
            .arg(limits::cut(reason.unwrap_or_default(), limits::ATTEMPT_ERROR_BYTES));
        let dead = dead_record(reason.unwrap_or(MAX_ATTEMPTS), now);
        let call = self
            .with_end(call, nack.report.id, known, dead, true)
            .number(self.now.numbers(1))
            .arg(if nack.ending().is_refund() { "1" } else { "" })
            .arg(nack.checkpoint.as_deref().unwrap_or_default());
        let held = match nack.hold {
            None => "",
            Some(Hold::Lane) => "lane",
            Some(Hold::Queue) => "queue",
        };
        self.with_endings(call, now).number(self.rules.backoff.max_seconds).arg(held)
    }

    pub async fn abandon(self: Arc<Self>, abandons: Vec<Abandon>) -> Result<Items<Returned>, Failure> {
        self.return_all(abandons.into_iter().map(|abandon| (abandon, None)).collect(), true).await
    }

    /// Gives back what was lent at these instants to someone who has gone, or in a group that no replica has. If the
    /// server has lost that lease and lent the task anew, the new lease stays. Nobody is answered, so nothing waits for
    /// replicas.
    pub async fn give_back(self: Arc<Self>, lent: Vec<(Abandon, Time)>) -> Result<Items<Returned>, Failure> {
        self.return_all(lent.into_iter().map(|(abandon, at)| (abandon, Some(at))).collect(), false).await
    }

    async fn return_all(
        &self,
        abandons: Vec<(Abandon, Option<Time>)>,
        waits: bool,
    ) -> Result<Items<Returned>, Failure> {
        let now = self.enter().await?;
        let ids: Vec<TaskId> = abandons.iter().map(|(abandon, _)| abandon.report.id).collect();
        let known = self.known_each(&ids).await;
        let callbacks = self.rules.callbacks;
        let answers = abandons.into_iter().zip(known).map(|((abandon, lent_at), known)| {
            let known = match known {
                Ok(known) => known,
                Err(failure) => return Item::Failed(failure),
            };
            let call = known.as_deref().map(|known| {
                let call = self.guarded(Script::Abandon, &abandon.report, known, now);
                let call = call.arg(if abandon.refund { "1" } else { "" });
                let call = self
                    .with_end(call, abandon.report.id, known, dead_record(MAX_ATTEMPTS, now), true)
                    .number(self.now.numbers(1))
                    .arg(abandon.checkpoint.as_deref().unwrap_or_default());
                let lent_at = lent_at.map(|at| at.millis().to_string());
                self.with_endings(call, now).arg(lent_at.unwrap_or_default())
            });
            let outcome = if abandon.refund { AttemptOutcome::Refunded } else { AttemptOutcome::Abandoned };
            let item =
                self.report(known, call, move |answer| returned(answer, outcome, None, now, callbacks));
            if waits { item } else { item.without_waiting() }
        });
        self.run_items(answers).await
    }

    pub async fn submit(self: Arc<Self>, submits: Vec<Submit>) -> Result<Items<ResultRecord>, Failure> {
        let now = self.enter().await?;
        let ids: Vec<TaskId> = submits.iter().map(|submit| submit.report.id).collect();
        let known = self.known_each(&ids).await;
        let answers = submits.into_iter().zip(known).map(|(submit, known)| {
            let known = match known {
                Ok(known) => known,
                Err(failure) => return Item::Failed(failure),
            };
            let record = submit.outcome.record(now);
            let call = known.as_deref().map(|known| self.submit_call(&submit.report, known, &record, now));
            let callbacks = self.rules.callbacks;
            self.report(known, call, move |answer| submitted(answer, record, now, callbacks))
        });
        self.run_items(answers).await
    }

    /// A result that breaks a rule of content still has to pass the guards first.
    fn submit_call(
        &self,
        report: &Report,
        known: &Known,
        record: &Result<ResultRecord, Refusal>,
        now: Time,
    ) -> Call {
        let call = self.guarded(Script::Submit, report, known, now);
        let Ok(record) = record else { return call.arg("") };
        let error = record.error.as_deref().unwrap_or_default();
        let call =
            call.arg(record.status.word()).arg(error).arg(limits::cut(error, limits::ATTEMPT_ERROR_BYTES));
        self.with_end(call, report.id, known, record.clone(), false)
    }

    /// Appends a result, when its retention ends, and the callback that tells of it.
    pub fn with_end(
        &self,
        call: Call,
        id: TaskId,
        known: &Known,
        record: ResultRecord,
        is_dead: bool,
    ) -> Call {
        let now = record.completed_at;
        let keep = match record.status {
            _ if is_dead => self.rules.dead_retention,
            Status::Completed => Some(self.rules.retention),
            Status::Failed => Some(self.rules.failed_retention.unwrap_or(self.rules.retention)),
        };
        let ends = keep.map_or_else(|| "+inf".into(), |keep| seconds(now.plus(keep)));
        let call = call.arg(result_text(id, &record)).arg(ends);
        match known.webhook.as_deref().filter(|_| self.rules.callbacks) {
            None => call.arg("").arg(""),
            Some(url) => {
                let delivery: u128 = rand::random();
                let body = callback_body(id, &known.command, &record, &(self.rules.stamp)(now));
                let text = delivery_text(delivery, id, &known.queue.tenant, url, &body, now);
                call.arg(format!("{delivery:032x}")).arg(text)
            }
        }
    }

    fn guarded(&self, script: Script, report: &Report, known: &Known, now: Time) -> Call {
        let keys = &self.shards[known.shard].keys;
        Call::new(script, keys.with_queue(&known.queue))
            .arg(report.id.to_string())
            .arg(record::tenant_text(&report.tenant))
            .arg(&*report.owner.worker_id)
            .arg(&*report.owner.subject)
            .arg(report.attempt.map(|attempt| attempt.to_string()).unwrap_or_default())
            .number(now.millis())
            .arg(now.to_utc())
    }

    /// One item. A task that no one knows is refused without asking.
    pub fn report<T: Send + 'static>(
        &self,
        known: Option<Arc<Known>>,
        call: Option<Call>,
        settle: impl FnOnce(Answered) -> Settled<T> + Send + 'static,
    ) -> Item<Result<T, Refusal>> {
        let (Some(known), Some(call)) = (known, call) else { return Item::Answered(Err(Refusal::NotFound)) };
        let (teller, queue) = (self.teller.clone(), known.queue.clone());
        Item::ask(known.shard, call, move |reply| {
            let answer = Answered::of(reply)?;
            if answer.has_freed {
                teller.freed(&queue);
            }
            Ok(match answer.refusal() {
                Some(refusal) => (Err(refusal), Vec::new()),
                None => settle(answer),
            })
        })
    }
}

/// What a heartbeat is answered with: the end of the lease, by when and why the task is to stop; and the attempt.
fn beaten(mut answer: Answered) -> (Beat, u32) {
    let (lease_until, deadline) = (Time::from_millis(answer.int()), answer.int());
    let reason = Some(string(answer.next())).filter(|reason| !reason.is_empty());
    let cancel = (deadline != 0).then(|| {
        let reason = reason.map(Into::into);
        Arc::new(CancelRequest { deadline: Time::from_millis(deadline), reason })
    });
    (Beat { lease_until, cancel }, u32::try_from(answer.int()).unwrap_or(0))
}

/// A running task tells how far it is.
fn progress_event(known: &Known, report: Report, attempt: u32, progress: Arc<str>, now: Time) -> Event {
    let what = What::Progress { attempt, owner: Some(report.owner), progress };
    let (queue, command) = (known.queue.clone(), known.command.clone());
    Event { at: now, queue, command, task: Some(report.id), what, has_filled: false }
}

/// The record of a task that ran out of attempts.
fn dead_record(error: &str, now: Time) -> ResultRecord {
    ResultRecord {
        status: Status::Failed,
        result: None,
        error: Some(error.into()),
        failure_reason: Some(FailureReason::MaxAttempts),
        artifacts: Vec::new(),
        completed_at: now,
    }
}

fn returned(
    mut answer: Answered,
    outcome: AttemptOutcome,
    reason: Option<Arc<str>>,
    now: Time,
    callbacks: bool,
) -> Settled<Returned> {
    if answer.word == "STOPPED" {
        let (error, told) = (string(answer.next()), Told::parse(&answer.text()));
        let event = told.map(|told| told.cancelled(now, error.into(), callbacks));
        return (Ok(Returned::Cancelled), event.into_iter().collect());
    }
    let is_dead = answer.word == "DEAD";
    let delay_seconds = u64::try_from(answer.int()).unwrap_or(0);
    let was_empty = answer.int() == 0;
    let told = Told::parse(&answer.text());
    let (back, event) = match is_dead {
        true => {
            let error = reason.unwrap_or_else(|| MAX_ATTEMPTS.into());
            let told = told.map(|told| told.ended(now, State::Dead, Some(outcome), Some(error), callbacks));
            (Returned::Dead, told)
        }
        false => {
            let has_filled = delay_seconds == 0 && was_empty;
            let told = told.map(|told| told.returned(now, outcome, reason, has_filled));
            (Returned::Requeued { delay_seconds }, told)
        }
    };
    (Ok(back), event.into_iter().collect())
}

fn submitted(
    mut answer: Answered,
    record: Result<ResultRecord, Refusal>,
    now: Time,
    callbacks: bool,
) -> Settled<ResultRecord> {
    let record = match record {
        Ok(record) => record,
        Err(refusal) => return (Err(refusal), Vec::new()),
    };
    let (state, outcome) = match record.status {
        Status::Completed => (State::Completed, AttemptOutcome::Completed),
        Status::Failed => (State::Failed, AttemptOutcome::Failed),
    };
    let told = Told::parse(&answer.text());
    let event = told.map(|told| told.ended(now, state, Some(outcome), record.error.clone(), callbacks));
    (Ok(record), event.into_iter().collect())
}
