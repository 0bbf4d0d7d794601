//! What operators do: cancel, requeue, remove, cleanup, pause.

use crate::kvrocks::context::known::Known;
use crate::kvrocks::coordination::events::Told;
use crate::kvrocks::format::asked;
use crate::kvrocks::format::keys::queue_text;
use crate::kvrocks::format::record;
use crate::kvrocks::redis::batch::Item;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, string, strings};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::create::seconds;
use codeq_queue::event::What;
use codeq_queue::store::{Cancel, Items, TaskRef};
use codeq_queue::{Event, Failure, QueueKey, QueueStats, Refusal, State, Task, TaskId, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Ids that a cleanup looks at together.
const CLEANED_TOGETHER: usize = 500;

impl StoreContext {
    pub async fn cancel(self: Arc<Self>, cancels: Vec<Cancel>) -> Result<Items<Task>, Failure> {
        let now = self.enter().await?;
        let named: Vec<TaskRef> = cancels.iter().map(|cancel| cancel.task.clone()).collect();
        let items = self.cancel_at(cancels, now).await?;
        self.already_cancelled(&named, items).await
    }

    pub async fn cancel_at(&self, cancels: Vec<Cancel>, now: Time) -> Result<Items<Task>, Failure> {
        let named: Vec<TaskRef> = cancels.iter().map(|cancel| cancel.task.clone()).collect();
        let known = self.known(&ids(&named)).await?;
        let callbacks = self.rules.callbacks;
        let answers = cancels.into_iter().zip(known).map(|(cancel, known)| {
            let call = known.as_deref().map(|known| self.cancel_call(&cancel, known, now));
            self.report(known, call, move |mut answer| {
                let (text, told) = (answer.text(), Told::parse(&answer.text()));
                let error = string(answer.next());
                let event = told.map(|told| told.cancelled(now, error.into(), callbacks));
                (record::parse(&text).ok_or(Refusal::NotFound), event.into_iter().collect())
            })
        });
        self.run_batch(answers).await
    }

    fn cancel_call(&self, cancel: &Cancel, known: &Known, now: Time) -> Call {
        let deadline = (!cancel.grace.is_zero()).then(|| now.plus(cancel.grace).millis().to_string());
        let call = self
            .named(Script::Cancel, &cancel.task, known)
            .number(now.millis())
            .arg(now.to_utc())
            .arg(deadline.unwrap_or_default())
            .arg(asked::kept_reason(cancel.reason.as_deref()));
        self.noted(known.shard, self.with_endings(call, now))
    }

    /// What was cancelled before stays as it is.
    async fn already_cancelled(
        &self,
        named: &[TaskRef],
        mut items: Items<Task>,
    ) -> Result<Items<Task>, Failure> {
        for (task, item) in named.iter().zip(&mut items) {
            if *item == Err(Refusal::AlreadyTerminal) {
                let found = self.me().get(vec![task.clone()]).await?.pop().flatten();
                if let Some(found) = found.filter(|found| found.state == State::Cancelled) {
                    *item = Ok(found);
                }
            }
        }
        Ok(items)
    }

    pub async fn requeue(
        self: Arc<Self>,
        tasks: Vec<TaskRef>,
        max_attempts: Option<u32>,
    ) -> Result<Items<Task>, Failure> {
        let now = self.enter().await?;
        let known = self.known(&ids(&tasks)).await?;
        let answers = tasks.into_iter().zip(known).map(|(task, known)| {
            let call = known.as_deref().map(|known| {
                let call = self
                    .named(Script::Requeue, &task, known)
                    .number(now.millis())
                    .arg(now.to_utc())
                    .arg(max_attempts.map(|max| max.to_string()).unwrap_or_default())
                    .number(self.now.numbers(1))
                    .arg(&*known.queue.tenant);
                self.noted(known.shard, call)
            });
            self.report(known, call, move |mut answer| {
                let task = record::parse(&answer.text()).ok_or(Refusal::NotFound);
                let has_filled = answer.int() == 0;
                let event =
                    task.as_ref().ok().map(|task| Told::of(task).event(now, What::Reopened, has_filled));
                (task, event.into_iter().collect())
            })
        });
        self.run_batch(answers).await
    }

    pub async fn run_now(self: Arc<Self>, tasks: Vec<TaskRef>) -> Result<Items<Task>, Failure> {
        let now = self.enter().await?;
        let known = self.known(&ids(&tasks)).await?;
        let answers = tasks.into_iter().zip(known).map(|(task, known)| {
            let call = known.as_deref().map(|known| {
                let call = self
                    .named(Script::RunNow, &task, known)
                    .number(now.millis())
                    .arg(now.to_utc())
                    .number(self.now.numbers(1));
                self.noted(known.shard, call)
            });
            self.report(known, call, move |mut answer| {
                let is_promoted = answer.word == "OK";
                let task = record::parse(&answer.text()).ok_or(Refusal::NotFound);
                let has_filled = answer.int() == 0;
                let made = task.as_ref().ok().filter(|_| is_promoted);
                let event = made.map(|task| Told::of(task).event(now, What::Promoted, has_filled));
                (task, event.into_iter().collect())
            })
        });
        self.run_batch(answers).await
    }

    pub async fn remove(self: Arc<Self>, tasks: Vec<TaskRef>) -> Result<Items<()>, Failure> {
        let now = self.enter().await?;
        let known = self.known(&ids(&tasks)).await?;
        let answers = tasks.into_iter().zip(known).map(|(task, known)| {
            let tenant = record::tenant_text(&task.tenant);
            let call = known.as_deref().map(|known| {
                let call = self.remove_call(task.id, known, "dead", &tenant, now, now);
                self.noted(known.shard, call)
            });
            self.report(known, call, move |_| (Ok(()), Vec::new()))
        });
        self.run_batch(answers).await
    }

    pub fn remove_call(
        &self,
        id: TaskId,
        known: &Known,
        mode: &str,
        tenant: &str,
        now: Time,
        before: Time,
    ) -> Call {
        let keys = &self.shards[known.shard].keys;
        let key = known.idempotency_key.as_deref().map(|key| keys.idempotency(&known.queue, key));
        Call::new(Script::Remove, keys.with_queue(&known.queue))
            .arg(id.to_string())
            .arg(mode)
            .arg(tenant)
            .number(now.millis())
            .number(before.millis())
            .number(self.rules.retention.as_secs())
            .arg(self.rules.dead_retention.map(|keep| keep.as_secs().to_string()).unwrap_or_default())
            .arg(key.unwrap_or_default())
    }

    pub async fn cleanup(
        self: Arc<Self>,
        tenant: Arc<str>,
        before: Time,
        limit: usize,
    ) -> Result<u64, Failure> {
        let now = self.enter().await?;
        let mut removed = 0;
        for shard in self.keyspaces.iter().map(|shards| shards[0]) {
            removed += self.cleanup_on(shard, &tenant, before, limit - removed, now).await?;
        }
        Ok(u64::try_from(removed).unwrap_or(u64::MAX))
    }

    async fn cleanup_on(
        &self,
        shard: usize,
        tenant: &str,
        before: Time,
        limit: usize,
        now: Time,
    ) -> Result<usize, Failure> {
        let (at, tenant) = (&self.shards[shard], record::tenant_text(tenant));
        let (mut removed, mut kept) = (0, 0);
        while removed < limit {
            let together = CLEANED_TOGETHER.min(limit - removed);
            let due = Command::new("ZRANGEBYSCORE").arg(at.keys.of("tasks:ttl")).args([
                "-inf",
                &seconds(before),
                "LIMIT",
                &kept.to_string(),
                &together.to_string(),
            ]);
            let ids = strings(at.read_one(due).await?);
            let known = self.known_on(shard, &ids).await?;
            let removals = ids
                .iter()
                .zip(&known)
                .map(|(id, known)| self.clean(TaskId::parse(id), known.as_ref(), &tenant, before, now));
            let done = self.run_batch(removals).await?;
            removed += done.iter().filter(|done| **done).count();
            kept += done.iter().filter(|done| !**done).count();
            if ids.len() < together {
                break;
            }
        }
        Ok(removed)
    }

    fn clean(
        &self,
        id: Option<TaskId>,
        known: Option<&Known>,
        tenant: &str,
        before: Time,
        now: Time,
    ) -> Item<bool> {
        let (Some(id), Some(known)) = (id, known) else { return Item::Answered(false) };
        let call = self.remove_call(id, known, "done", tenant, now, before);
        Item::ask(known.shard, call, |reply| Ok((Answered::of(reply)?.word == "OK", Vec::new())))
    }

    pub async fn pause(self: Arc<Self>, queue: QueueKey, is_paused: bool) -> Result<QueueStats, Failure> {
        let now = self.enter().await?;
        let current = self.current_shard(&queue);
        // Shards of one keyspace share the flag.
        let places = self.queue_shards(&queue).into_iter().map(|shard| self.keyspace_of(shard));
        let own = self.keyspace_of(current);
        let others: BTreeSet<usize> = places.filter(|keyspace| *keyspace != own).collect();
        let others = others.into_iter().map(|keyspace| self.keyspaces[keyspace][0]);
        for shard in others.chain([current]) {
            let at = &self.shards[shard];
            let call = Call::new(Script::Pause, vec![at.keys.of("paused")])
                .arg(queue_text(&queue))
                .arg(if is_paused { "1" } else { "" });
            let call = if shard == current { self.noted(shard, call) } else { call };
            let event = (shard == current).then(|| self.paused_event(&queue, is_paused, now));
            let settle = move |replies: Vec<Reply>| {
                let mut answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
                let has_changed = answer.int() > 0;
                Ok(((), event.filter(|_| has_changed).into_iter().collect()))
            };
            at.writer.run(vec![call], settle).await?;
        }
        if !is_paused {
            self.clear_holds(&queue).await?;
        }
        self.stats(&queue).await
    }

    fn paused_event(&self, queue: &QueueKey, is_paused: bool, at: Time) -> Event {
        let what = if is_paused { What::Paused } else { What::Resumed };
        let command = self.notes.spelling(queue).unwrap_or_else(|| queue.command.clone());
        Event { at, queue: queue.clone(), command, task: None, what, has_filled: false }
    }

    /// The call of a script that begins with an id and its tenant.
    fn named(&self, script: Script, task: &TaskRef, known: &Known) -> Call {
        Call::new(script, self.shards[known.shard].keys.with_queue(&known.queue))
            .arg(task.id.to_string())
            .arg(record::tenant_text(&task.tenant))
    }
}

fn ids(tasks: &[TaskRef]) -> Vec<TaskId> {
    tasks.iter().map(|task| task.id).collect()
}
