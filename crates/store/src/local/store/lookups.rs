//! Calls that look into the tables before they act.
//!
//! What was read may be obsolete when the owner sees it. It therefore comes with the position it was read at. The
//! owner gives it back if something has left memory since that these tables do not have, and the call looks again.

use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::Lane;
use crate::local::format::records::Final;
use crate::local::rows::library::{self, TaskReader};
use crate::local::shard::{ImportCandidate, KeyedTask, NamedTask, Reply, ShardContext, Turn};
use crate::local::tables::{Group, Version};
use codeq_queue::store::{Created, Import, Items, TaskRef};
use codeq_queue::{Failure, Time};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a call looks before others are said to be in the way.
const LOOKUP_RETRIES_MAX: u32 = 100;
/// Records that a cleanup examines at a time, and removes at a time.
const CLEANUP_EXAMINED_MAX: usize = 10_000;
const CLEANUP_REMOVED_MAX: usize = 1000;
/// A cleanup rests this many times as long as it has read: it costs other callers little.
const CLEANUP_RESTS: u32 = 3;

/// A failure, when some of what was asked for has happened already or not.
pub fn after(has_begun: bool, failure: Failure) -> Failure {
    match failure {
        Failure::Unavailable { reason, .. } if has_begun => Failure::unknown(reason),
        other => other,
    }
}

/// Reads with `look` on a reading thread. Gives what was found, and the position it was read at.
async fn look<L: Send + 'static>(
    shard: &ShardHandle,
    tenant: &Arc<str>,
    look: impl FnOnce(&TaskReader, &Version) -> Result<L, Failure> + Send + 'static,
) -> Result<(L, u64), Failure> {
    let read = |links: &ShardContext| {
        let version = links.library.version();
        Ok((look(&links.library, &version)?, version.position))
    };
    shard.read(tenant, read).await
}

pub async fn create_on(
    shard: Arc<ShardHandle>,
    mut tasks: Vec<KeyedTask>,
) -> Result<Items<Created>, Failure> {
    let has_keys = tasks.iter().any(|task| task.key.is_some());
    let tenant = tasks.first().map(|task| task.task.body.tenant.clone()).unwrap_or_default();
    let mut answers = Vec::with_capacity(tasks.len());
    while !tasks.is_empty() {
        shard.room(Lane::Create).await;
        let mut as_of = u64::MAX;
        if has_keys {
            (tasks, as_of) = look(&shard, &tenant, |_, version| look_up_keys(version, tasks)).await?;
        }
        let asked = shard.ask(Lane::Create, move |turn, reply| turn.create(tasks, as_of, reply));
        let part = asked.await.map_err(|failure| after(!answers.is_empty(), failure))?;
        answers.extend(part.done);
        tasks = part.rest;
    }
    Ok(answers)
}

fn look_up_keys(version: &Version, mut tasks: Vec<KeyedTask>) -> Result<Vec<KeyedTask>, Failure> {
    for task in &mut tasks {
        // Records that are over are sorted out by the owner, whose time counts.
        let found = task.key.as_ref().map(|key| library::keyed(version, key, Time::ZERO));
        task.prior = found.transpose()?.flatten();
    }
    Ok(tasks)
}

/// Acts on named tasks, with their final records as far as the tables have them.
pub async fn act_on_named<T: Send + 'static>(
    shard: Arc<ShardHandle>,
    tasks: Vec<TaskRef>,
    act: impl Fn(&mut Turn<'_>, Vec<NamedTask>, u64, Reply<Option<Vec<T>>>) + Clone + Send + 'static,
) -> Result<Vec<T>, Failure> {
    let mut answers = Vec::with_capacity(tasks.len());
    let tenant = tasks.first().map(|task| task.tenant.clone()).unwrap_or_default();
    let mut looks = 0;
    while answers.len() < tasks.len() {
        if looks == LOOKUP_RETRIES_MAX {
            let busy = Failure::unavailable("the tasks are being changed by others");
            return Err(after(!answers.is_empty(), busy));
        }
        // Of what ended a moment ago, memory may have only a part.
        let _ = shard.feed_queue.flush().await;
        let asked = tasks[answers.len()..].to_vec();
        let read = |library: &TaskReader, version: &Version| look_up_named(library, version, asked);
        let (named, as_of) = look(&shard, &tenant, read).await?;
        let act = act.clone();
        let done = shard.ask(Lane::Other, move |turn, reply| act(turn, named, as_of, reply)).await;
        match done.map_err(|failure| after(!answers.is_empty(), failure))? {
            Some(done) => {
                answers.extend(done);
                looks = 0;
            }
            None => looks += 1,
        }
    }
    Ok(answers)
}

fn look_up_named(
    library: &TaskReader,
    version: &Version,
    tasks: Vec<TaskRef>,
) -> Result<Vec<NamedTask>, Failure> {
    let named = tasks.into_iter().map(|task| {
        let last = library.named(version, &task.tenant, &task.id)?;
        Ok(NamedTask { task, last })
    });
    named.collect()
}

pub async fn import_on(shard: Arc<ShardHandle>, imports: Vec<Import>) -> Result<Items<bool>, Failure> {
    let (mut answers, mut rest) = (Vec::with_capacity(imports.len()), imports);
    let tenant = rest.first().map(|import| import.task.body.tenant.clone()).unwrap_or_default();
    while !rest.is_empty() {
        shard.room(Lane::Create).await;
        let (arrivals, as_of) =
            look(&shard, &tenant, |library, version| look_up_arrivals(library, version, rest)).await?;
        let act = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.import(arrivals, as_of, reply);
        let part = shard.ask(Lane::Create, act).await;
        let part = part.map_err(|failure| after(!answers.is_empty(), failure))?;
        answers.extend(part.done);
        rest = part.rest;
    }
    Ok(answers)
}

/// What the tables have under the ids and keys of tasks from elsewhere.
fn look_up_arrivals(
    library: &TaskReader,
    version: &Version,
    imports: Vec<Import>,
) -> Result<Vec<ImportCandidate>, Failure> {
    let arrivals = imports.into_iter().map(|import| {
        let neighbours = library.neighbours(version, &import.task.id)?;
        let mut arrival = ImportCandidate { import, neighbours, prior: None };
        let prior = arrival.key().map(|key| library::keyed(version, &key, Time::ZERO));
        arrival.prior = prior.transpose()?.flatten();
        Ok(arrival)
    });
    arrivals.collect()
}

/// What a cleanup looks for, and where it goes on: a bucket and a number in it.
#[derive(Clone)]
struct CleanupScan {
    tenant: Arc<str>,
    now: Time,
    before: Time,
    from: (i64, u64),
}

impl CleanupScan {
    /// Finished tasks of the tenant that are still there and whose retention ends in time; where to go on is `None`
    /// at the end.
    fn page(&self, version: &Version, limit: usize) -> Result<CleanupPage, Failure> {
        let begun = Instant::now();
        let mut page = CleanupPage { found: Vec::new(), next: None, took: Duration::ZERO };
        let mut examined = 0;
        for end in version.ends().filter(|end| *end >= self.from.0) {
            let from = if end == self.from.0 { self.from.1 } else { 0 };
            let mut walk = version.walk_numbers(Group::Ended(end), from, false).map_err(library::failed)?;
            while let Some((key, row)) = walk.row() {
                let no = key.try_into().map(u64::from_be_bytes).unwrap_or_default();
                if page.found.len() >= limit || examined >= CLEANUP_EXAMINED_MAX {
                    (page.next, page.took) = (Some((end, no)), begun.elapsed());
                    return Ok(page);
                }
                examined += 1;
                if let Some(row) = row {
                    page.found.extend(self.wanted(no, row).map_err(library::damaged(no, "final record"))?);
                }
                walk.advance().map_err(library::failed)?;
            }
        }
        Ok(page)
    }

    fn wanted(
        &self,
        no: u64,
        row: &[u8],
    ) -> Result<Option<Arc<Final>>, crate::local::format::codec::Corrupt> {
        let (expires, _, tenant) = Final::peek(row)?;
        if tenant != &*self.tenant || expires <= self.now || expires > self.before {
            return Ok(None);
        }
        Final::read(no, row).map(|last| Some(Arc::new(last)))
    }
}

struct CleanupPage {
    found: Vec<Arc<Final>>,
    next: Option<(i64, u64)>,
    took: Duration,
}

pub async fn cleanup_on(
    shard: &ShardHandle,
    tenant: Arc<str>,
    before: Time,
    limit: usize,
) -> Result<u64, Failure> {
    // What ended a moment ago must be in the tables to be found.
    let _ = shard.feed_queue.flush().await;
    let now = shard.ask(Lane::Other, |turn, reply| turn.answer(reply, turn.aged)).await?;
    let mut scan = CleanupScan { tenant, now, before, from: (i64::MIN, 0) };
    let mut removed = 0;
    while removed < limit as u64 {
        let room = CLEANUP_REMOVED_MAX.min(limit - usize::try_from(removed).unwrap_or(limit));
        let page = {
            let scan = scan.clone();
            let tenant = scan.tenant.clone();
            shard.search(&tenant, move |links| scan.page(&links.library.version(), room)).await?
        };
        if !page.found.is_empty() {
            removed += remove_still(shard, page.found).await?;
        }
        let Some(next) = page.next else { break };
        scan.from = next;
        tokio::time::sleep(page.took * CLEANUP_RESTS).await;
    }
    Ok(removed)
}

/// Removes those of the finished tasks that are still there.
async fn remove_still(shard: &ShardHandle, mut found: Vec<Arc<Final>>) -> Result<u64, Failure> {
    let mut removed = 0;
    let tenant = found.first().map(|last| last.tenant.clone()).unwrap_or_default();
    while !found.is_empty() {
        let (still, as_of) = look(shard, &tenant, |_, version| still_there(version, found)).await?;
        let act = move |turn: &mut Turn<'_>, reply: Reply<_>| turn.remove_all(still, as_of, reply);
        let part = shard.ask(Lane::Other, act).await?;
        removed += part.done.into_iter().filter(|is_removed| *is_removed).count() as u64;
        found = part.rest;
    }
    Ok(removed)
}

fn still_there(version: &Version, found: Vec<Arc<Final>>) -> Result<Vec<Arc<Final>>, Failure> {
    let mut still = Vec::with_capacity(found.len());
    for last in found {
        if version.ended(last.sketch.no).map_err(library::failed)?.is_some() {
            still.push(last);
        }
    }
    Ok(still)
}
