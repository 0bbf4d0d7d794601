//! What processes tell each other over the channel `codeq:ev`: that a queue has work (`r`), that a task has
//! ended (`d`), that tasks have moved to another shard (`m`), events (`e`), notices (`c`), and who listens to events or waits
//! for ends (see
//! [`crate::kvrocks::coordination::presence`]). Lossy by design: every waiter
//! also looks again by itself once a second.

use crate::kvrocks::coordination::events::EventSink;
use crate::kvrocks::format::keys::queue_text;
use crate::kvrocks::redis::connection::{Command, Connection, Target, listen};
use crate::kvrocks::redis::gate::Gate;
use codeq_queue::{Failure, QueueKey, TaskId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Messages that wait to be sent; more are dropped. Events have room of their own, because many of them must
/// not be the reason that a wake-up is lost.
const WAITING: usize = 8192;
/// Messages sent together.
const TOGETHER: usize = 512;
/// The first field of an event of any database but the first.
const DATABASE: &str = "\"db\":";
/// Before a broken subscription is tried again.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone)]
pub struct Publisher {
    line: Line,
    messages: mpsc::Sender<String>,
    events: mpsc::Sender<String>,
}

#[derive(Clone)]
struct Line {
    connection: Arc<Connection>,
    channel: Arc<str>,
    /// What our events begin with: channels are the same in every database of a server.
    mark: Arc<str>,
}

impl Line {
    async fn publish(&self, messages: impl IntoIterator<Item = String>) -> Result<(), Failure> {
        let publish = |message: String| Command::new("PUBLISH").arg(&*self.channel).arg(message);
        let commands: Vec<Command> = messages.into_iter().map(publish).collect();
        let sent = self.connection.exchange(&commands).await;
        sent.map(|_| ()).map_err(|trouble| Failure::unavailable(trouble.text()))
    }

    /// What is said twice is sent once.
    async fn send_messages(self, mut waiting: mpsc::Receiver<String>) {
        while let Some(first) = waiting.recv().await {
            let mut together = BTreeSet::from([first]);
            while together.len() < TOGETHER {
                let Ok(next) = waiting.try_recv() else { break };
                together.insert(next);
            }
            if let Err(failure) = self.publish(together).await {
                tracing::debug!(err = %failure, "wake-ups were not published");
            }
        }
    }

    /// In their order.
    async fn send_events(self, mut waiting: mpsc::Receiver<String>) {
        let mut together = Vec::new();
        while waiting.recv_many(&mut together, TOGETHER).await > 0 {
            if let Err(failure) = self.publish(together.drain(..)).await {
                tracing::debug!(err = %failure, "events were not published");
            }
        }
    }
}

impl Publisher {
    pub fn start(connection: Arc<Connection>, channel: &str) -> Publisher {
        let mark = match connection.target().backend.db {
            0 => String::new(),
            db => format!("{DATABASE}{db},"),
        };
        let line = Line { connection, channel: channel.into(), mark: mark.into() };
        let (messages, waiting) = mpsc::channel(WAITING);
        tokio::spawn(line.clone().send_messages(waiting));
        let (events, waiting) = mpsc::channel(WAITING);
        tokio::spawn(line.clone().send_events(waiting));
        Publisher { line, messages, events }
    }

    pub fn filled(&self, queue: &QueueKey) {
        self.say(format!("r {}", queue_text(queue)));
    }

    pub fn ended(&self, id: TaskId) {
        self.say(format!("d {id}"));
    }

    pub fn say(&self, message: String) {
        let _ = self.messages.try_send(message);
    }

    /// `event` is a JSON object that is not empty.
    pub fn event(&self, event: &str) {
        let fields = event.strip_prefix('{').unwrap_or(event);
        let _ = self.events.try_send(format!("e {{{}{fields}", self.line.mark));
    }

    pub fn notice(&self, notice: &str) {
        self.say(format!("c {notice}"));
    }

    /// Whether an event is of our database.
    fn is_ours(&self, event: &str) -> bool {
        let fields = event.strip_prefix('{').unwrap_or(event);
        match &*self.line.mark {
            "" => !fields.starts_with(DATABASE),
            mark => fields.starts_with(mark),
        }
    }

    /// Returns when the server has handed the message to everyone who hears.
    pub async fn publish(&self, message: String) -> Result<(), Failure> {
        self.line.publish([message]).await
    }
}

/// Listens until the store is closed.
pub async fn hear(target: Target, channel: String, teller: Arc<EventSink>, gate: Arc<Gate>) {
    loop {
        let times_away = gate.times_away();
        let reason = tokio::select! {
            reason = listen(&target, &channel, |message| heard(message, &teller)) => reason,
            // A server that was cut off does not hang up.
            reason = gate.shuts(times_away) => reason,
        };
        tracing::debug!(err = reason, "not listening to other processes");
        tokio::time::sleep(PAUSE).await;
    }
}

fn heard(message: &[u8], teller: &EventSink) {
    let text = String::from_utf8_lossy(message);
    match text.split_once(' ') {
        Some(("r", queue)) => {
            if let Some((command, tenant)) = queue.split_once(':') {
                teller.claims.ring(&QueueKey::new(tenant, &command.replace("%3a", ":")));
            }
        }
        Some(("d", id)) => {
            if let Some(id) = TaskId::parse(id) {
                teller.watchers.tell(id);
            }
        }
        Some(("e", event)) => {
            if teller.publisher.is_ours(event) {
                teller.presence.tell(Some(event));
            }
        }
        Some(("m", _)) => {
            teller.memory.forget_all();
            teller.moved.notify_one();
        }
        Some(("c", notice)) => teller.presence.tell_notice(notice),
        Some(("l", process)) => teller.presence.heard_of(process),
        Some(("v", process)) => teller.presence.heard_of_callers(process),
        Some(("w", _)) => teller.presence.answers().for_each(|answer| teller.publisher.say(answer)),
        Some(_) => {}
        None => {
            // From here on everything is heard; before it anything may have been said.
            teller.claims.ring_all();
            teller.watchers.tell_all();
            teller.memory.forget_all();
            teller.presence.tell(None);
            teller.presence.hears.notify_one();
            teller.publisher.say(teller.presence.question());
        }
    }
}
