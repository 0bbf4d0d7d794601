//! Tasks that wait for others: asking how these stand, and telling them what has ended.
//!
//! A held task is in `asks` of its keyspace. Each of what it waits for is asked, where that is, to note it in
//! `watchers:<id>`, and answers at once if it has ended. The script of an end that somebody waits for leaves a note in
//! `ended`; whoever carries it tells all watchers and then takes it away.

use crate::kvrocks::coordination::events::Told;
use crate::kvrocks::format::record::{self, tenant_text};
use crate::kvrocks::redis::batch::Item;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, string, strings};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::create::spread_of;
use codeq_queue::event::What;
use codeq_queue::{Failure, NewTask, QueueKey, Refusal, Standing, State, Task, TaskId, Time, limits};
use futures_util::future::join_all;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A held task that everybody has answered asks again after this, should a server have lost what it noted.
const ASK_AGAIN_ANSWERED: Duration = Duration::from_secs(600);
/// Tasks that are told, or asked about, in one hand-over.
const TOGETHER: usize = 200;
/// Ends that are told of together.
const NOTES_TOGETHER: usize = 32;
/// The length of an id as text.
const ID_CHARS: usize = 36;

/// By tenant and id.
type Standings = HashMap<(Arc<str>, TaskId), Standing>;

/// What a new task that is linked has to wait for, or why it is refused.
pub type Linked = Result<Box<[TaskId]>, Refusal>;

/// A held task, and one of what it waits for.
struct Question {
    task: Arc<Task>,
    shard: usize,
    id: TaskId,
    /// Keyspaces that may have it, in the order in which they are asked.
    places: Vec<usize>,
    answer: Option<char>,
}

pub fn is_linked(task: &NewTask) -> bool {
    task.body.batch().is_some() || !task.body.after().is_empty()
}

/// How a task stands that others wait for.
fn standing(state: &State) -> Standing {
    match state {
        State::Completed => Standing::Succeeded,
        State::Failed | State::Cancelled | State::Dead => Standing::Failed,
        State::Ready { .. } | State::Delayed { .. } | State::Running(_) | State::Held(_) => Standing::Open,
    }
}

impl StoreContext {
    /// Looks at what new tasks wait for, and lets them into their batches. `None` for those that are not linked.
    pub async fn link(&self, tasks: &[NewTask], now: Time) -> Result<Vec<Option<Linked>>, Failure> {
        if !tasks.iter().any(is_linked) {
            return Ok(tasks.iter().map(|_| None).collect());
        }
        let joins = self.join_all(tasks, now).await?;
        let standings = self.standings(tasks).await?;
        let link = |(task, joined): (&NewTask, Result<(), Refusal>)| {
            is_linked(task).then(|| joined.and_then(|()| open(task, &standings)))
        };
        Ok(tasks.iter().zip(joins).map(link).collect())
    }

    async fn join_all(&self, tasks: &[NewTask], now: Time) -> Result<Vec<Result<(), Refusal>>, Failure> {
        let mut known: HashMap<(Arc<str>, TaskId, usize), Result<(), Refusal>> = HashMap::new();
        let mut joins = Vec::with_capacity(tasks.len());
        for task in tasks {
            let Some(batch) = task.body.batch() else {
                joins.push(Ok(()));
                continue;
            };
            let queue = QueueKey::new(&task.body.tenant, &task.body.command);
            let place = (queue.tenant.clone(), batch, self.keyspace_of(self.current_shard(&queue)));
            let joined = match known.get(&place) {
                Some(joined) => joined.clone(),
                None => self.join(&place.0, batch, place.2, now).await?,
            };
            known.insert(place, joined.clone());
            joins.push(joined);
        }
        Ok(joins)
    }

    /// How everything stands that these tasks name; what is nowhere is left out. Fails if that cannot be known.
    async fn standings(&self, tasks: &[NewTask]) -> Result<Standings, Failure> {
        let mut ids: Vec<TaskId> = tasks.iter().flat_map(|task| task.body.after()).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut standings = Standings::new();
        if ids.is_empty() {
            return Ok(standings);
        }
        // Where batches are made, then among the tasks; only what is no task either is looked for everywhere.
        let (mut homes, _) = self.look_for_homes(&ids, false).await;
        ids.retain(|id| !homes.contains_key(id));
        if !ids.is_empty() {
            let tasks = self.find(&ids).await?;
            ids.retain(|id| !tasks.contains_key(id));
            let known = tasks.into_iter();
            let known = known.map(|(id, (_, task))| ((task.body.tenant.clone(), id), standing(&task.state)));
            standings.extend(known);
        }
        if !ids.is_empty() {
            homes.extend(self.find_homes(&ids).await?);
        }
        let batches = homes.into_iter().map(|(id, home)| (id, home.record.batch));
        standings.extend(batches.map(|(id, batch)| ((batch.tenant.clone(), id), batch.standing())));
        Ok(standings)
    }

    /// Tells those who wait for what has ended. Gives how many ends everybody knows of now.
    pub async fn tell_ends(&self, keyspace: usize, notes: &[String], now: Time) -> Result<usize, Failure> {
        if notes.is_empty() {
            return Ok(0);
        }
        let at = &self.shards[self.keyspaces[keyspace][0]];
        let last = (limits::RELEASES_PER_STEP - 1).to_string();
        let watchers = |note: &String| {
            let key = at.keys.of(&format!("watchers:{}", note.get(..ID_CHARS).unwrap_or(note)));
            Command::new("ZRANGE").arg(key).args(["0", last.as_str()])
        };
        let (mut carried, mut told) = (0, 0);
        for part in notes.chunks(NOTES_TOGETHER) {
            let waiting = at.read(&part.iter().map(watchers).collect::<Vec<_>>()).await?;
            let mut ends = Vec::new();
            // A bounded number at a time, so that commands get their share.
            for (note, members) in part.iter().zip(waiting.into_iter().map(strings)) {
                if told < limits::RELEASES_PER_STEP {
                    told += members.len();
                    ends.push(self.tell_end(keyspace, note, members, now));
                }
            }
            for is_told in join_all(ends).await {
                carried += usize::from(is_told?);
            }
            if told >= limits::RELEASES_PER_STEP {
                break;
            }
        }
        Ok(carried)
    }

    /// Tells these of one end. False if some have to be told later.
    async fn tell_end(
        &self,
        keyspace: usize,
        note: &str,
        members: Vec<String>,
        now: Time,
    ) -> Result<bool, Failure> {
        let (text, kind) = note.split_at_checked(ID_CHARS).unwrap_or((note, ""));
        let (Some(id), Some(kind)) = (TaskId::parse(text), kind.chars().next()) else { return Ok(false) };
        let mut by_keyspace: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for member in &members {
            let (_, shard) = member.split_once(' ').unwrap_or((member, ""));
            let there = self.partition(shard).unwrap_or(keyspace);
            by_keyspace.entry(there).or_default().push(member.clone());
        }
        let told =
            by_keyspace.into_iter().map(|(there, members)| self.tell_on(there, members, (id, kind), now));
        let done: Vec<String> = join_all(told).await.into_iter().flatten().flatten().collect();
        let is_done = done.len() == members.len();
        if !is_done {
            self.try_later(keyspace, "ended", &[note.to_owned()], now).await?;
        }
        let at = &self.shards[self.keyspaces[keyspace][0]];
        let call = Call::new(Script::Told, vec![at.keys.of("tasks")]).arg(note).arg(text);
        let call = done.into_iter().fold(call, Call::arg);
        let settle = |replies: Vec<Reply>| {
            Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            Ok(((), Vec::new()))
        };
        at.writer.run(vec![call], settle).await?;
        Ok(is_done)
    }

    /// Tells watchers of one keyspace. Gives those that need not be told again.
    async fn tell_on(
        &self,
        keyspace: usize,
        members: Vec<String>,
        (id, kind): (TaskId, char),
        now: Time,
    ) -> Result<Vec<String>, Failure> {
        let mut done = Vec::new();
        for part in members.chunks(TOGETHER) {
            let names: Vec<String> =
                part.iter().map(|member| member.get(..ID_CHARS).unwrap_or(member).to_owned()).collect();
            let mut tasks = self.tasks_on(keyspace, &names).await?;
            let missing: Vec<TaskId> = names
                .iter()
                .filter_map(|name| TaskId::parse(name))
                .filter(|name| !tasks.contains_key(name))
                .collect();
            if !missing.is_empty() {
                tasks.extend(self.find(&missing).await?);
            }
            let items =
                names.iter().map(|name| match TaskId::parse(name).and_then(|name| tasks.remove(&name)) {
                    Some((shard, task)) => self.release_item(shard, &task, id, kind, now),
                    // It has gone.
                    None => Item::Answered(true),
                });
            let told = self.run_batch(items.collect::<Vec<_>>()).await?;
            let heard = part.iter().zip(told).filter(|(_, is_told)| *is_told);
            done.extend(heard.map(|(member, _)| member.clone()));
        }
        Ok(done)
    }

    async fn tasks_on(
        &self,
        keyspace: usize,
        ids: &[String],
    ) -> Result<HashMap<TaskId, (usize, Task)>, Failure> {
        let shard = self.keyspaces[keyspace][0];
        let texts = self.records_on(shard, ids).await?;
        let placed = texts.into_iter().flatten().filter_map(|text| record::parse_placed(&text));
        Ok(placed
            .map(|placed| (placed.task.id, (self.shard_named(shard, &placed.shard), placed.task)))
            .collect())
    }

    /// Tells a held task how one of what it waits for has ended. False if it has to be told later.
    fn release_item(&self, shard: usize, task: &Task, ended: TaskId, kind: char, now: Time) -> Item<bool> {
        let queue = QueueKey::new(&task.body.tenant, &task.body.command);
        let call = Call::new(Script::Release, self.shards[shard].keys.with_queue(&queue))
            .arg(task.id.to_string())
            .arg(ended.to_string())
            .arg(kind.to_string())
            .number(now.millis())
            .arg(now.to_utc())
            .number(self.now.numbers(1));
        let call = self.with_endings(call, now);
        let (callbacks, teller) = (self.rules.callbacks, self.teller.clone());
        Item::ask(shard, call, move |reply| {
            let Ok(mut answer) = Answered::of(reply) else { return Ok((false, Vec::new())) };
            if answer.has_freed {
                teller.freed(&queue);
            }
            let told = Told::parse(&answer.text());
            let event = match (answer.word.as_str(), told) {
                ("RELEASED", Some(told)) => Some(told.event(now, What::Released, answer.int() == 0)),
                ("FAILED", Some(told)) => {
                    let error = string(answer.next());
                    Some(told.ended(now, State::Failed, None, Some(error.into()), callbacks))
                }
                _ => None,
            };
            Ok((true, event.into_iter().collect()))
        })
    }

    /// Asks for what held tasks wait for. Gives how many of them have asked.
    pub async fn ask_for(&self, keyspace: usize, ids: &[String], now: Time) -> Result<usize, Failure> {
        for part in ids.chunks(TOGETHER) {
            let tasks = self.tasks_on(keyspace, part).await?;
            let mut questions = Vec::new();
            for (shard, task) in tasks.into_values() {
                let Some(held) = task.state.held().cloned() else { continue };
                let task = Arc::new(task);
                questions.extend(held.open.iter().map(|id| Question {
                    task: task.clone(),
                    shard,
                    id: *id,
                    places: self.places_of(*id),
                    answer: None,
                }));
            }
            let held: Vec<String> = questions.iter().map(|question| question.task.id.to_string()).collect();
            let gone: Vec<&String> = part.iter().filter(|id| !held.contains(id)).collect();
            if !gone.is_empty() {
                let at = &self.shards[self.keyspaces[keyspace][0]];
                let forget = Command::new("ZREM").arg(at.keys.of("asks"));
                at.read_one(gone.into_iter().fold(forget, |forget, id| forget.arg(id.as_str()))).await?;
            }
            self.ask_all(keyspace, questions, now).await?;
        }
        Ok(ids.len())
    }

    /// Keyspaces that may have a task or batch, the likely one first. Whatever moves while it is looked for is found the
    /// second time.
    fn places_of(&self, id: TaskId) -> Vec<usize> {
        let count = self.keyspaces.len();
        let likely = match self.memory.recall(id) {
            Some(known) => self.keyspace_of(known.shard),
            None if self.sharding.spread => self.keyspace_of(self.spread_index(spread_of(id))),
            None => 0,
        };
        let others = (0..count).filter(|keyspace| *keyspace != likely);
        let once: Vec<usize> = [likely].into_iter().chain(others).collect();
        if count > 1 { once.repeat(2) } else { once }
    }

    async fn ask_all(&self, keyspace: usize, mut questions: Vec<Question>, now: Time) -> Result<(), Failure> {
        while questions.iter().any(Question::is_open) {
            let mut by_place: BTreeMap<usize, Vec<&mut Question>> = BTreeMap::new();
            for question in questions.iter_mut().filter(|question| question.is_open()) {
                by_place.entry(question.places.remove(0)).or_default().push(question);
            }
            join_all(by_place.into_iter().map(|(there, asked)| self.ask_there(there, asked))).await;
        }
        let told = questions.iter().filter_map(|question| {
            let kind = question.answer.filter(|answer| matches!(answer, 'C' | 'F'))?;
            Some(self.release_item(question.shard, &question.task, question.id, kind, now))
        });
        let told = self.run_batch(told.collect::<Vec<_>>()).await?;
        let is_all_told = told.into_iter().all(|is_told| is_told);
        let mut answered: BTreeMap<TaskId, bool> = BTreeMap::new();
        for question in &questions {
            *answered.entry(question.task.id).or_insert(is_all_told) &= question.answer != Some('?');
        }
        for (is_answered, after) in [(true, ASK_AGAIN_ANSWERED), (false, limits::ASK_AGAIN)] {
            let these = answered.iter().filter(|(_, answer)| **answer == is_answered);
            let these: Vec<String> = these.map(|(id, _)| id.to_string()).collect();
            self.postpone(keyspace, "asks", &these, now.plus(after)).await?;
        }
        Ok(())
    }

    /// Asks one keyspace. What it does not have is asked of the next; what nobody has is gone.
    async fn ask_there(&self, keyspace: usize, asked: Vec<&mut Question>) {
        let shard = self.keyspaces[keyspace][0];
        let items: Vec<Item<String>> =
            asked.iter().map(|question| self.watch_item(shard, question)).collect();
        let answers = self.run_batch(items).await;
        for (at, question) in asked.into_iter().enumerate() {
            question.answer =
                match answers.as_ref().ok().and_then(|answers| answers.get(at)).map(String::as_str) {
                    Some("C") => Some('C'),
                    Some("F") => Some('F'),
                    Some("WATCHED") => Some('W'),
                    Some("NOWHERE") if !question.places.is_empty() => None,
                    Some("NOWHERE") => Some('F'),
                    _ => Some('?'),
                };
        }
    }

    fn watch_item(&self, shard: usize, question: &Question) -> Item<String> {
        let tenant = &question.task.body.tenant;
        let keyspace = self.keyspace_of(question.shard);
        let call = Call::new(Script::Watch, vec![self.shards[shard].keys.of("tasks")])
            .arg(question.id.to_string())
            .arg(tenant_text(tenant))
            .arg(&**tenant)
            .arg(format!("{} {}", question.task.id, self.partition_name(keyspace)));
        Item::ask(shard, call, |reply| Ok((Answered::of(reply)?.word, Vec::new())))
    }
}

impl Question {
    fn is_open(&self) -> bool {
        self.answer.is_none()
    }
}

/// What a new task has to wait for.
fn open(task: &NewTask, standings: &Standings) -> Linked {
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
