//! Reading: tasks, results, histories, counts, positions.

use super::connection::{Command, Reply};
use super::outcome::{parse_history, parse_result};
use super::record;
use super::reply::{count, found, int, list, string};
use super::store::Keeper;
use super::waiting::LOOK_AGAIN;
use codeq_queue::store::{OutboxCounts, Position, ResultLookup, TaskRef, Wait};
use codeq_queue::task::MAX_ATTEMPTS;
use codeq_queue::{
    Attempt, Failure, FailureReason, QueueKey, QueueStats, ResultRecord, State, Status, Task, TaskId, Time,
    limits,
};
use futures_util::future::try_join_all;
use std::sync::Arc;
use tokio::sync::Notify;

/// Ids of one priority that a position counts over.
const POSITION_DEPTH: u64 = 50_000;
/// Queues that are counted in one exchange.
const COUNTED_TOGETHER: usize = 64;
/// Replies to the reads of one queue.
const COUNTS: usize = 24;

impl Keeper {
    pub async fn get(self: Arc<Self>, tasks: Vec<TaskRef>) -> Result<Vec<Option<Task>>, Failure> {
        self.enter().await?;
        let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
        let found = self.find(&ids).await?;
        let own = |task: &TaskRef| {
            let (_, found) = found.get(&task.id)?;
            (found.body.tenant == task.tenant).then(|| found.clone())
        };
        Ok(tasks.iter().map(own).collect())
    }

    pub async fn result(self: Arc<Self>, task: TaskRef, wait: Wait) -> Result<ResultLookup, Failure> {
        let watch = self.teller.watchers.clone().watch(task.id);
        self.await_result(&task, wait, watch.told()).await
    }

    async fn await_result(
        &self,
        task: &TaskRef,
        wait: Wait,
        watched: &Notify,
    ) -> Result<ResultLookup, Failure> {
        let mut has_waited = false;
        loop {
            let told = watched.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            let now = match self.enter().await {
                Err(Failure::Closed) if has_waited => return Ok(ResultLookup::Pending),
                now => now?,
            };
            let lookup = self.look_up(task).await?;
            let left = match wait {
                Wait::No => None,
                Wait::Until(end) => Some(end.since(now)).filter(|left| !left.is_zero()),
                Wait::Forever => Some(LOOK_AGAIN),
            };
            let Some(left) = left.filter(|_| lookup == ResultLookup::Pending) else { return Ok(lookup) };
            let left = if self.is_stepped() { LOOK_AGAIN } else { left.min(LOOK_AGAIN) };
            has_waited = true;
            tokio::select! {
                () = &mut told => {}
                () = tokio::time::sleep(left) => {}
                () = self.closed() => return Ok(ResultLookup::Pending),
            }
        }
    }

    async fn look_up(&self, task: &TaskRef) -> Result<ResultLookup, Failure> {
        let shards: Vec<usize> = match self.memory.recall(task.id) {
            Some(known) => vec![known.shard],
            None => (0..self.shards.len()).collect(),
        };
        let id = task.id.to_string();
        for shard in shards {
            let at = &self.shards[shard];
            let get = |name: &str| Command::new("HGET").arg(at.keys.of(name)).arg(id.as_str());
            let commands = [Command::new("MULTI"), get("tasks"), get("results"), Command::new("EXEC")];
            let pair = list(at.read(&commands).await?.pop().unwrap_or(Reply::Nil));
            let mut texts = pair.into_iter().map(found);
            let (text, result) = (texts.next().flatten(), texts.next().flatten());
            let Some(found) = text.and_then(|text| record::parse(&text)) else { continue };
            if found.body.tenant != task.tenant {
                return Ok(ResultLookup::NotFound);
            }
            if found.state.is_live() {
                return Ok(ResultLookup::Pending);
            }
            let record = result.and_then(|text| parse_result(&text)).unwrap_or_else(|| unwritten(&found));
            return Ok(ResultLookup::Done { task: found, record });
        }
        Ok(ResultLookup::NotFound)
    }

    pub async fn attempts(self: Arc<Self>, task: TaskRef) -> Result<Option<Vec<Attempt>>, Failure> {
        self.enter().await?;
        let Some((shard, found_task)) = self.find(&[task.id]).await?.remove(&task.id) else {
            return Ok(None);
        };
        if found_task.body.tenant != task.tenant {
            return Ok(None);
        }
        let at = &self.shards[shard];
        let get = Command::new("HGET").arg(at.keys.of("history")).arg(task.id.to_string());
        let mut history = found(at.read_one(get).await?).map_or_else(Vec::new, |text| parse_history(&text));
        if let Some(lease) = found_task.state.lease() {
            let running = Attempt {
                attempt: found_task.attempts,
                worker_id: lease.owner.worker_id.clone(),
                claimed_at: lease.claimed_at,
                end: None,
            };
            codeq_queue::attempt::remember(&mut history, running);
        }
        debug_assert!(history.len() <= limits::ATTEMPTS_KEPT);
        Ok(Some(history))
    }

    pub async fn queue(self: Arc<Self>, queue: QueueKey) -> Result<QueueStats, Failure> {
        self.enter().await?;
        self.stats(&queue).await
    }

    /// The counts of a queue on all its shards.
    pub async fn stats(&self, queue: &QueueKey) -> Result<QueueStats, Failure> {
        let mut total = self.no_stats(queue);
        for shard in self.queue_shards(queue) {
            for stats in self.stats_on(shard, std::slice::from_ref(queue)).await? {
                add(&mut total, &stats);
            }
        }
        Ok(total)
    }

    pub async fn queues(self: Arc<Self>, tenant: Option<Arc<str>>) -> Result<Vec<QueueStats>, Failure> {
        self.enter().await?;
        let mut all: std::collections::BTreeMap<QueueKey, QueueStats> = std::collections::BTreeMap::new();
        for shard in 0..self.shards.len() {
            let queues = self.queues_on(shard, tenant.as_deref()).await?;
            let parts = queues.chunks(COUNTED_TOGETHER).map(|part| self.stats_on(shard, part));
            for stats in try_join_all(parts).await?.into_iter().flatten() {
                let key = QueueKey::new(&stats.tenant, &stats.command);
                let total = all.entry(key.clone()).or_insert_with(|| self.no_stats(&key));
                add(total, &stats);
            }
        }
        Ok(all.into_values().collect())
    }

    fn no_stats(&self, queue: &QueueKey) -> QueueStats {
        QueueStats {
            tenant: queue.tenant.clone(),
            command: self.notes.spelling(queue).unwrap_or_else(|| queue.command.clone()),
            ready: [0; 10],
            delayed: 0,
            in_progress: 0,
            dead: 0,
            is_paused: false,
            oldest_ready: None,
            last_claim: self.notes.last_claim(queue),
        }
    }

    async fn stats_on(&self, shard: usize, queues: &[QueueKey]) -> Result<Vec<QueueStats>, Failure> {
        let at = &self.shards[shard];
        let mut commands = vec![Command::new("MULTI")];
        for queue in queues {
            let names = at.keys.queue(queue);
            commands.extend(names[..10].iter().map(|key| Command::new("LLEN").arg(key.as_str())));
            commands.push(Command::new("SCARD").arg(names[10].as_str()));
            commands.push(Command::new("ZCARD").arg(names[12].as_str()));
            commands.push(Command::new("SCARD").arg(names[13].as_str()));
            let paused = Command::new("SISMEMBER").arg(at.keys.of("paused"));
            commands.push(paused.arg(super::keys::queue_text(queue)));
            commands.extend(names[..10].iter().map(|key| Command::new("LINDEX").arg(key.as_str()).arg("-1")));
        }
        commands.push(Command::new("EXEC"));
        let replies = list(at.read(&commands).await?.pop().unwrap_or(Reply::Nil));
        let heads: Vec<String> = replies
            .chunks(COUNTS)
            .flat_map(|part| part[14..].iter().filter(|head| **head != Reply::Nil))
            .map(|head| string(head.clone()))
            .collect();
        let created = self.creations(shard, &heads).await?;
        let mut created = created.into_iter();
        Ok(queues
            .iter()
            .zip(replies.chunks(COUNTS))
            .map(|(queue, part)| {
                let heads = part[14..].iter().filter(|head| **head != Reply::Nil).count();
                let oldest = created.by_ref().take(heads).flatten().min();
                self.stats_of(queue, part, oldest)
            })
            .collect())
    }

    fn stats_of(&self, queue: &QueueKey, part: &[Reply], oldest_ready: Option<Time>) -> QueueStats {
        let mut stats = self.no_stats(queue);
        for (ready, reply) in stats.ready.iter_mut().zip(part) {
            *ready = count(reply);
        }
        (stats.in_progress, stats.delayed, stats.dead) =
            (count(&part[10]), count(&part[11]), count(&part[12]));
        (stats.is_paused, stats.oldest_ready) = (int(&part[13]) == 1, oldest_ready);
        stats
    }

    /// When tasks were created, by the index of creations.
    async fn creations(&self, shard: usize, ids: &[String]) -> Result<Vec<Option<Time>>, Failure> {
        let at = &self.shards[shard];
        let score = |id: &String| Command::new("ZSCORE").arg(at.keys.of("created")).arg(id.as_str());
        let replies = at.read(&ids.iter().map(score).collect::<Vec<_>>()).await?;
        let time = |reply: Reply| string(reply).parse::<f64>().ok().map(millis);
        Ok(replies.into_iter().map(time).collect())
    }

    pub async fn position(self: Arc<Self>, task: TaskRef) -> Result<Option<Position>, Failure> {
        self.enter().await?;
        let Some((shard, found_task)) = self.find(&[task.id]).await?.remove(&task.id) else {
            return Ok(None);
        };
        let is_ready = matches!(found_task.state, State::Ready { .. });
        if found_task.body.tenant != task.tenant || !is_ready {
            return Ok(None);
        }
        let at = &self.shards[shard];
        let names = at.keys.queue(&QueueKey::new(&task.tenant, &found_task.body.command));
        let own = usize::from(found_task.priority);
        let id = task.id.to_string();
        let mut commands = vec![Command::new("LPOS").arg(names[own].as_str()).args([
            id.as_str(),
            "RANK",
            "-1",
            "MAXLEN",
            &POSITION_DEPTH.to_string(),
        ])];
        commands.extend(names[own..10].iter().map(|key| Command::new("LLEN").arg(key.as_str())));
        let replies = at.read(&commands).await?;
        let length = count(&replies[1]);
        let ahead = match replies[0] {
            Reply::Int(index) => Some(length.saturating_sub(1 + u64::try_from(index).unwrap_or(0))),
            _ => None,
        };
        Ok(Some(Position { ahead, ahead_at_higher_priority: replies[2..].iter().map(count).sum() }))
    }

    pub async fn outbox_counts(self: Arc<Self>) -> Result<OutboxCounts, Failure> {
        self.enter().await?;
        let mut counts = OutboxCounts::default();
        for at in &self.shards {
            let size = |name: &str| Command::new("ZCARD").arg(at.keys.of(name));
            let replies = at.read(&[size("outbox:due"), size("outbox:failed")]).await?;
            counts.pending += count(&replies[0]);
            counts.failed += count(&replies[1]);
            if self.is_shared(at) {
                break;
            }
        }
        Ok(counts)
    }
}

pub fn millis(score: f64) -> Time {
    #[expect(clippy::cast_possible_truncation, reason = "scores are milliseconds, far below 2^53")]
    Time::from_millis(score as i64)
}

fn add(total: &mut QueueStats, part: &QueueStats) {
    for (sum, ready) in total.ready.iter_mut().zip(part.ready) {
        *sum += ready;
    }
    total.delayed += part.delayed;
    total.in_progress += part.in_progress;
    total.dead += part.dead;
    total.is_paused |= part.is_paused;
    total.oldest_ready = [total.oldest_ready, part.oldest_ready].into_iter().flatten().min();
}

/// The original server wrote no results for dead letters.
fn unwritten(task: &Task) -> ResultRecord {
    let status = if task.state == State::Completed { Status::Completed } else { Status::Failed };
    ResultRecord {
        status,
        result: None,
        error: (status == Status::Failed).then(|| task.error.clone().unwrap_or_else(|| MAX_ATTEMPTS.into())),
        failure_reason: (task.state == State::Dead).then_some(FailureReason::MaxAttempts),
        artifacts: Vec::new(),
        completed_at: task.updated_at,
    }
}
