//! Events of all processes over one keyspace: ours go to the others while somebody listens there, theirs come
//! to us. Every process counts everything that happens in it, sent or not, so that listeners notice
//! what did not arrive.

use super::notice::Notice;
use codeq_api::events::EventBody;
use codeq_queue::{Event, Shared};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a listening process announces itself; announcements may get lost.
pub const AGAIN: Duration = Duration::from_secs(5);
/// How long a reader waits for the other processes to learn about it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Processes whose last event is remembered; when the table is full it is cleared.
const PROCESSES: usize = 1000;

/// An event on its way, with who sent it and how many it had told of before.
#[derive(Serialize, Deserialize)]
struct Sent<'a> {
    from: Cow<'a, str>,
    n: u64,
    #[serde(flatten)]
    body: EventBody<'a>,
}

pub struct Others {
    /// Tells our events from those of others.
    name: String,
    shared: Arc<dyn Shared>,
    /// Events that have happened in this process.
    happened: Mutex<u64>,
    /// The number of the next event of each process.
    expected: Mutex<HashMap<String, u64>>,
}

/// What has come from another process.
#[derive(Default)]
pub struct Heard {
    /// So many have not come, zero if nobody knows.
    pub missed: Option<u64>,
    pub notice: Option<Notice>,
}

impl Others {
    pub fn new(epoch: u64, shared: Arc<dyn Shared>) -> Others {
        let name = format!("{epoch:x}");
        Others { name, shared, happened: Mutex::default(), expected: Mutex::default() }
    }

    pub async fn announce(&self) {
        match tokio::time::timeout(PATIENCE, self.shared.announce()).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::debug!(err = %failure, "listening was not announced"),
            Err(_) => tracing::debug!("listening was not announced in time"),
        }
    }

    /// Counts, and sends if somebody listens. The lock keeps what is sent in the order of its numbers.
    pub fn tell(&self, events: &[Event]) {
        let mut happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.is_heard() {
            for (n, event) in (*happened..).zip(events) {
                self.shared.send_event(self.write(n, &Notice::of(event)));
            }
        }
        *happened += events.len() as u64;
    }

    fn write(&self, n: u64, notice: &Notice) -> String {
        let sent = Sent { from: self.name.as_str().into(), n, body: notice.body(notice.at.to_utc()) };
        serde_json::to_string(&sent).expect("a struct of texts and numbers is JSON")
    }

    fn expected(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody has listened for a while: what has happened since is not missed.
    pub fn forget(&self) {
        self.expected().clear();
    }

    /// `None`: something may have been overheard.
    pub fn hear(&self, event: Option<&str>) -> Heard {
        let Some(text) = event else { return Heard { missed: Some(0), notice: None } };
        let Ok(sent) = serde_json::from_str::<Sent<'_>>(text) else { return Heard::default() };
        if sent.from == self.name.as_str() {
            return Heard::default();
        }
        let mut expected = self.expected();
        if expected.len() >= PROCESSES && !expected.contains_key(&*sent.from) {
            expected.clear();
        }
        let next = expected.insert(sent.from.into_owned(), sent.n.saturating_add(1)).unwrap_or(sent.n);
        let missed = sent.n.checked_sub(next).filter(|missed| *missed > 0);
        Heard { missed, notice: Notice::read(&sent.body) }
    }
}
