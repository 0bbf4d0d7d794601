//! What clients say to a server, over either protocol, and how it may go.

pub mod http;
pub mod stream;

use std::time::{Duration, Instant};

/// Longer than a healthy server takes, shorter than a round of killing.
pub const PATIENCE: Duration = Duration::from_secs(5);
pub const TOKEN: &str = "producer";

/// The tokens of workers, as many as a server takes.
pub const WORKER_TOKENS: [&str; 4] = ["worker-a", "worker-b", "worker-c", "worker-d"];

/// Why there is no success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// There was nobody to send it to.
    Unsent,
    /// It was sent, and nobody knows what became of it.
    Unknown,
    /// There was an answer, and it is no.
    Refused(String),
}

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// All commands if empty.
    pub commands: Vec<String>,
    pub lease: Duration,
    pub count: usize,
    pub is_waiting: bool,
}

/// Tasks that were lent together.
#[derive(Debug)]
pub struct Claimed {
    pub sent: Instant,
    pub received: Instant,
    pub lease: Duration,
    pub tasks: Vec<Lent>,
}

#[derive(Clone, Debug)]
pub struct Lent {
    pub id: String,
    pub attempt: u32,
    pub payload: Vec<u8>,
    /// As the server wrote it.
    pub lease_until: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    Complete,
    Fail,
    Nack { delay_seconds: u32 },
    Abandon { refund: bool },
    Beat { extend: Duration },
}

impl Deed {
    pub fn is_end(self) -> bool {
        matches!(self, Deed::Complete | Deed::Fail)
    }
}

#[derive(Clone, Debug)]
pub struct Report {
    pub id: String,
    pub attempt: u32,
    pub deed: Deed,
    /// What the result says: which attempt, by whom.
    pub mark: String,
}

/// A success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    Done,
    Back { delay: Duration },
    Dead,
}

/// A refusal of this text says that storage is away, so nobody knows.
fn refused(text: &str) -> Trouble {
    match text {
        "storage_unavailable" | "storage unavailable" | "batch submit failed" => Trouble::Unknown,
        _ => Trouble::Refused(text.to_owned()),
    }
}
