//! Claiming: one script per shard acts on what is due, and lends to as many as there are tasks for.

use crate::kvrocks::context::known::Known;
use crate::kvrocks::coordination::events::Told;
use crate::kvrocks::format::record;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::patience::ask_all;
use crate::kvrocks::redis::reply::{Answered, int, list, string, strings, text};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::redis::writer::Operation;
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::acted::Acted;
use crate::kvrocks::verbs::wishes::{Shares, Wishes};
use codeq_queue::event::What;
use codeq_queue::store::{Abandon, Claim, Report, Wait};
use codeq_queue::{Commands, Event, Failure, QueueKey, Task, Time};
use futures_util::future::{BoxFuture, join_all};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Queues that one script looks at. A claim of any command compares the heads of so many.
const QUEUES_TOGETHER: usize = 256;
/// Queues whose timers act in the same script as a claim; a sweep acts on the others.
const TIMERS_TOGETHER: usize = 32;
/// Claims that one script serves.
const CLAIMS_TOGETHER: usize = 128;
/// How often a claim goes on that has dropped as many stale ids as it may and found nothing behind them.
const DROPPING_ROUNDS: usize = 64;

/// Before a queue is looked at again that only time held back: the server's clock may be behind ours.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

const LATE: &str = "the server was away when this claim was to be served";

fn is_late(failure: &Failure) -> bool {
    matches!(failure, Failure::Unavailable { reason, .. } if reason == LATE)
}

impl StoreContext {
    pub async fn claim(self: Arc<Self>, claim: Claim) -> Result<Vec<Task>, Failure> {
        let now = self.enter().await?;
        let is_waiting = match claim.wait {
            Wait::No => false,
            Wait::Until(end) => end > now,
            Wait::Forever => true,
        };
        if !is_waiting {
            return Ok(self.claim_now(vec![claim]).await?.pop().unwrap_or_default());
        }
        let answer = self.teller.claims.join(claim);
        answer.await.unwrap_or(Err(Failure::Closed))
    }

    /// Serves claims that want the same, in their order.
    pub async fn claim_now(&self, mut claims: Vec<Claim>) -> Result<Shares, Failure> {
        let mut shares = Shares::new();
        while !claims.is_empty() {
            let rest = claims.split_off(claims.len().min(CLAIMS_TOGETHER));
            let part = self.claim_part(claims).await?;
            let is_dry = part.last().is_some_and(Vec::is_empty);
            shares.extend(part);
            claims = rest;
            if is_dry {
                break;
            }
        }
        shares.extend(claims.iter().map(|_| Vec::new()));
        Ok(shares)
    }

    async fn claim_part(&self, claims: Vec<Claim>) -> Result<Shares, Failure> {
        let Some(first) = claims.first() else { return Ok(Shares::new()) };
        let mut wishes = Wishes::of(&claims);
        match first.commands.clone() {
            Commands::Any => self.claim_any(&claims, &mut wishes).await,
            Commands::These(commands) => {
                let queues: Vec<QueueKey> =
                    commands.iter().map(|command| QueueKey::new(&first.tenant, command)).collect();
                self.claim_these(&claims, &queues, &mut wishes).await;
            }
        }
        wishes.granted()
    }

    /// The first queue with work wins; each on its current shard first.
    async fn claim_these(&self, claims: &[Claim], queues: &[QueueKey], wishes: &mut Wishes) {
        let mut places: Vec<(usize, QueueKey)> = Vec::new();
        for queue in queues {
            places.extend(self.queue_shards(queue).into_iter().map(|shard| (shard, queue.clone())));
        }
        for group in places.chunk_by(|a, b| self.keyspace_of(a.0) == self.keyspace_of(b.0)) {
            for part in group.chunks(TIMERS_TOGETHER) {
                if wishes.are_met() {
                    return;
                }
                let answer = self.claim_on("first", part, claims, wishes).await;
                wishes.take(answer);
            }
        }
    }

    async fn claim_any(&self, claims: &[Claim], wishes: &mut Wishes) {
        let tenant = Some(&*claims[0].tenant);
        let found = ask_all(self.keyspaces.iter().map(|shards| self.queues_in(shards, tenant))).await;
        for queues in found {
            let mut queues = match queues {
                Ok(queues) => queues,
                Err(failure) => {
                    wishes.take(Err(failure));
                    continue;
                }
            };
            queues.sort_by(|a, b| a.1.cmp(&b.1));
            wishes.answered();
            for part in queues.chunks(QUEUES_TOGETHER) {
                if !wishes.are_met() {
                    let answer = self.claim_on("any", part, claims, wishes).await;
                    wishes.take(answer);
                }
            }
        }
    }

    /// The queues of a keyspace that may hold tasks, with the shard of each.
    pub async fn queues_in(
        &self,
        shards: &[usize],
        tenant: Option<&str>,
    ) -> Result<Vec<(usize, QueueKey)>, Failure> {
        let at = &self.shards[shards[0]];
        let index = tenant.map_or_else(|| at.keys.of("queues"), |tenant| at.keys.queues_of(tenant));
        let names = strings(at.read_one(Command::new("SMEMBERS").arg(index)).await?);
        let mut queues = self.placed_queues(shards, names);
        queues.retain(|(_, queue)| tenant.is_none_or(|tenant| *queue.tenant == *tenant));
        Ok(queues)
    }

    /// The queues of every shard that may hold tasks.
    pub async fn all_queues(&self, tenant: Option<&str>) -> Result<Vec<(usize, Vec<QueueKey>)>, Failure> {
        let mut by_shard: BTreeMap<usize, Vec<QueueKey>> = BTreeMap::new();
        let mut failure = None;
        let found = join_all(self.keyspaces.iter().map(|shards| self.queues_in(shards, tenant))).await;
        for (shards, queues) in self.keyspaces.iter().zip(found) {
            match queues {
                Ok(queues) => queues
                    .into_iter()
                    .for_each(|(shard, queue)| by_shard.entry(shard).or_default().push(queue)),
                // A server that is away is passed over, as long as another one answers.
                Err(away) if self.shards[shards[0]].server.gate.away().is_some() => failure = Some(away),
                Err(other) => return Err(other),
            }
        }
        let is_any_up =
            self.keyspaces.iter().any(|shards| self.shards[shards[0]].server.gate.away().is_none());
        match failure {
            Some(failure) if !is_any_up => Err(failure),
            _ => Ok(by_shard.into_iter().collect()),
        }
    }

    /// The queues of a shard that may hold tasks.
    pub async fn queues_on(&self, shard: usize, tenant: Option<&str>) -> Result<Vec<QueueKey>, Failure> {
        let shard = &self.shards[shard];
        let index = tenant.map_or_else(|| shard.keys.of("queues"), |tenant| shard.keys.queues_of(tenant));
        let members = shard.read_one(Command::new("SMEMBERS").arg(index)).await?;
        let queues = strings(members).into_iter().filter_map(|member| shard.keys.parse_queue(&member));
        Ok(queues.filter(|queue| tenant.is_none_or(|tenant| *queue.tenant == *tenant)).collect())
    }

    /// Goes on while a round has only dropped stale ids.
    async fn claim_on(
        &self,
        mode: &'static str,
        queues: &[(usize, QueueKey)],
        claims: &[Claim],
        wishes: &Wishes,
    ) -> Result<Shares, Failure> {
        let at = queues[0].0;
        let mut lent = Lent { shares: Shares::new(), is_cut: true };
        let (begun, mut has_measured) = (Instant::now(), false);
        for _ in 0..DROPPING_ROUNDS {
            if !lent.is_cut || lent.shares.iter().any(|share| !share.is_empty()) {
                break;
            }
            let now = self.now.get();
            let call = self.claim_call(at, mode, queues, claims, wishes, now);
            let names: Arc<[QueueKey]> = queues.iter().map(|(_, queue)| queue.clone()).collect();
            let lending = || Lending {
                shard: at,
                queues: names.clone(),
                claims: claims.to_vec(),
                now,
                keeper: self.me(),
            };
            let (settled, unconfirmed) = (lending(), lending());
            let (operation, answer) = Operation::new(vec![call], move |replies| settled.settle(replies));
            let operation = operation.or_undo(move |replies| unconfirmed.undo(replies));
            self.shards[at].writer.hand_over(vec![operation]).await?;
            lent = match answer.await.unwrap_or(Err(Failure::Closed)) {
                // Maybe the server's clock was set: then it is asked for the time, and once more.
                Err(late) if is_late(&late) && !has_measured && begun.elapsed() < self.timeout => {
                    has_measured = true;
                    self.shards[at].server.measure(self.now.clock().as_ref()).await;
                    continue;
                }
                answer => answer?,
            };
        }
        Ok(lent.shares)
    }

    fn claim_call(
        &self,
        at: usize,
        mode: &str,
        queues: &[(usize, QueueKey)],
        claims: &[Claim],
        wishes: &Wishes,
        now: Time,
    ) -> Call {
        let keys = &self.shards[at].keys;
        let mut names = vec![keys.of("tasks")];
        names.extend(queues.iter().map(|(shard, queue)| self.shards[*shard].keys.base(queue)));
        let latest = self.shards[at].latest(self.now.clock().now(), self.timeout).map(|ms| ms.to_string());
        let call = self
            .due_args(Call::new(Script::Claim, names), now)
            .arg(mode)
            .number(queues.len())
            .number(queues.len().min(TIMERS_TOGETHER))
            .number(self.inspect_limit)
            .arg(latest.unwrap_or_default());
        let call = queues
            .iter()
            .fold(call, |call, (_, queue)| call.arg(crate::kvrocks::format::keys::queue_text(queue)));
        claims.iter().zip(wishes.left()).fold(call, |call, (claim, count)| {
            let until = now.plus(claim.lease);
            call.number(count)
                .number(claim.lease.max(Duration::from_millis(1)).as_millis())
                .number(until.millis())
                .arg(record::lease_text(until))
                .arg(&*claim.owner.worker_id)
                .arg(&*claim.owner.subject)
                .arg(if claim.is_default_lease { "1" } else { "" })
        })
    }

    async fn take_back(&self, claim: Claim, tasks: Vec<Task>) {
        let refund = |task: Task| {
            let (tenant, owner) = (claim.tenant.clone(), claim.owner.clone());
            let lent_at = task.state.lease()?.claimed_at;
            let report = Report { tenant, id: task.id, owner, attempt: Some(task.attempts) };
            Some((Abandon::new(report, true), lent_at))
        };
        let lent: Vec<(Abandon, Time)> = tasks.into_iter().filter_map(refund).collect();
        if let Err(failure) = self.me().give_back(lent).await {
            tracing::warn!(err = %failure, "a task lent to someone who has gone waits for its lease to end");
        }
    }
}

/// What a script has lent.
struct Lent {
    shares: Shares,
    /// It stopped because it had dropped as many stale ids as it may.
    is_cut: bool,
}

/// What is needed to read the reply to a claim.
struct Lending {
    shard: usize,
    queues: Arc<[QueueKey]>,
    claims: Vec<Claim>,
    now: Time,
    keeper: Arc<StoreContext>,
}

impl Lending {
    /// Gives back what was lent in a group that no replica has.
    fn undo(self, replies: Vec<Reply>) {
        let (keeper, claims) = (self.keeper.clone(), self.claims.clone());
        let Ok((lent, _)) = self.settle(replies) else { return };
        tokio::spawn(async move {
            for (claim, tasks) in claims.into_iter().zip(lent.shares) {
                if !tasks.is_empty() {
                    keeper.take_back(claim, tasks).await;
                }
            }
        });
    }

    fn settle(self, replies: Vec<Reply>) -> Result<(Lent, Vec<Event>), Failure> {
        let mut answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
        if answer.word == "LATE" {
            return Err(Failure::unavailable(LATE));
        }
        let mut events = Vec::new();
        for acted in answer.list() {
            let acted = Acted::parse(acted);
            acted.settle(&self.keeper, self.now, &mut events);
        }
        let mut shares = Shares::with_capacity(self.claims.len());
        for (claim, share) in self.claims.iter().zip(answer.list()) {
            let tasks = list(share).into_iter().map(|task| self.lent(claim, task, &mut events));
            shares.push(tasks.collect::<Result<_, _>>()?);
        }
        let is_cut = answer.int() == 1;
        self.plan(answer.list());
        if answer.has_freed {
            self.queues.iter().take(TIMERS_TOGETHER).for_each(|queue| self.keeper.teller.freed(queue));
        }
        Ok((Lent { shares, is_cut }, events))
    }

    /// Has those who wait look again when a rate or a hold lets something start.
    fn plan(&self, waits: Vec<Reply>) {
        for pair in waits.chunks_exact(2) {
            let place = usize::try_from(int(&pair[0]) - 1).ok();
            if let Some(queue) = place.and_then(|place| self.queues.get(place)) {
                let opens_at = Time::from_millis(int(&pair[1]));
                self.keeper.teller.claims.plan(queue, opens_at.max(self.now.plus(LOOK_PAUSE)));
            }
        }
    }

    fn lent(&self, claim: &Claim, reply: Reply, events: &mut Vec<Event>) -> Result<Task, Failure> {
        let mut parts = list(reply).into_iter();
        let record = text(parts.next().unwrap_or(Reply::Nil));
        let ready_at = Time::from_millis(int(&parts.next().unwrap_or(Reply::Nil)));
        let checkpoint = string(parts.next().unwrap_or(Reply::Nil));
        let placed = record::parse_placed(&record).ok_or_else(crate::kvrocks::verbs::create::damaged)?;
        let shard = self.keeper.shard_named(self.shard, &placed.shard);
        let checkpoint = (!checkpoint.is_empty()).then(|| checkpoint.into());
        let task = Task { checkpoint, ..placed.task };
        let known = Arc::new(Known::of(&task, shard));
        self.keeper.notes.claimed(&known.queue, self.now);
        self.keeper.memory.remember(task.id, known);
        let what = What::Claimed { owner: claim.owner.clone(), attempt: task.attempts, ready_at };
        events.push(Told::of(&task).event(self.now, what, false));
        Ok(task)
    }
}

impl crate::kvrocks::coordination::waiting::ClaimSource for StoreContext {
    fn claim(&self, claims: Vec<Claim>) -> BoxFuture<'_, Result<Shares, Failure>> {
        Box::pin(async move {
            self.enter().await?;
            self.claim_now(claims).await
        })
    }

    fn glance(&self, queues: Vec<QueueKey>) -> BoxFuture<'_, Vec<QueueKey>> {
        Box::pin(self.glance(queues))
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
