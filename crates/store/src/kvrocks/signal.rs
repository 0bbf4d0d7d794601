//! Wake-ups between processes over the channel `codeq:ev`. Lossy by design: every waiter also looks again by
//! itself once a second.

use super::connection::{Command, Connection, Target, listen};
use super::keys::queue_text;
use super::waiting::{Claims, Watchers};
use codeq_queue::{QueueKey, TaskId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Messages that wait to be sent; more are dropped.
const WAITING: usize = 8192;
/// Messages sent together.
const TOGETHER: usize = 512;
/// Before a broken subscription is tried again.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone)]
pub struct Publisher {
    messages: mpsc::Sender<String>,
}

impl Publisher {
    pub fn start(connection: Arc<Connection>, channel: String) -> Publisher {
        let (messages, mut waiting) = mpsc::channel::<String>(WAITING);
        tokio::spawn(async move {
            while let Some(first) = waiting.recv().await {
                let mut together = BTreeSet::from([first]);
                while together.len() < TOGETHER {
                    let Ok(next) = waiting.try_recv() else { break };
                    together.insert(next);
                }
                let publish = |message: String| Command::new("PUBLISH").arg(channel.as_str()).arg(message);
                let commands: Vec<Command> = together.into_iter().map(publish).collect();
                if let Err(trouble) = connection.exchange(&commands).await {
                    tracing::debug!(err = trouble.text(), "wake-ups were not published");
                }
            }
        });
        Publisher { messages }
    }

    pub fn filled(&self, queue: &QueueKey) {
        let _ = self.messages.try_send(format!("r {}", queue_text(queue)));
    }

    pub fn ended(&self, id: TaskId) {
        let _ = self.messages.try_send(format!("d {id}"));
    }
}

/// Listens until the store is closed.
pub async fn hear(target: Target, channel: String, claims: Arc<Claims>, watchers: Arc<Watchers>) {
    loop {
        let reason = listen(&target, &channel, |message| heard(message, &claims, &watchers)).await;
        tracing::debug!(err = reason, "not listening to wake-ups");
        tokio::time::sleep(PAUSE).await;
    }
}

fn heard(message: &[u8], claims: &Claims, watchers: &Watchers) {
    let text = String::from_utf8_lossy(message);
    match text.split_once(' ') {
        Some(("r", queue)) => {
            if let Some((command, tenant)) = queue.split_once(':') {
                claims.ring(&QueueKey::new(tenant, &command.replace("%3a", ":")));
            }
        }
        Some(("d", id)) => {
            if let Some(id) = TaskId::parse(id) {
                watchers.tell(id);
            }
        }
        Some(_) => {}
        None => {
            claims.ring_all();
            watchers.tell_all();
        }
    }
}
