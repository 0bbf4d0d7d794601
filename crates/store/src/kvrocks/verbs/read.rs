//! Reading: tasks, results, histories, counts, positions.

use crate::kvrocks::format::outcome::parse_history;
use crate::kvrocks::format::record;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{count, found, int, list, string};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::timers::flow::{FLOW_READS, FlowState};
use codeq_queue::store::{OutboxCounts, Position, TaskRef};
use codeq_queue::task::MAX_ATTEMPTS;
use codeq_queue::{
    Attempt, Failure, FailureReason, QueueKey, QueueStats, ResultRecord, State, Status, Task, TaskId, Time,
    limits,
};
use futures_util::future::{join_all, try_join_all};
use std::sync::Arc;

/// Ids of one priority that a position counts over.
const POSITION_DEPTH: u64 = 50_000;
/// Queues that are counted in one exchange.
const COUNTED_TOGETHER: usize = 64;
/// Replies to the reads of one queue.
const COUNTS: usize = 27 + FLOW_READS;
/// Ids at the end of a list among which the oldest ready one is looked for, where some are not pending any more.
const HEADS: isize = 32;

impl StoreContext {
    pub async fn get(self: Arc<Self>, tasks: Vec<TaskRef>) -> Result<Vec<Option<Task>>, Failure> {
        self.enter().await?;
        let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
        let found = self.find_whole(&ids).await?;
        let own = |task: &TaskRef| {
            let (_, found) = found.get(&task.id)?;
            (found.body.tenant == task.tenant).then(|| found.clone())
        };
        Ok(tasks.iter().map(own).collect())
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
        let by_shard = self.all_queues(tenant.as_deref()).await?;
        let asked = by_shard.iter().map(|(shard, queues)| {
            try_join_all(queues.chunks(COUNTED_TOGETHER).map(|part| self.stats_on(*shard, part)))
        });
        for ((shard, _), counted) in by_shard.iter().zip(join_all(asked).await) {
            let counted = match counted {
                Err(_) if self.shards[*shard].server.gate.away().is_some() => continue,
                counted => counted?,
            };
            for stats in counted.into_iter().flatten() {
                let key = QueueKey::new(&stats.tenant, &stats.command);
                let total = all.entry(key.clone()).or_insert_with(|| self.no_stats(&key));
                add(total, &stats);
            }
        }
        Ok(all.into_values().collect())
    }

    fn no_stats(&self, queue: &QueueKey) -> QueueStats {
        QueueStats {
            command: self.notes.spelling(queue).unwrap_or_else(|| queue.command.clone()),
            last_claim: self.notes.last_claim(queue),
            ..QueueStats::empty(queue)
        }
    }

    pub async fn stats_on(&self, shard: usize, queues: &[QueueKey]) -> Result<Vec<QueueStats>, Failure> {
        let at = &self.shards[shard];
        let mut commands = vec![Command::new("MULTI")];
        for queue in queues {
            let names = at.keys.queue(queue);
            commands.extend(names[..10].iter().map(|key| Command::new("LLEN").arg(key.as_str())));
            commands.push(Command::new("SCARD").arg(names[10].as_str()));
            commands.push(Command::new("ZCARD").arg(names[12].as_str()));
            commands.push(Command::new("SCARD").arg(names[13].as_str()));
            let paused = Command::new("SISMEMBER").arg(at.keys.of("paused"));
            commands.push(paused.arg(crate::kvrocks::format::keys::queue_text(queue)));
            commands.push(Command::new("HGETALL").arg(names[14].as_str()));
            commands.extend(names[..10].iter().map(|key| Command::new("LINDEX").arg(key.as_str()).arg("-1")));
            commands.push(Command::new("SCARD").arg(names[15].as_str()));
            let failed = Command::new("HGET").arg(at.keys.of("failed"));
            commands.push(failed.arg(at.keys.queue_name(queue)));
            commands.extend(FlowState::commands(&at.keys, queue));
        }
        commands.push(Command::new("EXEC"));
        let replies = list(at.read(&commands).await?.pop().unwrap_or(Reply::Nil));
        let mut heads: Vec<Vec<String>> = Vec::with_capacity(queues.len());
        for (queue, part) in queues.iter().zip(replies.chunks(COUNTS)) {
            let mut own = match stale(&part[14]) {
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0] => part[15..25]
                    .iter()
                    .filter(|head| **head != Reply::Nil)
                    .map(|head| string(head.clone()))
                    .collect(),
                _ => self.pending_heads(shard, queue).await?,
            };
            own.extend(FlowState::parse(&part[27..]).heads);
            heads.push(own);
        }
        let created = self.creations(shard, &heads.concat()).await?;
        let mut created = created.into_iter();
        let parts = queues.iter().zip(replies.chunks(COUNTS)).zip(&heads);
        Ok(parts
            .map(|((queue, part), heads)| {
                let oldest = created.by_ref().take(heads.len()).flatten().min();
                self.stats_of(queue, part, oldest)
            })
            .collect())
    }

    /// The oldest ready id of each priority, where some ids are not pending any more.
    async fn pending_heads(&self, shard: usize, queue: &QueueKey) -> Result<Vec<String>, Failure> {
        let at = &self.shards[shard];
        let names = at.keys.queue(queue);
        let range =
            |key: &String| Command::new("LRANGE").arg(key.as_str()).args([&format!("-{HEADS}"), "-1"]);
        let ends = at.read(&names[..10].iter().map(range).collect::<Vec<_>>()).await?;
        let mut heads = Vec::new();
        for end in ends {
            let ids = crate::kvrocks::redis::reply::strings(end);
            let pending = self.pending_of(shard, &ids).await?;
            heads.extend(
                ids.into_iter().zip(pending).rev().find(|(_, is_pending)| *is_pending).map(|(id, _)| id),
            );
        }
        Ok(heads)
    }

    /// Which of these ids are ready.
    async fn pending_of(&self, shard: usize, ids: &[String]) -> Result<Vec<bool>, Failure> {
        let texts = self.records_on(shard, ids).await?;
        let is_ready = |text: Option<Vec<u8>>| {
            text.and_then(|text| record::parse(&text))
                .is_some_and(|task| matches!(task.state, State::Ready { .. }))
        };
        Ok(texts.into_iter().map(is_ready).collect())
    }

    fn stats_of(&self, queue: &QueueKey, part: &[Reply], oldest_ready: Option<Time>) -> QueueStats {
        let mut stats = self.no_stats(queue);
        for ((ready, reply), stale) in stats.ready.iter_mut().zip(part).zip(stale(&part[14])) {
            *ready = count(reply).saturating_sub(stale);
        }
        (stats.in_progress, stats.delayed, stats.dead) =
            (count(&part[10]), count(&part[11]), count(&part[12]));
        (stats.held, stats.failed) = (count(&part[25]), count(&part[26]));
        (stats.is_paused, stats.oldest_ready) = (int(&part[13]) == 1, oldest_ready);
        FlowState::parse(&part[27..]).add_to(&mut stats, self.now.get());
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
        if let Some(position) = self.position_in_lane(shard, &found_task).await? {
            return Ok(Some(position));
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
        commands.push(Command::new("HGETALL").arg(names[14].as_str()));
        commands.extend(names[own..10].iter().map(|key| Command::new("LLEN").arg(key.as_str())));
        let replies = at.read(&commands).await?;
        let (length, stale) = (count(&replies[2]), stale(&replies[1]));
        let behind = match replies[0] {
            Reply::Int(index) => Some(length.saturating_sub(1 + u64::try_from(index).unwrap_or(0))),
            _ => None,
        };
        let ahead = match behind {
            Some(ahead @ 1..) if stale[own] > 0 => {
                Some(self.pending_behind(shard, &names[own], ahead).await?)
            }
            ahead => ahead,
        };
        let higher = replies[3..].iter().map(count).sum::<u64>();
        let ahead_at_higher_priority = higher.saturating_sub(stale[own + 1..].iter().sum());
        Ok(Some(Position { ahead, ahead_at_higher_priority }))
    }

    /// How many of the last ids of a list are ready.
    async fn pending_behind(&self, shard: usize, list: &str, last: u64) -> Result<u64, Failure> {
        let range = Command::new("LRANGE").arg(list).args([format!("-{last}").as_str(), "-1"]);
        let ids = crate::kvrocks::redis::reply::strings(self.shards[shard].read_one(range).await?);
        let pending = self.pending_of(shard, &ids).await?;
        Ok(u64::try_from(pending.into_iter().filter(|is_pending| *is_pending).count()).unwrap_or(u64::MAX))
    }

    pub async fn outbox_counts(self: Arc<Self>) -> Result<OutboxCounts, Failure> {
        self.enter().await?;
        let mut counts = OutboxCounts::default();
        for at in self.keyspaces.iter().map(|shards| &self.shards[shards[0]]) {
            let size = |name: &str| Command::new("ZCARD").arg(at.keys.of(name));
            let replies = match at.read(&[size("outbox:due"), size("outbox:failed")]).await {
                Err(_) if at.server.gate.away().is_some() && self.keyspaces.len() > 1 => continue,
                replies => replies?,
            };
            counts.pending += count(&replies[0]);
            counts.failed += count(&replies[1]);
        }
        Ok(counts)
    }
}

/// How many ids of each priority are not pending any more.
fn stale(reply: &Reply) -> [u64; 10] {
    let mut stale = [0; 10];
    for pair in list(reply.clone()).chunks_exact(2) {
        let priority = usize::try_from(count(&pair[0])).unwrap_or(10);
        if let Some(stale) = stale.get_mut(priority) {
            *stale = count(&pair[1]);
        }
    }
    stale
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
    total.held += part.held;
    total.failed += part.failed;
    (total.lanes, total.limited) = (total.lanes + part.lanes, total.limited + part.limited);
    // Of several shards the last one is where the queue lives.
    total.policy = part.policy.clone().or_else(|| total.policy.take());
    total.is_paused |= part.is_paused;
    total.oldest_ready = [total.oldest_ready, part.oldest_ready].into_iter().flatten().min();
}

/// The original server wrote no results for dead letters.
pub fn unwritten(task: &Task) -> ResultRecord {
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
