//! Group commit: many operations, one EXEC.
//!
//! A caller hands over its script calls and sleeps. One task per server takes all that waits, up to a bound,
//! sends MULTI, the calls and EXEC in one write, and settles every operation by the replies in its places.
//! While one group is on its way the next gathers, so there is no timer to tune.
//!
//! Promise: when an operation is settled with replies, the server has executed all of its calls, in order and
//! with nothing of this connection in between. What became durable together is told together and in order.

use super::connection::{Command, Connection, Reply, Trouble};
use super::script::{Call, Names};
use codeq_queue::{Event, Failure};
use std::collections::VecDeque;
use std::sync::{Arc, RwLock};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Calls in one group, unless a single operation has more.
const GROUP_CALLS: usize = 128;
/// Bytes after which a group is closed: a few milliseconds of the server's time.
const GROUP_BYTES: usize = 512 << 10;
/// Groups on their way at once. The second goes only when it is full: a smaller one does better to gather.
const FLIGHTS: usize = 2;
/// Batches of operations that wait; who comes then waits for room.
const WAITING: usize = 1024;
/// Repetitions of what a server did not execute because it did not know a script, or moved a slot.
const REPEATS: usize = 3;

pub type Tell = Arc<dyn Fn(Vec<Event>) + Send + Sync>;
type Settle = Box<dyn FnOnce(Result<Vec<Reply>, Failure>) -> Vec<Event> + Send>;

/// Calls that belong together, and what is made of their replies.
pub struct Operation {
    calls: Vec<Call>,
    settle: Settle,
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
        (Operation { calls, settle }, answer)
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
        wait_replicas: u32,
        tell: Tell,
    ) -> Writer {
        let (operations, waiting) = mpsc::channel(WAITING);
        let sender = Arc::new(Sender { connection, names, wait_replicas, tell });
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
    wait_replicas: u32,
    tell: Tell,
}

impl Sender {
    async fn run(self: Arc<Self>, mut waiting: mpsc::Receiver<Vec<Operation>>) {
        let mut gathered = VecDeque::new();
        let mut flights: VecDeque<JoinHandle<Group>> = VecDeque::new();
        loop {
            while let Some(more) = (gathered.len() < GROUP_CALLS).then(|| waiting.try_recv().ok()).flatten() {
                gathered.extend(more);
            }
            self.depart(&mut gathered, &mut flights);
            let Some(first) = flights.front_mut() else {
                let Some(more) = waiting.recv().await else { return };
                gathered.extend(more);
                continue;
            };
            tokio::select! {
                landed = first => {
                    flights.pop_front();
                    self.depart(&mut gathered, &mut flights);
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
    ) {
        while !gathered.is_empty()
            && (flights.is_empty() || (flights.len() < FLIGHTS && fills_a_group(gathered)))
        {
            flights.push_back(tokio::spawn(self.clone().fly(group(gathered))));
        }
    }

    async fn fly(self: Arc<Self>, operations: Vec<Operation>) -> Group {
        let calls: Vec<&Call> = operations.iter().flat_map(|operation| &operation.calls).collect();
        let replies = self.execute(&calls).await;
        drop(calls);
        Group { operations, replies }
    }

    fn settle(&self, group: Group) {
        let Group { operations, replies } = group;
        let mut replies = replies.map(Vec::into_iter);
        let mut events = Vec::new();
        for operation in operations {
            let share = match &mut replies {
                Ok(replies) => checked(replies.by_ref().take(operation.calls.len()).collect()),
                Err(failure) => Err(failure.clone()),
            };
            events.extend((operation.settle)(share));
        }
        if !events.is_empty() {
            (self.tell)(events);
        }
    }

    /// Executes every call once, repeating those that the server says it did not execute.
    async fn execute(&self, calls: &[&Call]) -> Result<Vec<Reply>, Failure> {
        let mut replies: Vec<Option<Reply>> = vec![None; calls.len()];
        for _ in 0..REPEATS {
            let missing: Vec<usize> = (0..calls.len()).filter(|at| replies[*at].is_none()).collect();
            if missing.is_empty() {
                break;
            }
            let sent: Vec<&Call> = missing.iter().map(|at| calls[*at]).collect();
            match self.exec(&sent).await? {
                Executed::Moved => self.connection.hang_up().await,
                Executed::Done(done) => {
                    for (at, reply) in missing.into_iter().zip(done) {
                        replies[at] = Some(reply).filter(|reply| !is_unknown_script(reply));
                    }
                    if replies.iter().any(Option::is_none) {
                        self.reload().await?;
                    }
                }
            }
        }
        let replies: Option<Vec<Reply>> = replies.into_iter().collect();
        replies.ok_or_else(|| Failure::unknown("the server does not keep scripts"))
    }

    async fn exec(&self, calls: &[&Call]) -> Result<Executed, Failure> {
        let mut commands = vec![Command::new("MULTI")];
        {
            let names = self.names.read().expect("no one panics holding the names");
            commands.extend(calls.iter().map(|call| names.command(call)));
        }
        commands.push(Command::new("EXEC"));
        if self.wait_replicas > 0 {
            let timeout = self.connection.target().timeout.as_millis().to_string();
            commands.push(Command::new("WAIT").arg(self.wait_replicas.to_string()).arg(timeout));
        }
        let mut replies = self.connection.exchange(&commands).await.map_err(failure)?;
        let confirmed = (self.wait_replicas > 0).then(|| replies.pop()).flatten();
        let exec = replies.pop();
        let done = match exec {
            Some(Reply::List(done)) if done.len() == calls.len() => done,
            other => return unexecuted(replies.into_iter().chain(other)),
        };
        if done.iter().any(|reply| matches!(reply, Reply::Error(text) if text.contains("READONLY"))) {
            // This server is a replica now; the next group looks for its master.
            self.connection.hang_up().await;
        }
        match confirmed {
            Some(Reply::Int(count)) if count < i64::from(self.wait_replicas) => {
                Err(Failure::unknown(format!("{count} of {} replicas confirmed", self.wait_replicas)))
            }
            _ => Ok(Executed::Done(done)),
        }
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
}

enum Executed {
    Done(Vec<Reply>),
    /// Nothing was executed, because the slot lives elsewhere now.
    Moved,
}

/// EXEC was refused: nothing was executed. Why, the first refused command tells.
fn unexecuted(mut replies: impl Iterator<Item = Reply>) -> Result<Executed, Failure> {
    let refused = replies.find_map(|reply| match reply {
        Reply::Error(text) => Some(text),
        _ => None,
    });
    let text = refused.unwrap_or_else(|| "EXEC was not executed".into());
    match ["MOVED", "ASK", "READONLY"].iter().any(|code| text.starts_with(code)) {
        true => Ok(Executed::Moved),
        false => Err(Failure::unavailable(text)),
    }
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

fn is_unknown_script(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.contains("NOSCRIPT"))
}

/// Replies are data; an error among them means that a script could not begin.
fn checked(replies: Vec<Reply>) -> Result<Vec<Reply>, Failure> {
    let error = replies.iter().find_map(|reply| match reply {
        Reply::Error(text) => Some(text),
        _ => None,
    });
    match error {
        None => Ok(replies),
        Some(text) if is_passing(text) => Err(Failure::unavailable(text.as_str())),
        Some(text) => Err(Failure::Internal(text.clone())),
    }
}

/// Comes back by itself: no memory, a replica, a server that loads.
fn is_passing(text: &str) -> bool {
    ["OOM", "READONLY", "LOADING", "MISCONF", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY"]
        .iter()
        .any(|code| text.contains(code))
}

fn failure(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Unsent(reason) => Failure::unavailable(reason),
        Trouble::Lost(reason) => Failure::unknown(reason),
    }
}
