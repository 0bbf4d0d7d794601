//! Batches over the shards, and tasks that wait for others or belong to a batch.
//!
//! A batch lives on the shard of its id. Before a task is stored it is looked up how everything stands that it names,
//! and the shard of its queue is registered with the home of its batch. Both may change until the task is there: the
//! owner then looks at the batch again, and a held task asks for what it waits for.

use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::Lane;
use crate::local::format::records::idem_key;
use crate::local::shard::{Joining, KeyedTask, Reply, Turn};
use crate::local::store::LocalStore;
use crate::local::store::by_id::ask_by_id;
use crate::local::store::lookups::create_on;
use crate::local::store::routes::{Shards, scatter};
use codeq_queue::batch::{Batch, Batches, Counts, NewBatch};
use codeq_queue::store::{Answer, Created, Items, TaskRef};
use codeq_queue::{Failure, NewTask, QueueKey, Refusal, Standing, TaskId};
use std::collections::HashMap;
use std::sync::Arc;

fn queue_shard(task: &NewTask, shards: u32) -> u32 {
    QueueKey::new(&task.body.tenant, &task.body.command).shard(shards)
}

fn keyed(task: NewTask, open: Result<Box<[TaskId]>, Refusal>) -> KeyedTask {
    let key = task.body.idempotency_key.as_deref().map(|key| {
        let queue = QueueKey::new(&task.body.tenant, &task.body.command);
        idem_key(&queue, key)
    });
    KeyedTask { task, key, prior: None, open }
}

/// Creates tasks on the shards of their queues.
pub fn create(shards: &Shards, tasks: Vec<NewTask>) -> Answer<Items<Created>> {
    let is_linked = |task: &NewTask| task.body.batch().is_some() || !task.body.after().is_empty();
    if !tasks.iter().any(is_linked) {
        return create_keyed(shards, tasks.into_iter().map(|task| keyed(task, Ok(Box::default()))).collect());
    }
    let shards = shards.clone();
    Box::pin(async move {
        let joins = join_all(&shards, &tasks).await?;
        let standings = standings(&shards, &tasks).await?;
        let linked = tasks.into_iter().zip(joins).map(|(task, joined)| {
            let open = joined.and_then(|()| open(&task, &standings));
            keyed(task, open)
        });
        create_keyed(&shards, linked.collect()).await
    })
}

fn create_keyed(shards: &Shards, tasks: Vec<KeyedTask>) -> Answer<Items<Created>> {
    let count = shards.len() as u32;
    let ask = |shard: Arc<ShardHandle>, share: Vec<KeyedTask>| -> Answer<Items<Created>> {
        Box::pin(create_on(shard, share))
    };
    scatter(shards, tasks, move |keyed: &KeyedTask| queue_shard(&keyed.task, count), ask)
}

type Standings = HashMap<(Arc<str>, TaskId), Standing>;

/// How everything stands that these tasks name; what is nowhere is left out.
async fn standings(shards: &Shards, tasks: &[NewTask]) -> Result<Standings, Failure> {
    let mut named: Vec<TaskRef> = Vec::new();
    for task in tasks {
        let tenant = &task.body.tenant;
        named.extend(task.body.after().iter().map(|id| TaskRef { tenant: tenant.clone(), id: *id }));
    }
    named.sort_by(|a, b| (&a.tenant, a.id).cmp(&(&b.tenant, b.id)));
    named.dedup();
    if named.is_empty() {
        return Ok(Standings::new());
    }
    let ask = |shard: Arc<ShardHandle>, share: Vec<TaskRef>| -> Answer<Vec<Option<Standing>>> {
        Box::pin(async move { shard.ask(Lane::Read, move |turn, reply| turn.standings(&share, reply)).await })
    };
    let found = ask_by_id(shards, named.clone(), ask).await?;
    let known = named.into_iter().zip(found);
    Ok(known.filter_map(|(named, standing)| Some(((named.tenant, named.id), standing?))).collect())
}

/// What a new task has to wait for.
fn open(task: &NewTask, standings: &Standings) -> Result<Box<[TaskId]>, Refusal> {
    let body = &task.body;
    let on_failure = body.options.as_ref().map(|options| options.on_failure).unwrap_or_default();
    let mut open = Vec::new();
    for id in body.after() {
        match standings.get(&(body.tenant.clone(), *id)) {
            None => return Err(Refusal::UnknownDependency(id.to_string().into())),
            Some(standing) if standing.holds(on_failure) => open.push(*id),
            Some(_) => {}
        }
    }
    Ok(open.into())
}

/// Whether each task may join its batch, as far as can be known now.
async fn join_all(shards: &Shards, tasks: &[NewTask]) -> Result<Vec<Result<(), Refusal>>, Failure> {
    let mut known: HashMap<(Arc<str>, TaskId, u32), Result<(), Refusal>> = HashMap::new();
    let mut joins = Vec::with_capacity(tasks.len());
    for task in tasks {
        let Some(batch) = task.body.batch() else {
            joins.push(Ok(()));
            continue;
        };
        let place = (task.body.tenant.clone(), batch, queue_shard(task, shards.len() as u32));
        let joined = match known.get(&place) {
            Some(joined) => joined.clone(),
            None => join(shards, &place.0, batch, place.2).await?,
        };
        known.insert(place, joined.clone());
        joins.push(joined);
    }
    Ok(joins)
}

fn home_of(shards: &Shards, id: &TaskId) -> Arc<ShardHandle> {
    shards[id.shard(shards.len() as u32) as usize].clone()
}

/// Registers a shard with the home of a batch, unless that has been done.
async fn join(
    shards: &Shards,
    tenant: &Arc<str>,
    id: TaskId,
    index: u32,
) -> Result<Result<(), Refusal>, Failure> {
    let shard = &shards[index as usize];
    let asking = tenant.clone();
    let joining = shard.ask(Lane::Other, move |turn, reply| turn.joining(&asking, id, reply)).await?;
    let number = match joining {
        Joining::Open => return Ok(Ok(())),
        Joining::Closed => return Ok(Err(Refusal::BatchClosed)),
        Joining::Unregistered { number } => number,
    };
    let asking = tenant.clone();
    let register = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.register(&asking, &id, index, reply);
    let registered = home_of(shards, &id).ask(Lane::Other, register).await?;
    if registered.is_err() {
        shard.tell(Lane::Other, move |turn| turn.refuse_share(&id, number)).await?;
        return Ok(registered);
    }
    let asking = tenant.clone();
    let open = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.open_share(&asking, id, number, reply);
    shard.ask(Lane::Other, open).await?;
    Ok(Ok(()))
}

/// A batch with the counts that its shards have now.
async fn refreshed(shards: &Shards, batch: Batch) -> Result<Option<Batch>, Failure> {
    if batch.end.is_some() || batch.shares.is_empty() {
        return Ok(Some(batch));
    }
    let id = batch.id;
    let mut counts: Vec<(u32, Counts)> = Vec::new();
    for index in batch.shares.keys() {
        let shard = &shards[*index as usize];
        let found = shard.ask(Lane::Read, move |turn, reply| turn.share_counts(&id, reply)).await?;
        counts.extend(found.map(|found| (*index, found)));
    }
    // While nothing can be written the home does not take the counts in; they are told all the same.
    match gather(shards, &batch, counts.clone()).await {
        Err(Failure::Unavailable { .. }) => {
            let mut batch = batch;
            for (index, counts) in counts {
                batch.hear(index, counts);
            }
            Ok(Some(batch))
        }
        gathered => gathered.map(Result::ok),
    }
}

async fn gather(
    shards: &Shards,
    batch: &Batch,
    counts: Vec<(u32, Counts)>,
) -> Result<Result<Batch, Refusal>, Failure> {
    let (tenant, id) = (batch.tenant.clone(), batch.id);
    let gather = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.gather(&tenant, &id, counts, reply);
    home_of(shards, &id).ask(Lane::Other, gather).await
}

/// Closes a batch everywhere before it answers.
async fn close(
    shards: &Shards,
    tenant: Arc<str>,
    id: TaskId,
    cancels: bool,
) -> Result<Result<Batch, Refusal>, Failure> {
    let asking = tenant.clone();
    let close = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.close_batch(&asking, &id, cancels, reply);
    let batch = match home_of(shards, &id).ask(Lane::Other, close).await? {
        Ok(batch) if batch.end.is_none() => batch,
        answer => return Ok(answer),
    };
    let mut counts = Vec::new();
    for index in batch.shares.keys() {
        let (tenant, cancels) = (tenant.clone(), batch.is_cancelled);
        let close = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.close_share(id, &tenant, cancels, reply);
        counts.push((*index, shards[*index as usize].ask(Lane::Other, close).await?));
    }
    gather(shards, &batch, counts).await
}

impl Batches for LocalStore {
    fn create_batch(&self, new: NewBatch) -> Answer<Result<Batch, Refusal>> {
        let id = TaskId::from_bits(rand::random());
        let home = home_of(self.shards(), &id);
        Box::pin(async move {
            home.room(Lane::Create).await;
            home.ask(Lane::Other, move |turn, reply| turn.create_batch(id, new, reply)).await
        })
    }

    fn batch(&self, tenant: Arc<str>, id: TaskId) -> Answer<Option<Batch>> {
        let shards = self.shards().clone();
        Box::pin(async move {
            let find = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.batch(&tenant, &id, reply);
            match home_of(&shards, &id).ask(Lane::Read, find).await? {
                Some(batch) => refreshed(&shards, batch).await,
                None => Ok(None),
            }
        })
    }

    fn close_batch(&self, tenant: Arc<str>, id: TaskId) -> Answer<Result<Batch, Refusal>> {
        let shards = self.shards().clone();
        Box::pin(async move { close(&shards, tenant, id, false).await })
    }

    fn cancel_batch(&self, tenant: Arc<str>, id: TaskId) -> Answer<Result<Batch, Refusal>> {
        let shards = self.shards().clone();
        Box::pin(async move { close(&shards, tenant, id, true).await })
    }
}
