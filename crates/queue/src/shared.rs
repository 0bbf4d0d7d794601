//! What processes over one keyspace have in common besides tasks.
//!
//! Best effort: nothing here decides what becomes of a task, and whoever cannot ask goes on without an answer.

use crate::QueueKey;
use crate::store::Answer;
use crate::subscription::Subscription;
use std::sync::Arc;
use std::time::Duration;

/// How long it holds that a process listens to events.
pub const LISTENS: Duration = Duration::from_secs(20);

/// Gets every event that a process sends, this one included; `None` when some may have been missed.
pub type Hearer = Arc<dyn Fn(Option<&str>) + Send + Sync>;

/// Gets every notice that a process sends, this one included.
pub type NoticeHearer = Arc<dyn Fn(&str) + Send + Sync>;

/// The bucket of one caller in one scope.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bucket {
    /// What is counted: callers have a bucket for each scope.
    pub scope: &'static str,
    /// A hash that stands for the caller.
    pub caller: [u8; 32],
    /// How fast the bucket fills.
    pub per_second: f64,
    /// How many requests may come at once.
    pub capacity: u32,
}

/// Subscriptions of which one at most is told that a queue has filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lot {
    /// Which of the members.
    pub pick: Pick,
    /// In the order of their creation.
    pub members: Vec<Arc<Subscription>>,
}

/// Which one. Who rests, because it was told less than its interval ago, is passed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pick {
    /// The members of this group take turns.
    Turns(Box<str>),
    /// Counted round among those that do not rest.
    Number(u64),
}

/// See [`crate::Store::shared`].
pub trait Shared: Send + Sync {
    /// Takes one request out of a bucket that all processes take from, or tells in how many seconds there
    /// will be one.
    fn take_token(&self, bucket: Bucket) -> Answer<Result<(), u64>>;
    /// Who of the lots is told now, in their order. Whoever is chosen here rests for its interval, as far as
    /// every process is concerned.
    fn choose(&self, queue: QueueKey, lots: Vec<Lot>) -> Answer<Vec<Arc<Subscription>>>;

    /// Tells the other processes that this one listens to events for the next [`LISTENS`].
    fn announce(&self) -> Answer<()>;
    /// Whether another process listens.
    fn is_heard(&self) -> bool;
    /// Sends an event, a JSON object, to every process. Dropped when too many wait to be sent.
    fn send_event(&self, event: String);
    /// Who gets events from now on. Only the first call counts.
    fn hear_events(&self, hearer: Hearer);

    /// Tells every process what only one of them can pass on: a text in one line. Dropped when too many wait to be sent.
    fn send_notice(&self, notice: String);
    /// Who gets notices from now on. Only the first call counts.
    fn hear_notices(&self, hearer: NoticeHearer);

    /// Keeps what this process has seen of its workers where the others read it, for a while.
    fn keep_sightings(&self, text: String) -> Answer<()>;
    /// What the other processes have kept.
    fn sightings(&self) -> Answer<Vec<String>>;
}
