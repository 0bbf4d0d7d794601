//! Tasks from elsewhere: stored under their own ids, in the place that they had there.

use crate::kvrocks::context::known::Known;
use crate::kvrocks::coordination::events::Told;
use crate::kvrocks::format::asked;
use crate::kvrocks::format::outcome::result_text;
use crate::kvrocks::format::record;
use crate::kvrocks::redis::connection::Reply;
use crate::kvrocks::redis::reply::Answered;
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::create::seconds;
use codeq_queue::event::What;
use codeq_queue::store::{Import, Items};
use codeq_queue::{Failure, QueueKey, Refusal, State, Task, Time};
use futures_util::future::try_join_all;
use std::sync::Arc;

impl StoreContext {
    pub async fn import(self: Arc<Self>, tasks: Vec<Import>) -> Result<Items<bool>, Failure> {
        let now = self.enter().await?;
        try_join_all(tasks.into_iter().map(|import| self.import_one(import, now))).await
    }

    async fn import_one(&self, import: Import, now: Time) -> Result<Result<bool, Refusal>, Failure> {
        if !self.find(&[import.task.id]).await?.is_empty() {
            return Ok(Ok(false));
        }
        let Import { task, record } = import;
        // Who ran it elsewhere does not run it here.
        let state = match task.state {
            State::Ready { .. } | State::Running(_) => State::Ready { seq: self.now.numbers(1) },
            State::Delayed { until } if until <= now => State::Ready { seq: self.now.numbers(1) },
            ended_or_delayed => ended_or_delayed,
        };
        let task = Task { state, ..task };
        let queue = QueueKey::new(&task.body.tenant, &task.body.command);
        let shard = self.current_shard(&queue);
        let result = record.map(|record| result_text(task.id, &record)).unwrap_or_default();
        let call = self.import_call(&task, &queue, shard, result, now);
        let (memory, teller) = (self.memory.clone(), self.teller.clone());
        let settle = move |replies: Vec<Reply>| {
            let mut answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            if answer.has_freed {
                teller.freed(&QueueKey::new(&task.body.tenant, &task.body.command));
            }
            Ok(match answer.word.as_str() {
                "EXISTS" => (Ok(false), Vec::new()),
                "KEY_TAKEN" => (Err(Refusal::IdempotencyKeyTaken), Vec::new()),
                _ => {
                    let has_filled = answer.int() == 0 && matches!(task.state, State::Ready { .. });
                    memory.remember(task.id, Arc::new(Known::of(&task, shard)));
                    let event = Told::of(&task).event(now, What::Created, has_filled);
                    (Ok(true), if task.state.is_live() { vec![event] } else { Vec::new() })
                }
            })
        };
        self.shards[shard].writer.run(vec![call], settle).await
    }

    fn import_call(&self, task: &Task, queue: &QueueKey, shard: usize, result: String, now: Time) -> Call {
        let keys = &self.shards[shard].keys;
        let key = task.body.idempotency_key.as_deref().map(|key| keys.idempotency(queue, key));
        let unique = asked::held_key(task).map(|key| keys.unique(queue, key));
        let visible = match task.state {
            State::Delayed { until } => until,
            _ => now,
        };
        let ends = match task.state {
            ref ended if !ended.is_live() => self.rules.kept(ended).map(|keep| now.plus(keep)),
            _ => Some(visible.plus(self.rules.retention)),
        };
        Call::new(Script::Import, keys.with_queue(queue))
            .arg(task.id.to_string())
            .arg(record::text_of(task, self.beside(shard, self.now.creation())))
            .number(task.priority)
            .arg(seconds(visible))
            .arg(ends.map_or_else(|| "+inf".into(), seconds))
            .number(task.created_at.millis())
            .arg(&*queue.tenant)
            .arg(result)
            .arg(task.state.place().word())
            .arg(key.unwrap_or_default())
            .arg(asked::waits_until(task).map(|at| at.millis().to_string()).unwrap_or_default())
            .arg(unique.unwrap_or_default())
            .arg(task.checkpoint.as_deref().unwrap_or_default())
    }
}
