//! Calls that look into the tree before they act.
//!
//! What was read may be obsolete when the owner sees it. It therefore comes with the generation it was read
//! at; the owner gives it back if something has left memory for the tree since, and the call looks again.

use super::handle::ShardHandle;
use super::inbox::Lane;
use super::records::Final;
use super::shard::{Arrival, KeyedTask, Links, Named, Reply, Turn};
use super::tree::Space;
use codeq_queue::store::{Created, Import, Items, TaskRef};
use codeq_queue::{Failure, Time};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often named tasks are looked up before others are said to be in the way.
const LOOKS: u32 = 100;

/// Looks the keys of a batch up in the tree, as of `generation`.
fn look_up_keys(links: &Links, tasks: &mut [KeyedTask], now: Time) -> Result<u64, Failure> {
    let generation = links.generation.load(Ordering::Acquire);
    for task in tasks {
        task.prior = match &task.key {
            Some(key) => links.library.keyed(key, now)?,
            None => None,
        };
    }
    Ok(generation)
}

pub async fn create_on(
    shard: Arc<ShardHandle>,
    mut tasks: Vec<KeyedTask>,
    bytes: usize,
) -> Result<Items<Created>, Failure> {
    shard.room().await;
    let has_keys = tasks.iter().any(|task| task.key.is_some());
    let mut answers = Vec::with_capacity(tasks.len());
    let mut at_once = tasks.len();
    while !tasks.is_empty() {
        let mut some = tasks.drain(..at_once.min(tasks.len())).collect::<Vec<_>>();
        let mut generation = shard.generation();
        if has_keys {
            (some, generation) = shard
                .read(move |links| {
                    // Records that are over are sorted out by the owner, whose time counts.
                    let generation = look_up_keys(links, &mut some, Time::ZERO)?;
                    Ok((some, generation))
                })
                .await?;
        }
        let asked = shard.ask(Lane::Create, bytes, move |turn, reply| turn.create(some, generation, reply));
        let created = asked.await.map_err(|failure| match failure {
            Failure::Unavailable { reason, .. } if !answers.is_empty() => Failure::unknown(reason),
            other => other,
        });
        match created? {
            Ok(created) => answers.extend(created),
            Err(again) => {
                // Fewer are looked up sooner: at some number nothing moves meanwhile.
                at_once = again.len().div_ceil(2);
                tasks.splice(..0, again);
            }
        }
    }
    Ok(answers)
}

/// What the tree has of the named tasks, completed, as of the generation given with it.
fn look_up_named(links: &Links, tasks: &[TaskRef]) -> Result<(Vec<Named>, u64), Failure> {
    let generation = links.generation.load(Ordering::Acquire);
    let library = &links.library;
    let named = tasks.iter().map(|task| {
        let last = library.find(&task.tenant, &task.id, None, Time::ZERO)?;
        Ok(Named { task: task.clone(), last })
    });
    Ok((named.collect::<Result<_, Failure>>()?, generation))
}

/// Has the tree take in what memory holds, then acts on named tasks until nothing moved in between.
pub async fn act_on_named<T: Send + 'static>(
    shard: Arc<ShardHandle>,
    tasks: Vec<TaskRef>,
    act: impl Fn(&mut Turn<'_>, Vec<Named>, u64, Reply<Option<T>>) + Clone + Send + 'static,
) -> Result<T, Failure> {
    for round in 0..LOOKS {
        // Not before every look: a flush moves things by itself.
        if round % 4 == 0 {
            let _ = shard.trough.flush().await;
        }
        let asked = tasks.clone();
        let (named, generation) = shard.read(move |links| look_up_named(links, &asked)).await?;
        let act = act.clone();
        let done = shard.ask(Lane::Other, 0, move |turn, reply| act(turn, named, generation, reply)).await?;
        if let Some(done) = done {
            return Ok(done);
        }
    }
    Err(Failure::unavailable("the tasks are being changed by others"))
}

/// What the tree has under the ids and keys of tasks from elsewhere.
fn look_up_arrivals(links: &Links, imports: Vec<Import>) -> Result<(Vec<Arrival>, u64), Failure> {
    let generation = links.generation.load(Ordering::Acquire);
    let library = &links.library;
    let arrivals = imports.into_iter().map(|import| {
        let (no, _) = library.ids.decode(&import.task.id);
        let last = library.last(no, Time::ZERO)?.map(Arc::new);
        let mut arrival = Arrival { import, last, prior: None };
        arrival.prior = match arrival.key() {
            Some(key) => library.keyed(&key, Time::ZERO)?,
            None => None,
        };
        Ok(arrival)
    });
    Ok((arrivals.collect::<Result<_, Failure>>()?, generation))
}

pub async fn import_on(shard: Arc<ShardHandle>, imports: Vec<Import>) -> Result<Items<bool>, Failure> {
    shard.room().await;
    let _ = shard.trough.flush().await;
    let bytes = imports.iter().map(import_bytes).sum();
    loop {
        let asked = imports.clone();
        let (arrivals, generation) = shard.read(move |links| look_up_arrivals(links, asked)).await?;
        let act = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.import(arrivals, generation, reply);
        if let Some(done) = shard.ask(Lane::Create, bytes, act).await? {
            return Ok(done);
        }
    }
}

fn import_bytes(import: &Import) -> usize {
    let result = import.record.as_ref().and_then(|record| record.result.as_ref());
    import.task.body.bytes() + 512 + result.map_or(0, |text| text.len())
}

/// Finished tasks of a tenant that are still there at `now` and whose retention ends at or before `before`.
fn over_by(
    links: &Links,
    tenant: &str,
    now: Time,
    before: Time,
    limit: usize,
) -> Result<(Vec<Arc<Final>>, u64), Failure> {
    let generation = links.generation.load(Ordering::Acquire);
    let mut found = Vec::new();
    let mut wrong = None;
    for bucket in links.library.tree.buckets() {
        let mut visit = |key: &[u8], row: &[u8]| {
            let no = key.try_into().map(u64::from_be_bytes).unwrap_or_default();
            match Final::read(no, row) {
                Ok(last) => {
                    let is_theirs =
                        last.sketch.detail.body.as_ref().is_some_and(|body| &*body.tenant == tenant);
                    if is_theirs && last.is_visible(now) && last.expires <= before {
                        found.push(Arc::new(last));
                    }
                }
                Err(error) => {
                    wrong = Some(Failure::Internal(format!("row {no} of bucket {bucket}: {error}")))
                }
            }
            found.len() < limit && wrong.is_none()
        };
        let scanned = links.library.tree.scan(Space::History(bucket), &[], None, &mut visit);
        scanned.map_err(|error| Failure::unavailable(error.to_string()))?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        if found.len() >= limit {
            break;
        }
    }
    Ok((found, generation))
}

pub async fn cleanup_on(
    shard: &ShardHandle,
    tenant: Arc<str>,
    before: Time,
    limit: usize,
) -> Result<u64, Failure> {
    // What ended a moment ago must be in the tree to be found.
    let _ = shard.trough.flush().await;
    let now = shard.ask(Lane::Other, 0, |turn, reply| turn.answer(reply, turn.now)).await?;
    let (mut found, mut generation) =
        shard.read(move |links| over_by(links, &tenant, now, before, limit)).await?;
    let (mut removed, mut at_once, mut is_fresh) = (0, found.len(), true);
    while !found.is_empty() {
        let mut some = found.drain(..at_once.min(found.len())).collect::<Vec<_>>();
        if !is_fresh {
            (some, generation) = shard.read(move |links| still_there(links, some)).await?;
        }
        let asked = some.clone();
        let act = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.remove_all(asked, generation, reply);
        match shard.ask(Lane::Other, 0, act).await? {
            Some(count) => removed += count,
            None => {
                at_once = some.len().div_ceil(2).max(1);
                found.splice(..0, some);
            }
        }
        is_fresh = false;
    }
    Ok(removed)
}

/// Those of the finished tasks that the tree still has, as of the generation given with them.
fn still_there(links: &Links, found: Vec<Arc<Final>>) -> Result<(Vec<Arc<Final>>, u64), Failure> {
    let generation = links.generation.load(Ordering::Acquire);
    let mut still = Vec::with_capacity(found.len());
    for last in found {
        if links.library.bucket_of(last.sketch.no, last.expires)?.is_some() {
            still.push(last);
        }
    }
    Ok((still, generation))
}
