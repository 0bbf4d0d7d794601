//! Calls that name tasks by id.
//!
//! An id hashes to the shard of its queue, unless the task came from elsewhere: then it may be a stray on any other.
//! Whatever its own shard does not have is looked for on the others, in a store that has strays.

use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::Lane;
use crate::local::store::lookups::import_on;
use crate::local::store::routes::{Shards, each_shard, scatter};
use codeq_queue::store::{
    Abandon, Answer, Cancel, Heartbeat, Import, Items, Nack, ResultLookup, Submit, TaskRef,
};
use codeq_queue::{Failure, QueueKey, Refusal, TaskId};
use std::collections::HashSet;
use std::sync::Arc;

/// What names a task.
pub trait ById: Clone + Send + 'static {
    fn tenant(&self) -> &Arc<str>;
    fn id(&self) -> &TaskId;

    fn task(&self) -> TaskRef {
        TaskRef { tenant: self.tenant().clone(), id: *self.id() }
    }
}

impl ById for TaskRef {
    fn tenant(&self) -> &Arc<str> {
        &self.tenant
    }

    fn id(&self) -> &TaskId {
        &self.id
    }
}

impl ById for Cancel {
    fn tenant(&self) -> &Arc<str> {
        &self.task.tenant
    }

    fn id(&self) -> &TaskId {
        &self.task.id
    }
}

macro_rules! by_report {
    ($($report:ty),*) => {$(
        impl ById for $report {
            fn tenant(&self) -> &Arc<str> {
                &self.report.tenant
            }

            fn id(&self) -> &TaskId {
                &self.report.id
            }
        }
    )*};
}

by_report!(Heartbeat, Nack, Abandon, Submit);

/// What a shard answers about a task.
pub trait FoundAnswer: Send + 'static {
    /// The shard does not have it, as far as this answer tells.
    fn is_missing(&self) -> bool;
}

impl<T: Send + 'static> FoundAnswer for Option<T> {
    fn is_missing(&self) -> bool {
        self.is_none()
    }
}

impl<T: Send + 'static> FoundAnswer for Result<T, Refusal> {
    fn is_missing(&self) -> bool {
        matches!(self, Err(Refusal::NotFound))
    }
}

impl FoundAnswer for ResultLookup {
    fn is_missing(&self) -> bool {
        *self == ResultLookup::NotFound
    }
}

fn has_strays(shards: &Shards) -> bool {
    shards.len() > 1 && shards.iter().any(|shard| shard.links.library.imports.has_strays())
}

/// Asks about every item the shard that has its task.
pub fn ask_by_id<I: ById, T: FoundAnswer>(
    shards: &Shards,
    items: Vec<I>,
    ask: impl Fn(Arc<ShardHandle>, Vec<I>) -> Answer<Vec<T>> + Clone + Send + Sync + 'static,
) -> Answer<Vec<T>> {
    let count = shards.len() as u32;
    let copies = has_strays(shards).then(|| items.clone());
    let answers = scatter(shards, items, move |item: &I| item.id().shard(count), ask.clone());
    let Some(copies) = copies else { return answers };
    let shards = shards.clone();
    Box::pin(async move {
        let mut answers = answers.await?;
        let missing = copies.into_iter().enumerate().filter(|(index, _)| answers[*index].is_missing());
        let missing: Vec<(usize, I)> = missing.collect();
        let homes = homes(&shards, missing.iter().map(|(_, item)| item.task()).collect()).await?;
        let strays = missing.into_iter().zip(homes).filter_map(|(item, home)| Some((item, home?)));
        let (indexes, strays): (Vec<usize>, Vec<(u32, I)>) =
            strays.map(|((index, item), home)| (index, (home, item))).unzip();
        if strays.is_empty() {
            return Ok(answers);
        }
        let ask_home =
            move |shard, share: Vec<(u32, I)>| ask(shard, share.into_iter().map(|(_, item)| item).collect());
        let found = scatter(&shards, strays, |(home, _)| *home, ask_home).await?;
        for (index, answer) in indexes.into_iter().zip(found) {
            answers[index] = answer;
        }
        Ok(answers)
    })
}

/// The same about one task.
pub fn ask_about<T: FoundAnswer>(
    shards: &Shards,
    task: TaskRef,
    ask: impl Fn(Arc<ShardHandle>, TaskRef) -> Answer<T> + Send + Sync + 'static,
) -> Answer<T> {
    let own = shards[task.id.shard(shards.len() as u32) as usize].clone();
    if !has_strays(shards) {
        return ask(own, task);
    }
    let shards = shards.clone();
    Box::pin(async move {
        let answer = ask(own, task.clone()).await?;
        if !answer.is_missing() {
            return Ok(answer);
        }
        match homes(&shards, vec![task.clone()]).await?.into_iter().next().flatten() {
            Some(home) => ask(shards[home as usize].clone(), task).await,
            None => Ok(answer),
        }
    })
}

/// Which shards have these tasks.
async fn homes(shards: &Shards, tasks: Vec<TaskRef>) -> Result<Vec<Option<u32>>, Failure> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let count = tasks.len();
    let ask = |shard: Arc<ShardHandle>| -> Answer<Vec<bool>> {
        let tasks = tasks.clone();
        Box::pin(async move { shard.ask(Lane::Read, move |turn, reply| turn.holds(tasks, reply)).await })
    };
    let mut homes = vec![None; count];
    for (shard, held) in (0..).zip(each_shard(shards, ask).await?) {
        for (home, is_held) in homes.iter_mut().zip(held) {
            if is_held {
                *home = Some(shard);
            }
        }
    }
    Ok(homes)
}

/// Takes in tasks from elsewhere, each on the shard of its queue. The caller sees to it that nobody else does so
/// meanwhile: a shard does not know what ids the others have.
pub async fn import_all(shards: &Shards, imports: Vec<Import>) -> Result<Items<bool>, Failure> {
    if shards.len() == 1 {
        return import_on(shards[0].clone(), imports).await;
    }
    let mut answers: Vec<Option<Result<bool, Refusal>>> = imports.iter().map(|_| None).collect();
    let mut rest: Vec<(usize, Import)> = imports.into_iter().enumerate().collect();
    while !rest.is_empty() {
        // An id that comes twice is asked for when its first task is there.
        let mut names = HashSet::new();
        let name = |import: &Import| (import.task.body.tenant.clone(), import.task.id);
        let (round, later): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|(_, import)| names.insert(name(import)));
        rest = later;
        for (index, answer) in import_round(shards, round).await? {
            answers[index] = Some(answer);
        }
    }
    Ok(answers.into_iter().map(|answer| answer.expect("every import was asked for")).collect())
}

async fn import_round(
    shards: &Shards,
    round: Vec<(usize, Import)>,
) -> Result<Vec<(usize, Result<bool, Refusal>)>, Failure> {
    let named = round
        .iter()
        .map(|(_, import)| TaskRef { tenant: import.task.body.tenant.clone(), id: import.task.id });
    let homes = homes(shards, named.collect()).await?;
    let (known, new): (Vec<_>, Vec<_>) = round.into_iter().zip(homes).partition(|(_, home)| home.is_some());
    let mut answers: Vec<_> = known.into_iter().map(|((index, _), _)| (index, Ok(false))).collect();
    let (indexes, imports): (Vec<usize>, Vec<Import>) = new.into_iter().map(|(item, _)| item).unzip();
    let count = shards.len() as u32;
    let queue_shard = move |import: &Import| {
        QueueKey::new(&import.task.body.tenant, &import.task.body.command).shard(count)
    };
    let ask = |shard, share| -> Answer<Items<bool>> { Box::pin(import_on(shard, share)) };
    answers.extend(indexes.into_iter().zip(scatter(shards, imports, queue_shard, ask).await?));
    Ok(answers)
}
