//! Claiming: promote what is due, repair what has expired, lend what is ready, in one round trip per shard.

use super::connection::{Command, Reply};
use super::events::Told;
use super::known::Known;
use super::record;
use super::reply::{Answered, strings};
use super::script::{Call, Script};
use super::store::Keeper;
use super::sweep;
use codeq_queue::event::What;
use codeq_queue::store::{Abandon, Claim, Report, Wait};
use codeq_queue::{Commands, Event, Failure, Owner, QueueKey, Task, Time};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// Queues that one script looks at. A claim of any command compares the heads of so many.
const QUEUES_TOGETHER: usize = 256;
/// Queues whose timers act in the same round trip as a claim of any command; a sweep acts on the others.
const TIMERS_TOGETHER: usize = 32;

impl Keeper {
    pub async fn claim(self: Arc<Self>, claim: Claim) -> Result<Vec<Task>, Failure> {
        let now = self.enter().await?;
        let is_waiting = match claim.wait {
            Wait::No => false,
            Wait::Until(end) => end > now,
            Wait::Forever => true,
        };
        if !is_waiting {
            return self.claim_now(claim).await;
        }
        let answer = self.teller.claims.join(claim);
        answer.await.unwrap_or(Err(Failure::Closed))
    }

    pub async fn claim_now(&self, claim: Claim) -> Result<Vec<Task>, Failure> {
        if claim.count == 0 {
            return Ok(Vec::new());
        }
        match &claim.commands {
            Commands::Any => self.claim_any(&claim).await,
            Commands::These(commands) => {
                let queues: Vec<QueueKey> =
                    commands.iter().map(|command| QueueKey::new(&claim.tenant, command)).collect();
                self.claim_these(&claim, &queues).await
            }
        }
    }

    /// The first queue with work wins; each on its current shard first.
    async fn claim_these(&self, claim: &Claim, queues: &[QueueKey]) -> Result<Vec<Task>, Failure> {
        let mut places: Vec<(usize, &QueueKey)> = Vec::new();
        for queue in queues {
            places.extend(self.queue_shards(queue).into_iter().map(|shard| (shard, queue)));
        }
        let mut taken = Vec::new();
        for group in places.chunk_by(|a, b| a.0 == b.0) {
            for part in group.chunks(TIMERS_TOGETHER) {
                let queues: Vec<QueueKey> = part.iter().map(|(_, queue)| (*queue).clone()).collect();
                let left = claim.count - taken.len();
                taken.extend(self.claim_on(part[0].0, claim, "first", queues, left).await?);
                if taken.len() >= claim.count {
                    return Ok(taken);
                }
            }
        }
        Ok(taken)
    }

    async fn claim_any(&self, claim: &Claim) -> Result<Vec<Task>, Failure> {
        let mut taken = Vec::new();
        for shard in 0..self.shards.len() {
            let mut queues = self.queues_on(shard, Some(&claim.tenant)).await?;
            queues.sort();
            for part in queues.chunks(QUEUES_TOGETHER) {
                let left = claim.count - taken.len();
                if left > 0 {
                    taken.extend(self.claim_on(shard, claim, "any", part.to_vec(), left).await?);
                }
            }
        }
        Ok(taken)
    }

    /// The queues of a shard that may hold tasks.
    pub async fn queues_on(&self, shard: usize, tenant: Option<&str>) -> Result<Vec<QueueKey>, Failure> {
        let shard = &self.shards[shard];
        let members = shard.read_one(Command::new("SMEMBERS").arg(shard.keys.of("queues"))).await?;
        let queues = strings(members).into_iter().filter_map(|member| shard.keys.parse_queue(&member));
        Ok(queues.filter(|queue| tenant.is_none_or(|tenant| *queue.tenant == *tenant)).collect())
    }

    async fn claim_on(
        &self,
        at: usize,
        claim: &Claim,
        mode: &'static str,
        queues: Vec<QueueKey>,
        count: usize,
    ) -> Result<Vec<Task>, Failure> {
        let now = self.now.get();
        let timed: Vec<QueueKey> = queues.iter().take(TIMERS_TOGETHER).cloned().collect();
        let mut calls = Vec::with_capacity(timed.len() * 2 + 1);
        for queue in &timed {
            calls.extend(self.timer_calls(at, queue, now));
        }
        calls.push(self.claim_call(at, claim, mode, &queues, count, now));
        let settled = Lent { shard: at, timed, owner: claim.owner.clone(), now, keeper: self.me() };
        self.shards[at].writer.run(calls, move |replies| settled.settle(replies)).await
    }

    fn claim_call(
        &self,
        at: usize,
        claim: &Claim,
        mode: &str,
        queues: &[QueueKey],
        count: usize,
        now: Time,
    ) -> Call {
        let keys = &self.shards[at].keys;
        let mut names = keys.shared();
        names.extend(queues.iter().flat_map(|queue| keys.queue(queue)));
        let lease = claim.lease.max(Duration::from_millis(1));
        let until = now.plus(claim.lease);
        let call = Call::new(Script::Claim, names)
            .arg(mode)
            .number(queues.len())
            .number(count)
            .number(self.inspect_limit)
            .number(now.millis())
            .arg(now.to_utc())
            .number(lease.as_millis())
            .number(until.millis())
            .arg(record::lease_text(until))
            .arg(&*claim.owner.worker_id)
            .arg(&*claim.owner.subject)
            .arg(keys.lease_prefix())
            .arg(self.lease_clock());
        queues.iter().fold(call, |call, queue| call.arg(super::keys::queue_text(queue)))
    }

    async fn take_back(&self, claim: Claim, tasks: Vec<Task>) {
        let refund = |task: Task| Abandon {
            report: Report {
                tenant: claim.tenant.clone(),
                id: task.id,
                owner: claim.owner.clone(),
                attempt: Some(task.attempts),
            },
            refund: true,
        };
        let keeper = self.me();
        if let Err(failure) = keeper.abandon(tasks.into_iter().map(refund).collect()).await {
            tracing::warn!(err = %failure, "a task lent to someone who has gone waits for its lease to end");
        }
    }
}

/// What is needed to read the replies to a claim.
struct Lent {
    shard: usize,
    timed: Vec<QueueKey>,
    owner: Arc<Owner>,
    now: Time,
    keeper: Arc<Keeper>,
}

impl Lent {
    fn settle(self, replies: Vec<Reply>) -> Result<(Vec<Task>, Vec<Event>), Failure> {
        let (keeper, mut replies, mut events) = (&self.keeper, replies.into_iter(), Vec::new());
        for queue in &self.timed {
            let (promoted, repaired) = (replies.next(), replies.next());
            let timers = sweep::Timers { shard: self.shard, queue, now: self.now };
            timers.settle(
                keeper,
                promoted.unwrap_or(Reply::Nil),
                repaired.unwrap_or(Reply::Nil),
                &mut events,
            )?;
        }
        let mut answer = Answered::of(replies.next().unwrap_or(Reply::Nil))?;
        let mut tasks = Vec::new();
        for lent in answer.list() {
            let mut lent = super::reply::list(lent).into_iter();
            let text = super::reply::text(lent.next().unwrap_or(Reply::Nil));
            let ready_at = Time::from_millis(super::reply::int(&lent.next().unwrap_or(Reply::Nil)));
            let task = record::parse(&text).ok_or_else(super::create::damaged)?;
            let known = Arc::new(Known::of(&task, self.shard));
            keeper.notes.claimed(&known.queue, self.now);
            keeper.memory.remember(task.id, known);
            let what = What::Claimed { owner: self.owner.clone(), attempt: task.attempts, ready_at };
            events.push(Told::of(&task).event(self.now, what, false));
            tasks.push(task);
        }
        Ok((tasks, events))
    }
}

impl super::waiting::Counter for Keeper {
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Vec<Task>, Failure>> {
        Box::pin(async move {
            self.enter().await?;
            self.claim_now(claim).await
        })
    }

    fn take_back(&self, claim: Claim, tasks: Vec<Task>) -> BoxFuture<'_, ()> {
        Box::pin(self.take_back(claim, tasks))
    }

    fn now(&self) -> Time {
        self.now.get()
    }

    fn is_running(&self) -> bool {
        !self.is_stepped()
    }
}
