//! The verbs that are called rarely, at the bounds of the rules: what they keep is in memory, and much of it may be due at
//! once.

use super::Caller;
use crate::clock::Clock;
use codeq_queue::batch::NewBatch;
use codeq_queue::create::CreateRequest;
use codeq_queue::operation::Step;
use codeq_queue::order::ReadyQuestion;
use codeq_queue::schedule::{Backfill, ScheduleRequest};
use codeq_queue::store::{Cancel, Heartbeat, TaskRef, Wait};
use codeq_queue::topic::Policy;
use codeq_queue::{
    AuditEntry, AuditPage, Failure, Filter, Operation, OperationKind, OperationState, Page, QueueKey, TaskId,
    Time, limits,
};
use std::sync::Arc;
use std::time::Duration;

/// Names in an operation's step.
const STEP: usize = 500;

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

impl Caller<'_> {
    /// A batch whose members join, end and are cancelled.
    pub(super) async fn group(&mut self) -> Result<(), Failure> {
        let store = self.store.clone();
        let Some(batches) = store.batching() else { return Ok(()) };
        let name = Some("b".repeat(1 + self.choices.up_to(limits::BATCH_NAME_BYTES - 1)).into());
        let new = NewBatch { tenant: self.tenant(), name, close_after: Duration::from_secs(60) };
        let Ok(batch) = batches.create_batch(new).await? else { return Ok(()) };
        let member = self.request().batch(batch.id).build(&self.tenant());
        let made = store.create(vec![member; self.count()]).await?;
        self.remember(made.into_iter().flatten().map(|created| created.task.id));
        let follower = self.request().after(&[batch.id]).build(&self.tenant());
        let _ = store.create(vec![follower; self.count()]).await?;
        match self.choices.next() % 3 {
            0 => batches.close_batch(self.tenant(), batch.id).await.map(drop),
            1 => batches.cancel_batch(self.tenant(), batch.id).await.map(drop),
            _ => batches.batch(self.tenant(), batch.id).await.map(drop),
        }
    }

    /// Schedules whose ticks are due together, and one that makes up for many.
    pub(super) async fn plan(&mut self) -> Result<(), Failure> {
        let store = self.store.clone();
        let Some(schedules) = store.scheduling() else { return Ok(()) };
        let tenant = self.tenant();
        let payload = format!("\"{}\"", "p".repeat(self.choices.up_to(self.content_bytes)));
        let headers = vec![("h".to_owned(), "v".repeat(self.choices.up_to(limits::HEADERS_BYTES - 1)))];
        let command = self.command();
        let task = CreateRequest {
            tenant: tenant.clone(),
            command,
            payload: payload.clone(),
            headers,
            ..CreateRequest::default()
        };
        let asked =
            ScheduleRequest { every_seconds: Some(60), task, task_text: payload, ..Default::default() };
        let now = self.clock.now();
        let Ok(definition) = asked.check("name", 5, limits::PAYLOAD_BYTES, now) else { return Ok(()) };
        let filler = "s".repeat(self.choices.up_to(limits::SCHEDULE_NAME_BYTES - 4));
        for number in 0..self.count() {
            let name = format!("{number:04}{filler}");
            let _ = schedules.put_schedule(tenant.clone(), name, definition.clone()).await?;
        }
        let name = format!("0000{filler}");
        let note = Some("n".repeat(limits::SCHEDULE_NOTE_BYTES).into());
        let _ = schedules.trigger_schedule(tenant.clone(), name.clone()).await?;
        let _ = schedules.pause_schedule(tenant.clone(), name.clone(), note).await?;
        let _ = schedules.resume_schedule(tenant.clone(), name.clone()).await?;
        let hours = Duration::from_secs(3600 * (1 + self.choices.up_to(160) as u64));
        let from = Time::from_millis(now.millis() - hours.as_millis() as i64);
        let name: Arc<str> = name.into();
        let backfill = Backfill {
            tenant: tenant.clone(),
            name,
            operation: u128::from(from.millis().unsigned_abs()),
            from,
            to: now,
        };
        for _ in 0..4 {
            match schedules.backfill_schedule(backfill.clone()).await? {
                Ok(done) if !done.is_done => {}
                _ => break,
            }
        }
        self.clock.advance(Duration::from_secs(61));
        for schedule in schedules.schedules(tenant.clone(), None, 1000).await? {
            schedules.delete_schedule(tenant.clone(), schedule.name.to_string()).await?;
        }
        Ok(())
    }

    /// Policies with as many lanes as they may name.
    pub(super) async fn rule(&mut self) -> Result<(), Failure> {
        let store = self.store.clone();
        let Some(policies) = store.policing() else { return Ok(()) };
        let queue = QueueKey::new(&self.tenant(), &self.command());
        let (lanes, filler) =
            (self.choices.up_to(limits::LANE_OVERRIDES), "l".repeat(limits::LANE_BYTES - 4));
        let overrides: Vec<String> =
            (0..lanes).map(|lane| format!("\"{lane:04}{filler}\":{{\"weight\":2}}")).collect();
        let text =
            format!("{{\"concurrency\":1000,\"lanes\":{{\"overrides\":{{{}}}}}}}", overrides.join(","));
        let _ = policies.put_policy(queue.clone(), text.into()).await?;
        self.create().await?;
        self.claim().await?;
        policies.lanes(queue.clone(), 1000).await?;
        if self.choices.next().is_multiple_of(2) {
            let _ = policies.delete_policy(queue).await?;
        }
        Ok(())
    }

    /// What operators leave behind: operations with their filters and steps, topics, audit entries.
    pub(super) async fn note(&mut self) -> Result<(), Failure> {
        let (tenant, now) = (self.tenant(), self.clock.now());
        self.note_operations(&tenant, now).await?;
        let policy = Policy {
            priority_tiers: vec![9; 10],
            max_attempts: 5,
            dead_letter_topic: long(limits::COMMAND_BYTES),
            retention_seconds: None,
            max_consumers: None,
        };
        let name = self.command();
        self.store.put_topic(tenant.clone(), name.clone(), policy).await?;
        self.store.delete_topic(tenant.clone(), name).await?;
        self.note_deeds(&tenant, now).await
    }

    async fn note_operations(&mut self, tenant: &Arc<str>, now: Time) -> Result<(), Failure> {
        let text = || Some(long(limits::FILTER_TEXT_BYTES));
        let filter = Filter {
            error: text(),
            worker_id: text(),
            idempotency_key: text(),
            headers: vec![("h".into(), long(limits::HEADERS_BYTES - 1))],
            ..Filter::default()
        };
        let step = (0..STEP as u128).map(|bits| (tenant.clone(), TaskId::from_bits(bits))).collect();
        let operation = Operation {
            id: (u128::from(now.millis().unsigned_abs()) << 32) + ((self.choices.0.len() as u128) << 16),
            tenant: Some(tenant.clone()),
            kind: OperationKind::Cancel,
            filter,
            max_attempts: None,
            rate_per_second: 1,
            state: OperationState::Running,
            matched: Some(1),
            processed: 0,
            failed: 0,
            created_at: now,
            updated_at: now,
            error: Some(self.choices.text(limits::ERROR_BYTES)),
            cursor: None,
            step: Some(Step { tasks: step, next: None }),
            version: 1,
            holder: 0,
            held_until: now,
            by: Some(long(256).into()),
            cause: text(),
        };
        for id in 0..self.count() as u128 {
            self.store.put_operation(Operation { id: operation.id ^ id, ..operation.clone() }).await?;
        }
        for old in self.store.operations().await?.iter().rev().skip(64) {
            self.store.remove_operation(old.id).await?;
        }
        Ok(())
    }

    async fn note_deeds(&mut self, tenant: &Arc<str>, now: Time) -> Result<(), Failure> {
        let (who, target) = (long(1024).into(), long(512).into());
        let verb: Box<str> = "cancel".into();
        let request_id = long(128).into();
        let entry =
            AuditEntry { at: now, id: 0, who, tenant: tenant.clone(), verb, target, count: None, request_id };
        for id in 0..self.count() as u64 {
            self.store.put_audit(AuditEntry { id, ..entry.clone() }).await?;
        }
        let page = AuditPage {
            tenant: Some(tenant.clone()),
            verb: None,
            who: None,
            after: None,
            before: None,
            cursor: None,
            limit: 500,
        };
        self.store.audit(page).await.map(drop)
    }

    /// Whatever only looks, and what goes with single tasks.
    pub(super) async fn look(&mut self) -> Result<(), Failure> {
        let tenant = self.tenant();
        let page = Page {
            tenant: Some(tenant.clone()),
            filter: Arc::default(),
            is_newest_first: true,
            cursor: None,
            limit: 500,
        };
        let _ = self.store.list(page).await?;
        let asked = ReadyQuestion { tenant: tenant.clone(), named: Vec::new(), most: limits::CLAIM_COMMANDS };
        self.store.ready_commands(asked).await?;
        self.store.deliveries(Some(tenant.clone()), true, 0, 500).await?;
        self.store.outbox().await?;
        let tasks: Vec<TaskRef> =
            self.made.iter().take(self.batch).map(|id| TaskRef { tenant: tenant.clone(), id: *id }).collect();
        if let Some(task) = tasks.first() {
            self.store.attempts(task.clone()).await?;
            self.store.position(task.clone()).await?;
            self.store.result(task.clone(), Wait::No).await?;
        }
        let _ = self.store.run_now(tasks.clone()).await?;
        let checkpoint: Arc<str> = format!("\"{}\"", "c".repeat(limits::CHECKPOINT_BYTES - 2)).into();
        let progress: Arc<str> = format!("\"{}\"", "p".repeat(limits::PROGRESS_BYTES - 2)).into();
        let beats = self.taken.iter().take(self.batch).map(|task| Heartbeat {
            checkpoint: Some(checkpoint.clone()),
            progress: Some(progress.clone()),
            ..Heartbeat::new(self.report(task), Duration::from_secs(600))
        });
        let beats = beats.collect();
        let _ = self.store.heartbeat(beats).await?;
        let reason: Option<Arc<str>> = Some("r".repeat(limits::ERROR_BYTES).into());
        let grace = Duration::from_secs(30);
        let cancels = tasks.into_iter().map(|task| Cancel { task, grace, reason: reason.clone() });
        self.store.cancel(cancels.collect()).await.map(drop)
    }
}
