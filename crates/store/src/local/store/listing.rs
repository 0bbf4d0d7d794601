//! Listing tasks: pages over the tables of one instant.
//!
//! Before a page is read the tables take in what memory holds, so that everything acknowledged before is seen.
//! Rows lie in the order of their numbers, which is the order of creation, and a task keeps its number
//! wherever it moves: a page that goes on behind a number neither repeats nor skips what was there
//! throughout. Everything happens on a thread of its own, which ranks below the ones that answer callers.

use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::{Inbox, Lane};
use crate::local::format::ids::IdKey;
use crate::local::format::lost::lost;
use crate::local::format::records::{Detail, Final, PartialTask, StateRow, TaskHead};
use crate::local::rows::library::{self, damaged, failed};
use crate::local::shard::ShardContext;
use crate::local::store::routes::Shards;
use crate::local::tables::{Group, Live, LiveHead, Version, Walk};
use codeq_queue::{Delay, Failure, Held, Lease, Listed, Owner, Page, Refusal, State, Task, Time};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records that one page looks at, at most.
const EXAMINED: usize = 50_000;
/// How long a page may take before it comes short; a reader asks for the next one.
const PATIENCE: Duration = Duration::from_millis(60);
/// Rows looked at between two looks at the clock.
const STRIDE: usize = 256;
/// While others are at work a search rests so many times as long as it has worked. How far a thread ranks
/// below others counts only within its process (or its group): a client on the same machine would pay for it.
const RESTS: u32 = 7;
/// Payloads, errors and checkpoints that one page carries, about.
const PAGE_BYTES: usize = 8 << 20;

/// Where a shard's next page begins; `None` when there is nothing more.
type Start = Option<u64>;

/// The part of a page that one shard gives: tasks with their numbers, and where it would go on.
struct Portion {
    found: Vec<(u64, Task)>,
    next: Start,
}

/// Lists over all shards, the earliest (or latest) created first.
pub async fn list(shards: &Shards, page: Page) -> Result<Result<Listed, Refusal>, Failure> {
    let starts = match &page.cursor {
        Some(cursor) => match read_cursor(cursor, shards.len(), page.is_newest_first) {
            Some(starts) => starts,
            None => return Ok(Err(Refusal::InvalidCursor)),
        },
        None => vec![Some(if page.is_newest_first { u64::MAX } else { 0 }); shards.len()],
    };
    let mut portions = Vec::with_capacity(shards.len());
    for (shard, start) in shards.iter().zip(starts) {
        portions.push(match start {
            Some(from) => portion_of(shard, &page, from).await?,
            None => Portion { found: Vec::new(), next: None },
        });
    }
    Ok(Ok(merge(portions, &page)))
}

async fn portion_of(shard: &ShardHandle, page: &Page, from: u64) -> Result<Portion, Failure> {
    let _ = shard.feed_queue.flush().await;
    let now = shard.ask(Lane::Other, |turn, reply| turn.answer(reply, turn.aged)).await?;
    let page = page.clone();
    let tenant = page.tenant.clone().unwrap_or_default();
    shard.search(&tenant, move |links| examine(links, &page, from, now)).await
}

/// Takes the portions apart into one page, each in its own order.
fn merge(portions: Vec<Portion>, page: &Page) -> Listed {
    let mut nexts: Vec<Start> = portions.iter().map(|portion| portion.next).collect();
    let mut lines: Vec<_> =
        portions.into_iter().map(|portion| portion.found.into_iter().peekable()).collect();
    let mut tasks = Vec::new();
    while tasks.len() < page.limit {
        let heads = lines.iter_mut().enumerate().filter_map(|(index, line)| {
            let (_, task) = line.peek()?;
            Some((task.created_at, task.id, index))
        });
        let first = if page.is_newest_first { heads.max() } else { heads.min() };
        let Some((.., index)) = first else { break };
        tasks.extend(lines[index].next().map(|(_, task)| task));
    }
    for (next, line) in nexts.iter_mut().zip(&mut lines) {
        // What did not fit comes first on the next page.
        if let Some((no, _)) = line.peek() {
            *next = Some(*no);
        }
    }
    let is_over = nexts.iter().all(Option::is_none);
    let next = (!is_over).then(|| write_cursor(&nexts, page.is_newest_first));
    Listed { tasks, next, missing: Vec::new() }
}

fn write_cursor(starts: &[Start], is_newest_first: bool) -> String {
    let direction = if is_newest_first { "n" } else { "o" };
    let starts = starts.iter().map(|start| start.map_or_else(|| "-".to_owned(), |no| format!("{no:x}")));
    format!("{direction}{}", starts.collect::<Vec<_>>().join("."))
}

fn read_cursor(cursor: &str, shards: usize, is_newest_first: bool) -> Option<Vec<Start>> {
    let starts = cursor.strip_prefix(if is_newest_first { 'n' } else { 'o' })?;
    let starts = starts.split('.').map(|start| match start {
        "-" => Some(None),
        // The library would take a sign, too.
        no if no.bytes().all(|c| c.is_ascii_hexdigit()) => u64::from_str_radix(no, 16).ok().map(Some),
        _ => None,
    });
    let starts: Vec<Start> = starts.collect::<Option<_>>()?;
    (starts.len() == shards).then_some(starts)
}

fn examine(links: &ShardContext, page: &Page, from: u64, now: Time) -> Result<Portion, Failure> {
    let version = links.library.version();
    let mut streams = streams(&version, page, from, now)?;
    let mut scan = Scan {
        page,
        ids: &links.library.ids,
        inbox: &links.inbox,
        version: &version,
        found: Vec::new(),
        bytes: 0,
        examined: 0,
        until: Instant::now() + PATIENCE,
        rested: Instant::now(),
        rounds: links.inbox.rounds(),
    };
    loop {
        let heads = streams.iter().enumerate().filter_map(|(index, stream)| Some((stream.number()?, index)));
        let first = if page.is_newest_first { heads.max() } else { heads.min() };
        let Some((no, index)) = first else { return Ok(Portion { found: scan.found, next: None }) };
        if scan.is_full() {
            return Ok(Portion { found: scan.found, next: Some(no) });
        }
        scan.examined += 1;
        if let Some(sketch) = streams[index].take(page, now)? {
            scan.see(sketch)?;
        }
    }
}

/// Tasks of one kind in the order of their numbers.
enum Stream {
    Live { rows: Live, next: Option<LiveHead> },
    Ended(Walk),
}

/// The rows in which something can match.
fn streams(version: &Version, page: &Page, from: u64, now: Time) -> Result<Vec<Stream>, Failure> {
    let lease = Lease::new(Arc::new(Owner::new("", "")), now, now);
    let held = Held { open: Box::default(), delay: Delay::None };
    let live = [
        State::Ready { seq: 0 },
        State::Delayed { until: now },
        State::Running(Arc::new(lease)),
        State::Held(Arc::new(held)),
    ];
    let done = [State::Completed, State::Failed, State::Cancelled];
    let admits = |states: &[State]| states.iter().any(|state| page.filter.admits(state));
    let mut streams = Vec::new();
    if admits(&live) {
        let mut rows = version.walk_live(from, page.is_newest_first).map_err(failed)?;
        let next = rows.take_next().map_err(failed)?;
        streams.push(Stream::Live { rows, next });
    }
    let dead = admits(&[State::Dead]).then_some(Group::Dead);
    let ends = version.ends().filter(|end| admits(&done) && *end > now.millis()).map(Group::Ended);
    for group in dead.into_iter().chain(ends) {
        let walk = version.walk_numbers(group, from, page.is_newest_first).map_err(failed)?;
        streams.push(Stream::Ended(walk));
    }
    Ok(streams)
}

impl Stream {
    fn number(&self) -> Option<u64> {
        match self {
            Stream::Live { next, .. } => next.as_ref().map(|(no, ..)| *no),
            Stream::Ended(walk) => {
                walk.row().and_then(|(key, _)| key.try_into().ok()).map(u64::from_be_bytes)
            }
        }
    }

    /// The task it stands at, if it may match; of a live one only what its head knows. Goes on to the next.
    fn take(&mut self, page: &Page, now: Time) -> Result<Option<PartialTask>, Failure> {
        let is_theirs = |tenant: &str| page.tenant.as_ref().is_none_or(|own| **own == *tenant);
        match self {
            Stream::Live { rows, next } => {
                let Some((no, head, state)) = next.take() else { return Ok(None) };
                *next = rows.take_next().map_err(failed)?;
                let seed = TaskHead::read_head(&head).map_err(damaged(no, "head"))?;
                let is_theirs = is_theirs(&seed.body.tenant);
                let mut sketch = seed.sketch(no);
                if let Some(row) = state {
                    sketch.change(StateRow::read(&row).map_err(damaged(no, "state"))?);
                }
                let may_match = is_theirs && page.filter.admits(&sketch.state);
                Ok(may_match.then_some(sketch))
            }
            Stream::Ended(walk) => {
                let row = walk.row().and_then(|(key, row)| Some((key, row?)));
                let sketch = match row {
                    Some((key, row)) => {
                        let no = key.try_into().map(u64::from_be_bytes).unwrap_or_default();
                        let (expires, state, tenant) =
                            Final::peek(row).map_err(damaged(no, "final record"))?;
                        let is_visible = state == State::Dead || expires > now;
                        match is_visible && is_theirs(tenant) && page.filter.admits(&state) {
                            true => Some(Final::read(no, row).map_err(damaged(no, "final record"))?.sketch),
                            false => None,
                        }
                    }
                    None => None,
                };
                walk.advance().map_err(failed)?;
                Ok(sketch)
            }
        }
    }
}

struct Scan<'a> {
    page: &'a Page,
    ids: &'a IdKey,
    inbox: &'a Inbox,
    version: &'a Version,
    found: Vec<(u64, Task)>,
    bytes: usize,
    examined: usize,
    until: Instant,
    rested: Instant,
    /// Of the owner, when this search last looked.
    rounds: u64,
}

impl Scan<'_> {
    fn is_full(&mut self) -> bool {
        let is_late = self.examined % STRIDE == STRIDE - 1 && {
            self.make_way();
            Instant::now() >= self.until
        };
        self.found.len() >= self.page.limit
            || self.examined >= EXAMINED
            || self.bytes >= PAGE_BYTES
            || is_late
    }

    fn make_way(&mut self) {
        if self.inbox.rounds() != self.rounds {
            std::thread::sleep((self.rested.elapsed() * RESTS).min(PATIENCE));
        }
        (self.rested, self.rounds) = (Instant::now(), self.inbox.rounds());
    }

    /// Takes a task if it matches.
    fn see(&mut self, mut sketch: PartialTask) -> Result<(), Failure> {
        let no = sketch.no;
        if sketch.state.is_live() {
            let command = self.page.filter.command.as_ref();
            let body = sketch.detail.body.as_ref();
            // Cheaper to know than whether the rest matches, for which the body is needed.
            if command.zip(body).is_some_and(|(command, body)| !command.eq_ignore_ascii_case(&body.command)) {
                return Ok(());
            }
            match library::detail(self.version, no) {
                Ok(Some(detail)) => sketch.detail = detail,
                Ok(None) => return Ok(()),
                // The others are to be seen all the same.
                Err(error) if error.is_damage() => {
                    tracing::error!(op = "list", err = %error, "storage error");
                    sketch.detail.body = sketch.detail.body.map(|head| Arc::new(lost((*head).clone())));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let Some(task) = sketch.task(self.ids) else { return Ok(()) };
        if self.page.filter.matches(&task) {
            let error = task.error.as_ref().map_or(0, |text| text.len());
            let checkpoint = task.checkpoint.as_ref().map_or(0, |text| text.len());
            self.bytes += task.body.bytes() + error + checkpoint;
            self.found.push((no, task));
        }
        Ok(())
    }
}

impl TaskHead {
    fn sketch(self, no: u64) -> PartialTask {
        PartialTask {
            no,
            tail: self.tail,
            priority: self.priority,
            state: self.state,
            attempts: 0,
            refunds: 0,
            max_attempts: self.max_attempts,
            created_at: self.created_at,
            updated_at: self.created_at,
            progress: None,
            detail: Detail::of(self.body),
        }
    }
}

impl PartialTask {
    fn change(&mut self, row: StateRow) {
        self.updated_at = row.updated_at;
        (self.attempts, self.refunds, self.max_attempts) = (row.attempts, row.refunds, row.max_attempts);
        self.state = row.state;
        (self.detail.error, self.detail.history, self.detail.checkpoint) =
            (row.error, row.history, row.checkpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_say_where_every_shard_goes_on() {
        let starts = vec![Some(31), None, Some(u64::MAX)];
        let cursor = write_cursor(&starts, true);
        assert_eq!(read_cursor(&cursor, 3, true), Some(starts));
        for foreign in
            [read_cursor(&cursor, 3, false), read_cursor(&cursor, 2, true), read_cursor("nx", 1, true)]
        {
            assert_eq!(foreign, None);
        }
    }
}
