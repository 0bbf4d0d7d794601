//! Queues: the pair (command, tenant), what they are called and what they count.

use crate::id;
use crate::limits;
use crate::policy::StoredPolicy;
use crate::refusal::Refusal;
use std::sync::Arc;

/// Names one queue. The command is held lower-cased, because queues compare it without case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueKey {
    /// Queues of different tenants have nothing in common.
    pub tenant: Arc<str>,
    /// Lower-cased.
    pub command: Arc<str>,
}

impl QueueKey {
    /// The queue of a command, however that is spelled.
    pub fn new(tenant: &str, command: &str) -> QueueKey {
        QueueKey { tenant: tenant.into(), command: command.to_ascii_lowercase().into() }
    }

    /// The one storage partition that this queue lives on.
    pub fn shard(&self, shards: u32) -> u32 {
        if shards <= 1 {
            return 0;
        }
        let mut name = Vec::with_capacity(self.command.len() + 1 + self.tenant.len());
        name.extend_from_slice(self.command.as_bytes());
        name.push(0);
        name.extend_from_slice(self.tenant.as_bytes());
        id::shard_of(&name, shards)
    }
}

/// Trims and checks a command; the case is kept.
pub fn check_command(command: &str) -> Result<&str, Refusal> {
    let command = command.trim();
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b':' | b'-');
    if command.is_empty() || command.len() > limits::COMMAND_BYTES || !command.bytes().all(legal) {
        return Err(Refusal::InvalidCommand);
    }
    Ok(command)
}

/// Which queues a claim looks at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Commands {
    /// Every command of the tenant: highest priority first, then the earliest created head.
    Any,
    /// Lower-cased; the first with work wins.
    These(Arc<[Arc<str>]>),
}

impl Commands {
    /// Exactly these commands, in this order.
    pub fn these<'a>(commands: impl IntoIterator<Item = &'a str>) -> Commands {
        Commands::These(commands.into_iter().map(|c| c.to_ascii_lowercase().into()).collect())
    }
}

/// Whether head `a` comes before head `b`, each (priority, created at), in a claim of any command.
pub fn is_better(a: (u8, crate::Time), b: (u8, crate::Time)) -> bool {
    a.0 > b.0 || (a.0 == b.0 && a.1 < b.1)
}

/// The counts of one queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueStats {
    /// Whose queue.
    pub tenant: Arc<str>,
    /// Spelled as in the newest create.
    pub command: Arc<str>,
    /// Ready tasks by priority, 0 to 9.
    pub ready: [u64; 10],
    /// Tasks that wait for their time.
    pub delayed: u64,
    /// Tasks with a lease.
    pub in_progress: u64,
    /// Dead letters.
    pub dead: u64,
    /// Tasks that failed, neither dead nor cancelled, and are kept.
    pub failed: u64,
    /// Tasks that wait for others to end.
    pub held: u64,
    /// Claims pass the queue over.
    pub is_paused: bool,
    /// Lanes that have live tasks.
    pub lanes: u64,
    /// Ready tasks that a limit holds back.
    pub limited: u64,
    /// `None` if nothing restricts the queue.
    pub policy: Option<StoredPolicy>,
    /// When the oldest ready task was created.
    pub oldest_ready: Option<crate::Time>,
    /// When a claim last got a task, as far as this process has seen it.
    pub last_claim: Option<crate::Time>,
}

impl QueueStats {
    /// Of a queue in which nothing has happened.
    pub fn empty(key: &QueueKey) -> QueueStats {
        QueueStats {
            tenant: key.tenant.clone(),
            command: key.command.clone(),
            ready: [0; 10],
            delayed: 0,
            in_progress: 0,
            dead: 0,
            failed: 0,
            held: 0,
            is_paused: false,
            lanes: 0,
            limited: 0,
            policy: None,
            oldest_ready: None,
            last_claim: None,
        }
    }

    /// Ready tasks of all priorities.
    pub fn ready_total(&self) -> u64 {
        self.ready.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_trimmed_and_checked() {
        assert_eq!(check_command("  Render.video:v2_x-1 "), Ok("Render.video:v2_x-1"));
        let long = "a".repeat(129);
        for bad in ["", "  ", "a b", "a/b", "é", "a*", long.as_str()] {
            assert_eq!(check_command(bad), Err(Refusal::InvalidCommand), "{bad}");
        }
    }

    #[test]
    fn of_two_heads_the_higher_priority_then_the_older_is_better() {
        let head = |priority, millis| (priority, crate::Time::from_millis(millis));
        assert!(is_better(head(9, 2), head(8, 1)));
        assert!(is_better(head(5, 1), head(5, 2)));
        assert!(!is_better(head(5, 1), head(5, 1)));
    }

    #[test]
    fn queues_compare_commands_without_case() {
        assert_eq!(QueueKey::new("t", "Render"), QueueKey::new("t", "rENDER"));
        assert_ne!(QueueKey::new("t", "a"), QueueKey::new("T", "a"));
        let shard = QueueKey::new("acme", "Render").shard(4);
        assert_eq!(shard, id::shard_of(b"render\0acme", 4));
    }
}
