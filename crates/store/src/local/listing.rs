//! Listing tasks: pages over the tree's rows of one instant.
//!
//! The first page has the tree take in what memory holds, so that everything acknowledged before is seen.
//! Rows lie in the order of their numbers, which is the order of creation, and a task keeps its number
//! wherever it moves: a page that goes on behind a number neither repeats nor skips what was there
//! throughout. Everything happens on a thread of its own, which ranks below the ones that answer callers.

use super::codec::Corrupt;
use super::handle::ShardHandle;
use super::ids::IdKey;
use super::inbox::{Inbox, Lane};
use super::records::{Detail, Final, Seed, Sketch, StateRow, no_key};
use super::routes::Shards;
use super::shard::Links;
use super::tree::{Space, TreeError, View};
use codeq_queue::{Body, Failure, Filter, Lease, Listed, Owner, Page, Refusal, State, Task, Time};
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
/// Payloads that one page carries, about.
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
        None => {
            for shard in shards.iter() {
                let _ = shard.trough.flush().await;
            }
            vec![Some(if page.is_newest_first { u64::MAX } else { 0 }); shards.len()]
        }
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
    let now = shard.ask(Lane::Other, 0, |turn, reply| turn.answer(reply, turn.now)).await?;
    let page = page.clone();
    shard.search(move |links| examine(links, &page, from, now)).await
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
    Listed { tasks, next: (!is_over).then(|| write_cursor(&nexts, page.is_newest_first)) }
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

fn examine(links: &Links, page: &Page, from: u64, now: Time) -> Result<Portion, Failure> {
    let tree = &links.library.tree;
    let view = tree.view().map_err(failed)?;
    let examined = examine_in(&*view, links, page, from, now);
    drop(view);
    match examined {
        // Of a batch that is being written a task may be there before its payload.
        Err(Failure::Internal(_)) => examine_in(&*tree.instant().map_err(failed)?, links, page, from, now),
        examined => examined,
    }
}

fn failed(error: TreeError) -> Failure {
    Failure::unavailable(format!("reading the tree failed: {error}"))
}

fn examine_in(view: &dyn View, links: &Links, page: &Page, from: u64, now: Time) -> Result<Portion, Failure> {
    let spaces = spaces(&page.filter, &view.buckets(), now);
    let mut scan = Scan {
        page,
        now,
        ids: &links.library.ids,
        inbox: &links.inbox,
        view,
        current: None,
        found: Vec::new(),
        bytes: 0,
        examined: 0,
        until: Instant::now() + PATIENCE,
        rested: Instant::now(),
        rounds: links.inbox.rounds(),
        next: None,
        wrong: None,
    };
    view.walk(&spaces, from, page.is_newest_first, &mut |space, no, row| scan.see(space, no, row))
        .map_err(failed)?;
    scan.end()
}

/// The spaces in which something can match. Live rows come first: of a task that is moving, its end counts.
fn spaces(filter: &Filter, buckets: &[i64], now: Time) -> Vec<Space> {
    let lease = Lease { owner: Arc::new(Owner::new("", "")), until: now, claimed_at: now };
    let live = [State::Ready { seq: 0 }, State::Delayed { until: now }, State::Running(Arc::new(lease))];
    let done = [State::Completed, State::Failed, State::Cancelled];
    let mut spaces = Vec::new();
    if live.iter().any(|state| filter.admits(state)) {
        spaces.extend([Space::Task, Space::State]);
    }
    if filter.admits(&State::Dead) {
        spaces.push(Space::Dead);
    }
    if done.iter().any(|state| filter.admits(state)) {
        spaces.extend(buckets.iter().filter(|end| **end > now.millis()).map(|end| Space::History(*end)));
    }
    spaces
}

/// The rows of one task as they come by.
struct Gathered {
    sketch: Sketch,
    /// The payload lies in a row of its own.
    is_apart: bool,
}

struct Scan<'a> {
    page: &'a Page,
    now: Time,
    ids: &'a IdKey,
    inbox: &'a Inbox,
    view: &'a dyn View,
    current: Option<Gathered>,
    found: Vec<(u64, Task)>,
    bytes: usize,
    examined: usize,
    until: Instant,
    rested: Instant,
    /// Of the owner, when this search last looked.
    rounds: u64,
    /// Set when the walk stops early.
    next: Start,
    wrong: Option<Failure>,
}

impl Scan<'_> {
    fn see(&mut self, space: Space, no: u64, row: &[u8]) -> bool {
        let is_next = self.current.as_ref().is_none_or(|current| current.sketch.no != no);
        if is_next {
            self.emit();
            if self.is_full() {
                self.next = Some(no);
                return false;
            }
            self.examined += 1;
        }
        if let Err(error) = self.gather(space, no, row) {
            self.wrong = Some(Failure::Internal(format!("row {no} of {space:?}: {error}")));
        }
        self.wrong.is_none()
    }

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

    fn gather(&mut self, space: Space, no: u64, row: &[u8]) -> Result<(), Corrupt> {
        match space {
            Space::Task => {
                let (seed, is_apart) = Seed::read(row)?;
                self.current = Some(Gathered { sketch: seed.sketch(no), is_apart });
            }
            Space::State => {
                if let Some(current) = self.current.as_mut().filter(|current| current.sketch.no == no) {
                    current.sketch.change(StateRow::read(row)?);
                }
            }
            _ if !self.page.filter.admits(&Final::read_state(row)?) => {
                // An end that does not match hides the live rows of the same task.
                self.current = None;
            }
            _ => {
                let last = Final::read(no, row)?;
                let is_visible = last.is_visible(self.now);
                self.current = is_visible.then_some(Gathered { sketch: last.sketch, is_apart: false });
            }
        }
        Ok(())
    }

    /// Takes the task that is complete now, if it matches.
    fn emit(&mut self) {
        let Some(Gathered { mut sketch, is_apart }) = self.current.take() else { return };
        let is_theirs =
            |body: &Arc<Body>| self.page.tenant.as_ref().is_none_or(|tenant| body.tenant == *tenant);
        if !self.page.filter.admits(&sketch.state) || !sketch.detail.body.as_ref().is_some_and(is_theirs) {
            return;
        }
        let no = sketch.no;
        let matches = |task: &Task| self.page.filter.matches(task);
        if !sketch.task(self.ids).as_ref().is_some_and(matches) {
            return;
        }
        if is_apart && let Err(failure) = self.add_payload(&mut sketch) {
            self.wrong = Some(failure);
            return;
        }
        if let Some(task) = sketch.task(self.ids) {
            self.bytes += task.body.payload.len();
            self.found.push((no, task));
        }
    }

    fn add_payload(&self, sketch: &mut Sketch) -> Result<(), Failure> {
        let no = sketch.no;
        let row = self.view.get(Space::Payload, &no_key(no));
        let row = row.map_err(failed)?;
        let added = row.ok_or(Corrupt("it is missing")).and_then(|row| sketch.detail.add_payload(row));
        added.map_err(|error| Failure::Internal(format!("row {no} of Payload: {error}")))
    }

    fn end(mut self) -> Result<Portion, Failure> {
        self.emit();
        match self.wrong {
            Some(wrong) => Err(wrong),
            None => Ok(Portion { found: self.found, next: self.next }),
        }
    }
}

impl Seed {
    fn sketch(self, no: u64) -> Sketch {
        Sketch {
            no,
            tail: self.tail,
            priority: self.priority,
            state: self.state,
            attempts: 0,
            refunds: 0,
            max_attempts: self.max_attempts,
            created_at: self.created_at,
            updated_at: self.created_at,
            detail: Detail::of(self.body),
        }
    }
}

impl Sketch {
    fn change(&mut self, row: StateRow) {
        self.updated_at = row.updated_at;
        (self.attempts, self.refunds, self.max_attempts) = (row.attempts, row.refunds, row.max_attempts);
        self.state = row.state;
        (self.detail.error, self.detail.history) = (row.error, row.history);
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
