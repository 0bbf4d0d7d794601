//! Group commit: many operations, one EXEC.
//!
//! A caller hands over its script calls and sleeps. One task per server takes all that waits, up to a bound,
//! sends MULTI, the calls and EXEC in one write, and settles every operation by the replies in its places.
//! While one group is on its way the next gathers, so there is no timer to tune.
//!
//! Promise: when an operation is settled with replies, the server has executed all of its calls, in order and
//! with nothing of this connection in between, and as many replicas as wanted have them (see [`replication`]).
//! What became durable together is told together and in order.
//!
//! [`replication`]: crate::kvrocks::redis::replication

use crate::kvrocks::redis::connection::{Command, Connection, ExchangeError, Held, Reply};
use crate::kvrocks::redis::replication::{Replication, UNCONFIRMED};
use crate::kvrocks::redis::script::{AUDITED, Call, NOTED, Names};
use codeq_queue::{Event, Failure};
use std::collections::VecDeque;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Calls in one group, unless a single operation has more.
const GROUP_CALLS: usize = 128;
/// Bytes after which a group is closed: a few milliseconds of the server's time.
const GROUP_BYTES: usize = 512 << 10;
/// Groups on their way at once. The second goes only when it is full: a smaller one does better to gather.
const GROUPS_IN_FLIGHT_MAX: usize = 2;
/// Batches of operations that wait; who comes then waits for room.
const WAITING: usize = 1024;
/// How long is repeated what a server did not execute: because it did not know a script, moved a slot, is no master
/// any more, or loads.
const REPEATED_FOR: Duration = Duration::from_secs(1);
const REPEAT_PAUSE: Duration = Duration::from_millis(50);

pub type Tell = Arc<dyn Fn(Vec<Event>) + Send + Sync>;
/// Told when a script has left something for others.
pub type Nudge = Arc<dyn Fn() + Send + Sync>;
type Settle = Box<dyn FnOnce(Result<Vec<Reply>, Failure>) -> Vec<Event> + Send>;
type Undo = Box<dyn FnOnce(Vec<Reply>) + Send>;

/// Calls that belong together, and what is made of their replies.
pub struct Operation {
    calls: Vec<Call>,
    settle: Settle,
    /// Whether it counts only when replicas have it.
    waits: bool,
    /// Takes back what was done but not confirmed.
    undo: Option<Undo>,
}

impl Operation {
    /// `settle` makes the answer of the replies, and what is to be told.
    pub fn new<T: Send + 'static>(
        calls: Vec<Call>,
        settle: impl FnOnce(Vec<Reply>) -> Result<(T, Vec<Event>), Failure> + Send + 'static,
    ) -> (Operation, oneshot::Receiver<Result<T, Failure>>) {
        let (reply, answer) = oneshot::channel();
        let settle: Settle = Box::new(move |replies| match replies.and_then(settle) {
            Ok((value, events)) => {
                let _ = reply.send(Ok(value));
                events
            }
            Err(failure) => {
                let _ = reply.send(Err(failure));
                Vec::new()
            }
        });
        (Operation { calls, settle, waits: true, undo: None }, answer)
    }

    /// Good enough when the master has it: what a failover takes of it does no harm.
    pub fn without_waiting(self) -> Operation {
        Operation { waits: false, ..self }
    }

    pub fn or_undo(self, undo: impl FnOnce(Vec<Reply>) + Send + 'static) -> Operation {
        Operation { undo: Some(Box::new(undo)), ..self }
    }
}

/// Hands operations to the task that sends them.
#[derive(Clone)]
pub struct Writer {
    operations: mpsc::Sender<Vec<Operation>>,
}

impl Writer {
    /// The task ends when every `Writer` is gone.
    pub fn start(
        connection: Arc<Connection>,
        names: Arc<RwLock<Names>>,
        replication: Option<Arc<Replication>>,
        (tell, nudge): (Tell, Nudge),
    ) -> Writer {
        let (operations, waiting) = mpsc::channel(WAITING);
        let departed = watch::channel(0).0;
        let sender = Arc::new(Sender { connection, names, replication, tell, nudge, departed });
        tokio::spawn(sender.run(waiting));
        Writer { operations }
    }

    /// Hands operations over together: as far as they fit into a group they share one.
    pub async fn hand_over(&self, operations: Vec<Operation>) -> Result<(), Failure> {
        self.operations.send(operations).await.map_err(|_| Failure::Closed)
    }

    pub async fn run<T: Send + 'static>(
        &self,
        calls: Vec<Call>,
        settle: impl FnOnce(Vec<Reply>) -> Result<(T, Vec<Event>), Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (operation, answer) = Operation::new(calls, settle);
        self.hand_over(vec![operation]).await?;
        answer.await.unwrap_or(Err(Failure::Closed))
    }
}

struct Sender {
    connection: Arc<Connection>,
    names: Arc<RwLock<Names>>,
    replication: Option<Arc<Replication>>,
    tell: Tell,
    nudge: Nudge,
    /// How many groups have departed: each waits for those before it.
    departed: watch::Sender<u64>,
}

impl Sender {
    async fn run(self: Arc<Self>, mut waiting: mpsc::Receiver<Vec<Operation>>) {
        let (mut gathered, mut number) = (VecDeque::new(), 0);
        let mut flights: VecDeque<JoinHandle<Group>> = VecDeque::new();
        loop {
            while let Some(more) = (gathered.len() < GROUP_CALLS).then(|| waiting.try_recv().ok()).flatten() {
                gathered.extend(more);
            }
            self.depart(&mut gathered, &mut flights, &mut number);
            let Some(first) = flights.front_mut() else {
                let Some(more) = waiting.recv().await else { return };
                gathered.extend(more);
                continue;
            };
            tokio::select! {
                landed = first => {
                    flights.pop_front();
                    self.depart(&mut gathered, &mut flights, &mut number);
                    // Whoever waits for a flight that broke down is told that the store is closed.
                    landed.map(|group| self.settle(group)).unwrap_or_default();
                }
                Some(more) = waiting.recv(), if gathered.len() < GROUP_CALLS => gathered.extend(more),
            }
        }
    }

    /// Sends what has gathered: as soon as nothing is on its way, or a group is full.
    fn depart(
        self: &Arc<Self>,
        gathered: &mut VecDeque<Operation>,
        flights: &mut VecDeque<JoinHandle<Group>>,
        number: &mut u64,
    ) {
        while !gathered.is_empty()
            && (flights.is_empty() || (flights.len() < GROUPS_IN_FLIGHT_MAX && fills_a_group(gathered)))
        {
            flights.push_back(tokio::spawn(self.clone().fly(group(gathered), *number)));
            *number += 1;
        }
    }

    async fn fly(self: Arc<Self>, operations: Vec<Operation>, number: u64) -> Group {
        let departure = Departure { sender: &self, number };
        let _ = self.departed.subscribe().wait_for(|departed| *departed >= number).await;
        let mut group =
            Group { operations, replies: Ok(Vec::new()), is_unconfirmed: false, events: Vec::new() };
        if self.replication.as_ref().is_some_and(|replication| replication.is_degraded()) {
            group.refuse_waiting(self.replication.as_deref());
        }
        let waits = self.replication.is_some() && group.operations.iter().any(|operation| operation.waits);
        let sent = Instant::now();
        let executed = {
            let calls: Vec<&Call> = group.operations.iter().flat_map(|operation| &operation.calls).collect();
            self.execute(&calls, waits, &departure).await
        };
        match executed {
            Err(failure) => group.replies = Err(failure),
            Ok((replies, last)) => {
                group.replies = Ok(replies);
                if waits {
                    group.settle_hasty();
                    group.is_unconfirmed = !self.is_confirmed(last, sent).await;
                }
            }
        }
        group
    }

    /// Waits for replicas, and begins to probe the server if they have failed to confirm too often.
    async fn is_confirmed(&self, last: Option<(Held, Reply)>, sent: Instant) -> bool {
        let (Some(replication), Some((mut line, answer))) = (&self.replication, last) else { return true };
        let is_confirmed = replication.confirm(&mut line, answer, sent).await;
        if replication.note(is_confirmed) {
            tokio::spawn(replication.clone().probe(self.connection.clone()));
        }
        is_confirmed
    }

    fn settle(&self, group: Group) {
        let Group { operations, replies, is_unconfirmed, mut events } = group;
        let mut replies = replies.map(Vec::into_iter);
        for operation in operations {
            let share = match &mut replies {
                Ok(replies) => checked(replies.by_ref().take(operation.calls.len()).collect()),
                Err(failure) => Err(failure.clone()),
            };
            let share = match (share, operation.undo) {
                (Ok(done), Some(undo)) if is_unconfirmed => {
                    undo(done);
                    Err(Failure::unknown(UNCONFIRMED))
                }
                (Ok(_), None) if is_unconfirmed => Err(Failure::unknown(UNCONFIRMED)),
                (share, _) => share,
            };
            events.extend((operation.settle)(share));
        }
        if !events.is_empty() {
            (self.tell)(events);
        }
    }

    /// Executes every call once, repeating those that the server says it did not execute, for a while. With the
    /// answer of the last WAIT, and the line it came over.
    async fn execute(
        &self,
        calls: &[&Call],
        waits: bool,
        departure: &Departure<'_>,
    ) -> Result<(Vec<Reply>, Option<(Held, Reply)>), Failure> {
        let mut replies: Vec<Option<Reply>> = vec![None; calls.len()];
        let (mut last, mut refused, begun) = (None, None, Instant::now());
        let mut has_told_late = false;
        while replies.iter().any(Option::is_none) {
            let missing: Vec<usize> = (0..calls.len()).filter(|at| replies[*at].is_none()).collect();
            let sent: Vec<&Call> = missing.iter().map(|at| calls[*at]).collect();
            match self.exec(&sent, waits, departure).await {
                Ok(Executed::Moved(reason)) => refused = Some(Failure::unavailable(reason)),
                Ok(Executed::Done(done, waited)) => {
                    last = waited;
                    for (at, reply) in missing.into_iter().zip(done) {
                        refused = unexecuted_reason(&reply).map(Failure::unavailable).or(refused);
                        replies[at] = Some(reply).filter(|reply| unexecuted_reason(reply).is_none());
                    }
                }
                Err(failure @ Failure::Unavailable { outcome_unknown: false, .. }) => refused = Some(failure),
                Err(failure) => return Err(failure),
            }
            if replies.iter().all(Option::is_some) {
                break;
            }
            // Whoever does not know a script serves, and has only to be told it, however long it took to come to that.
            let is_ignorant = refused.as_ref().is_some_and(is_ignorance);
            if begun.elapsed() >= REPEATED_FOR && !std::mem::replace(&mut has_told_late, true) && is_ignorant
            {
                self.reload().await?;
                continue;
            }
            if begun.elapsed() >= REPEATED_FOR {
                return Err(refused.unwrap_or_else(|| Failure::unknown("the server does not keep scripts")));
            }
            self.try_again(refused.as_ref()).await?;
        }
        let replies: Option<Vec<Reply>> = replies.into_iter().collect();
        Ok((replies.unwrap_or_default(), last))
    }

    /// A server that has forgotten its scripts is told them. Of one that is not the master any more, or loads, the
    /// next connection is made to whoever is.
    async fn try_again(&self, refused: Option<&Failure>) -> Result<(), Failure> {
        if refused.is_some_and(is_ignorance) {
            return self.reload().await;
        }
        self.connection.hang_up().await;
        tokio::time::sleep(REPEAT_PAUSE).await;
        Ok(())
    }

    async fn exec(
        &self,
        calls: &[&Call],
        waits: bool,
        departure: &Departure<'_>,
    ) -> Result<Executed, Failure> {
        let mut commands = vec![Command::new("MULTI")];
        {
            let names = self.names.read().expect("no one panics holding the names");
            commands.extend(calls.iter().map(|call| names.command(call)));
        }
        commands.push(Command::new("EXEC"));
        let replication = self.replication.as_ref().filter(|_| waits);
        commands.extend(replication.iter().flat_map(|replication| replication.commands()));
        let (mut replies, line) =
            self.connection.exchange_held(&commands, || departure.done()).await.map_err(failure)?;
        let waited = replication.and_then(|_| replies.pop()).map(|answer| (line, answer));
        replies.truncate(calls.len() + 2);
        let exec = replies.pop();
        let done = match exec {
            Some(Reply::List(done)) if done.len() == calls.len() => done,
            other => return unexecuted(replies.into_iter().chain(other)),
        };
        Ok(Executed::Done(self.without_marks(calls, done), waited))
    }

    /// Replies as those who asked know them.
    fn without_marks(&self, calls: &[&Call], mut replies: Vec<Reply>) -> Vec<Reply> {
        let mut is_noted = false;
        for (call, reply) in calls.iter().zip(&mut replies) {
            let Reply::List(values) = reply else { continue };
            let ends_with =
                |values: &[Reply], mark| matches!(values.last(), Some(Reply::Text(last)) if last == mark);
            if ends_with(values, NOTED) {
                values.pop();
                is_noted = true;
            }
            if let Some(note) = call.note.as_ref().filter(|_| ends_with(values, AUDITED)) {
                values.pop();
                note.kept();
            }
        }
        if is_noted {
            (self.nudge)();
        }
        replies
    }

    async fn reload(&self) -> Result<(), Failure> {
        let names = Names::load(&self.connection).await.map_err(failure)?;
        *self.names.write().expect("no one panics holding the names") = names;
        Ok(())
    }
}

/// Operations that were sent together, and what became of them.
struct Group {
    operations: Vec<Operation>,
    replies: Result<Vec<Reply>, Failure>,
    /// Executed, but not by as many replicas as wanted.
    is_unconfirmed: bool,
    /// Of those that were settled already.
    events: Vec<Event>,
}

impl Group {
    /// Refuses unwritten whatever counts only when replicas have it.
    fn refuse_waiting(&mut self, replication: Option<&Replication>) {
        let (waiting, hasty) = std::mem::take(&mut self.operations).into_iter().partition(|each| each.waits);
        self.operations = hasty;
        let waiting: Vec<Operation> = waiting;
        for operation in waiting {
            let refusal = replication.map_or(Failure::Closed, Replication::refusal);
            self.events.extend((operation.settle)(Err(refusal)));
        }
    }

    /// Settles those that need not wait for replicas.
    fn settle_hasty(&mut self) {
        let Ok(replies) = &mut self.replies else { return };
        let mut replies = std::mem::take(replies).into_iter();
        let (mut left, mut left_replies) = (Vec::new(), Vec::new());
        for operation in std::mem::take(&mut self.operations) {
            let share: Vec<Reply> = replies.by_ref().take(operation.calls.len()).collect();
            if operation.waits {
                left_replies.extend(share);
                left.push(operation);
            } else {
                self.events.extend((operation.settle)(checked(share)));
            }
        }
        (self.operations, self.replies) = (left, Ok(left_replies));
    }
}

/// Lets the next group depart, at the latest when this one is over.
struct Departure<'a> {
    sender: &'a Sender,
    number: u64,
}

impl Departure<'_> {
    fn done(&self) {
        let next = self.number + 1;
        self.sender.departed.send_if_modified(|departed| {
            let is_later = next > *departed;
            *departed = next.max(*departed);
            is_later
        });
    }
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        self.done();
    }
}

enum Executed {
    /// The replies, and the answer to WAIT if one was sent.
    Done(Vec<Reply>, Option<(Held, Reply)>),
    /// Nothing was executed, because the slot lives elsewhere now, or the server is no master that serves.
    Moved(String),
}

/// EXEC was refused: nothing was executed. Why, the first refused command tells.
fn unexecuted(mut replies: impl Iterator<Item = Reply>) -> Result<Executed, Failure> {
    let refused = replies.find_map(|reply| match reply {
        Reply::Error(text) => Some(text),
        _ => None,
    });
    let text = refused.unwrap_or_else(|| "EXEC was not executed".into());
    match is_elsewhere(&text) || ["ASK", "TRYAGAIN"].iter().any(|code| text.starts_with(code)) {
        true => Ok(Executed::Moved(text)),
        false => Err(Failure::unavailable(text)),
    }
}

/// The server does not serve, and maybe another one does.
pub fn is_elsewhere(text: &str) -> bool {
    const ELSEWHERE: [&str; 5] = ["MOVED", "READONLY", "LOADING", "CLUSTERDOWN", "MASTERDOWN"];
    ELSEWHERE.iter().any(|code| text.starts_with(code))
}

/// The server has forgotten a script, or is another one.
fn is_ignorance(refused: &Failure) -> bool {
    refused.to_string().contains("NOSCRIPT")
}

fn fills_a_group(gathered: &VecDeque<Operation>) -> bool {
    let (mut calls, mut bytes) = (0, 0);
    gathered.iter().any(|operation| {
        let size = size(operation);
        (calls, bytes) = (calls + size.0, bytes + size.1);
        calls >= GROUP_CALLS || bytes >= GROUP_BYTES
    })
}

/// Takes from the front what fits together, at least one.
fn group(gathered: &mut VecDeque<Operation>) -> Vec<Operation> {
    let (mut group, mut calls, mut bytes) = (Vec::new(), 0, 0);
    while let Some(next) = gathered.front() {
        let size = size(next);
        let is_full = calls + size.0 > GROUP_CALLS || bytes + size.1 > GROUP_BYTES;
        if is_full && !group.is_empty() {
            break;
        }
        (calls, bytes) = (calls + size.0, bytes + size.1);
        group.extend(gathered.pop_front());
    }
    group
}

fn size(operation: &Operation) -> (usize, usize) {
    (operation.calls.len(), operation.calls.iter().map(Call::bytes).sum())
}

/// Why a call was surely not executed and is worth another try. A script that a replica runs cannot write, and says so as
/// data.
fn unexecuted_reason(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Error(text) => {
            let is_one = ["NOSCRIPT", "READONLY", "LOADING", "MOVED"].iter().any(|code| text.contains(code));
            is_one.then_some(text.as_str())
        }
        Reply::List(said) => match said.as_slice() {
            [Reply::Text(word), _, Reply::Text(why)] if word == b"REFUSED" => {
                std::str::from_utf8(why).ok().filter(|why| why.contains("READONLY"))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Replies are data; an error among them means that a script could not begin.
fn checked(replies: Vec<Reply>) -> Result<Vec<Reply>, Failure> {
    let error = replies.iter().find_map(|reply| match reply {
        Reply::Error(text) => Some(text),
        _ => None,
    });
    match error {
        None => Ok(replies),
        Some(text) => Err(refusal(text)),
    }
}

/// What a server means that did not execute something.
pub fn refusal(text: &str) -> Failure {
    match is_passing(text) {
        true => Failure::unavailable(text),
        false => Failure::Internal(text.to_owned()),
    }
}

/// Comes back by itself: no memory, no disk, a replica, a server that loads.
pub fn is_passing(text: &str) -> bool {
    const PASSING: [&str; 11] = [
        "OOM",
        "READONLY",
        "LOADING",
        "MISCONF",
        "NOREPLICAS",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "MASTERDOWN",
        "BUSY",
        "No space left",
        "space limit",
    ];
    PASSING.iter().any(|code| text.contains(code))
}

fn failure(trouble: ExchangeError) -> Failure {
    match trouble {
        ExchangeError::Unsent(reason) => Failure::unavailable(reason),
        ExchangeError::Lost(reason) => Failure::unknown(reason),
    }
}
