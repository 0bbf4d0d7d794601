//! Spreading a call over shards and putting the answers together again.

use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::Lane;
use crate::local::shard::Ticket;
use codeq_queue::queue::is_better;
use codeq_queue::store::{Answer, Claim, Wait};
use codeq_queue::{Commands, Failure, QueueKey, Task, Time};
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

pub type Shards = Arc<[Arc<ShardHandle>]>;

/// Asks every shard about its share of the items; the answers come back in the order of the items.
pub fn scatter<I, T>(
    shards: &Shards,
    items: Vec<I>,
    shard_of: impl Fn(&I) -> u32,
    ask: impl Fn(Arc<ShardHandle>, Vec<I>) -> Answer<Vec<T>> + Send + 'static,
) -> Answer<Vec<T>>
where
    I: Send + 'static,
    T: Send + 'static,
{
    if shards.len() == 1 {
        return ask(shards[0].clone(), items);
    }
    let count = items.len();
    let mut shares: Vec<(Vec<usize>, Vec<I>)> = shards.iter().map(|_| Default::default()).collect();
    for (index, item) in items.into_iter().enumerate() {
        let (indexes, share) = &mut shares[shard_of(&item) as usize];
        indexes.push(index);
        share.push(item);
    }
    let asked: Vec<(Vec<usize>, Answer<Vec<T>>)> = shares
        .into_iter()
        .zip(shards.iter())
        .filter(|((indexes, _), _)| !indexes.is_empty())
        .map(|((indexes, share), shard)| (indexes, ask(shard.clone(), share)))
        .collect();
    Box::pin(async move {
        let mut answers: Vec<Option<T>> = (0..count).map(|_| None).collect();
        for (indexes, answer) in together(asked).await? {
            for (index, item) in indexes.into_iter().zip(answer) {
                answers[index] = Some(item);
            }
        }
        Ok(answers.into_iter().map(|answer| answer.expect("every item was asked for")).collect())
    })
}

enum Asked<T> {
    Pending(Answer<T>),
    Done(Result<T, Failure>),
}

/// Drives all answers at once, so that shards work at the same time.
async fn together<K, T>(asked: Vec<(K, Answer<T>)>) -> Result<Vec<(K, T)>, Failure> {
    let mut asked: Vec<(K, Asked<T>)> =
        asked.into_iter().map(|(key, answer)| (key, Asked::Pending(answer))).collect();
    std::future::poll_fn(|context| {
        let mut polled = Poll::Ready(());
        for (_, asked) in &mut asked {
            if let Asked::Pending(answer) = asked {
                match answer.as_mut().poll(context) {
                    Poll::Ready(done) => *asked = Asked::Done(done),
                    Poll::Pending => polled = Poll::Pending,
                }
            }
        }
        polled
    })
    .await;
    let done = asked.into_iter().map(|(key, asked)| match asked {
        Asked::Done(done) => Ok((key, done?)),
        Asked::Pending(_) => unreachable!("polled until all were done"),
    });
    done.collect()
}

pub async fn each_shard<T: Send + 'static>(
    shards: &Shards,
    ask: impl Fn(Arc<ShardHandle>) -> Answer<T>,
) -> Result<Vec<T>, Failure> {
    let asked = shards.iter().map(|shard| ((), ask(shard.clone()))).collect();
    Ok(together(asked).await?.into_iter().map(|(_, answer)| answer).collect())
}

/// Commands of a claim, cut where the shard changes.
fn stretches(shards: &Shards, claim: &Claim) -> Vec<(usize, Commands)> {
    let Commands::These(commands) = &claim.commands else { return Vec::new() };
    let mut stretches: Vec<(usize, Vec<Arc<str>>)> = Vec::new();
    for command in commands.iter() {
        let key = QueueKey { tenant: claim.tenant.clone(), command: command.clone() };
        let shard = key.shard(shards.len() as u32) as usize;
        match stretches.last_mut() {
            Some((last, share)) if *last == shard => share.push(command.clone()),
            _ => stretches.push((shard, vec![command.clone()])),
        }
    }
    stretches.into_iter().map(|(shard, commands)| (shard, Commands::These(commands.into()))).collect()
}

/// Tasks taken for a claim whose caller may go away at any moment: unless they are kept, they go back.
struct Taken<'a> {
    tasks: Vec<Task>,
    shards: &'a Shards,
}

impl<'a> Taken<'a> {
    fn nothing(shards: &'a Shards) -> Taken<'a> {
        Taken { tasks: Vec::new(), shards }
    }

    fn keep(mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    async fn receive(
        &mut self,
        answer: oneshot::Receiver<Result<Vec<Task>, Failure>>,
    ) -> Option<Result<(), Failure>> {
        let mut landing = PendingAnswer { answer, taken: self };
        let received = (&mut landing.answer).await.ok()?;
        Some(received.map(|tasks| landing.taken.tasks.extend(tasks)))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        for task in self.tasks.drain(..) {
            let queue = QueueKey::new(&task.body.tenant, &task.body.command);
            let shard = &self.shards[queue.shard(self.shards.len() as u32) as usize];
            shard.links.inbox.post(move |turn| turn.take_back(vec![task]));
        }
    }
}

/// An answer on its way. Dropped after it was sent and before it was read, its tasks are still taken.
struct PendingAnswer<'a, 'b> {
    answer: oneshot::Receiver<Result<Vec<Task>, Failure>>,
    taken: &'a mut Taken<'b>,
}

impl Drop for PendingAnswer<'_, '_> {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(unread)) = self.answer.try_recv() {
            self.taken.tasks.extend(unread);
        }
    }
}

async fn claim_on(
    taken: &mut Taken<'_>,
    shard: usize,
    claim: Claim,
    rival: Option<(u8, Time)>,
) -> Result<(), Failure> {
    let shard = &taken.shards[shard];
    shard.room(Lane::Other).await;
    let (reply, answer) = oneshot::channel();
    shard.tell(Lane::Other, move |turn| turn.claim(&claim, rival, reply)).await?;
    taken.receive(answer).await.unwrap_or_else(|| Err(shard.failure()))
}

/// One try over all shards, in the order of the rules.
pub async fn claim_now(shards: &Shards, claim: Claim) -> Result<Vec<Task>, Failure> {
    let mut taken = Taken::nothing(shards);
    if shards.len() == 1 {
        claim_on(&mut taken, 0, claim, None).await?;
        return Ok(taken.keep());
    }
    match &claim.commands {
        Commands::Any => claim_any(&mut taken, claim).await?,
        Commands::These(_) => {
            for (shard, commands) in stretches(shards, &claim) {
                let count = claim.count - taken.tasks.len();
                if count == 0 {
                    break;
                }
                claim_on(&mut taken, shard, Claim { commands, count, ..claim.clone() }, None).await?;
            }
        }
    }
    Ok(taken.keep())
}

/// Takes from the shard with the best head until another has a better one.
async fn claim_any(taken: &mut Taken<'_>, claim: Claim) -> Result<(), Failure> {
    while taken.tasks.len() < claim.count {
        let tenant = &claim.tenant;
        let heads = each_shard(taken.shards, |shard| {
            let tenant = tenant.clone();
            Box::pin(
                async move { shard.ask(Lane::Other, move |turn, reply| turn.peek(&tenant, reply)).await },
            )
        });
        let mut heads: Vec<(usize, (u8, Time))> =
            heads.await?.into_iter().enumerate().filter_map(|(index, head)| Some((index, head?))).collect();
        heads.sort_by(|a, b| (u8::MAX - a.1.0, a.1.1).cmp(&(u8::MAX - b.1.0, b.1.1)));
        let Some((best, _)) = heads.first() else { break };
        let rival = heads.get(1).map(|(_, head)| *head);
        debug_assert!(rival.is_none_or(|rival| !is_better(rival, heads[0].1)));
        let count = claim.count - taken.tasks.len();
        // Nothing: someone was faster. Look again.
        claim_on(taken, *best, Claim { count, ..claim.clone() }, rival).await?;
    }
    Ok(())
}

/// Parks a claim on every shard that may feed it.
pub async fn claim_waiting(shards: &Shards, claim: Claim, token: u64) -> Result<Vec<Task>, Failure> {
    let (reply, answer) = oneshot::channel();
    let ticket = Arc::new(Ticket::new(reply));
    let parked: Vec<(usize, Commands)> = match &claim.commands {
        _ if shards.len() == 1 => vec![(0, claim.commands.clone())],
        Commands::Any => (0..shards.len()).map(|index| (index, Commands::Any)).collect(),
        Commands::These(_) => merge(stretches(shards, &claim)),
    };
    let _guard = StopWaiting { shards: shards.clone(), token };
    for (index, commands) in parked {
        let (claim, ticket) = (Claim { commands, ..claim.clone() }, ticket.clone());
        shards[index].room(Lane::Other).await;
        let seat = shards[index].links.inbox.seat(Lane::Other).await;
        seat.as_ref().ok_or_else(|| shards[index].failure())?;
        shards[index].links.inbox.post(move |turn| {
            turn.claim_waiting(claim, token, ticket);
            drop(seat);
        });
    }
    drop(ticket);
    let mut taken = Taken::nothing(shards);
    taken.receive(answer).await.unwrap_or_else(|| Err(shards[0].failure()))?;
    Ok(taken.keep())
}

/// One entry a shard: a claim is parked once on each.
fn merge(stretches: Vec<(usize, Commands)>) -> Vec<(usize, Commands)> {
    let mut merged: Vec<(usize, Vec<Arc<str>>)> = Vec::new();
    for (shard, commands) in stretches {
        let Commands::These(commands) = commands else { continue };
        match merged.iter_mut().find(|(known, _)| *known == shard) {
            Some((_, share)) => share.extend(commands.iter().cloned()),
            None => merged.push((shard, commands.to_vec())),
        }
    }
    merged.into_iter().map(|(shard, commands)| (shard, Commands::These(commands.into()))).collect()
}

/// Takes a held call back when its caller has gone or has been served elsewhere.
pub struct StopWaiting {
    pub shards: Shards,
    pub token: u64,
}

impl Drop for StopWaiting {
    fn drop(&mut self) {
        let token = self.token;
        for shard in self.shards.iter() {
            shard.links.inbox.post(move |turn| turn.stop_waiting(token));
        }
    }
}

pub fn is_waiting(wait: Wait) -> bool {
    wait != Wait::No
}
