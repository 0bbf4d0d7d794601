//! What is kept under which key. All keys of a shard share a prefix, and in a cluster a hash tag.

use codeq_queue::QueueKey;

#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
    /// Behind the names of queues, unless the shard is the one called `default`.
    suffix: String,
    is_cluster: bool,
}

impl Keys {
    pub fn new(shard: &str, is_cluster: bool) -> Keys {
        let prefix = match is_cluster {
            true => format!("codeq:{{{}}}:", crate::kvrocks::context::spread::tag(shard)),
            false => "codeq:".into(),
        };
        let suffix = if shard == "default" { String::new() } else { format!(":s:{shard}") };
        Keys { prefix, suffix, is_cluster }
    }

    /// What stands behind the names of its queues.
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// The key that names the task of a unique key.
    pub fn unique(&self, queue: &QueueKey, key: &str) -> String {
        format!("{}unique:{}", self.prefix, crate::kvrocks::format::asked::unique_name(queue, key))
    }

    /// A key that has a name of its own: `tasks`, `tasks:ttl`, `outbox:due`, ...
    pub fn of(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub fn lease_prefix(&self) -> String {
        self.of("lease:")
    }

    /// The member of `codeq:queues` that names a queue.
    pub fn queue_name(&self, queue: &QueueKey) -> String {
        format!("{}{}", queue_text(queue), self.suffix)
    }

    /// The queue that a member of `codeq:queues` names; `None` for one of another shard on the same server.
    pub fn parse_queue(&self, member: &str) -> Option<QueueKey> {
        let (command, rest) = member.split_once(':')?;
        let tenant = rest.strip_suffix(self.suffix.as_str())?;
        let is_other = self.suffix.is_empty() && is_sharded(tenant);
        (!is_other).then(|| QueueKey::new(tenant, &command.replace("%3a", ":")))
    }

    /// What the keys of a queue begin with.
    pub fn base(&self, queue: &QueueKey) -> String {
        format!("{}q:{}", self.prefix, self.queue_name(queue))
    }

    /// The keys of a queue: ready ids by priority, then running ids, leases, delayed and dead ids, how many
    /// ids of each priority are not pending any more, and held ids.
    pub fn queue(&self, queue: &QueueKey) -> Vec<String> {
        let base = self.base(queue);
        let pending = (0..10).map(|priority| format!("{base}:pending:{priority}"));
        let others =
            ["inprog", "leases", "delayed", "dlq", "stale", "held"].map(|part| format!("{base}:{part}"));
        pending.chain(others).collect()
    }

    /// A key of a queue that only those have that something restricts (see `scripts/lanes.lua`).
    pub fn flow(&self, queue: &QueueKey, part: &str) -> String {
        format!("{}:{part}", self.base(queue))
    }

    /// What scripts about tasks of a queue make their keys of.
    pub fn with_queue(&self, queue: &QueueKey) -> Vec<String> {
        vec![self.of("tasks"), self.base(queue)]
    }

    /// Names the queues of one tenant.
    pub fn queues_of(&self, tenant: &str) -> String {
        format!("{}queues:{tenant}", self.prefix)
    }

    pub fn idempotency(&self, queue: &QueueKey, key: &str) -> String {
        format!("{}idem:{}:{key}", self.prefix, queue_text(queue))
    }

    /// The key of the original server, which no cluster has.
    pub fn legacy_idempotency(&self, key: &str) -> Option<String> {
        (!self.is_cluster).then(|| format!("codeq:idempo:{key}"))
    }

    pub fn subscriptions_of(&self, queue: &QueueKey) -> String {
        format!("{}subs:q:{}", self.prefix, queue_text(queue))
    }

    /// The subscriptions of a tenant, by expiry.
    pub fn subscriptions_of_tenant(&self, tenant: &str) -> String {
        format!("{}subs:t:{tenant}", self.prefix)
    }

    /// Lives while a subscription rests.
    pub fn last_told(&self, subscription: u128) -> String {
        format!("{}subs:last:{subscription:032x}", self.prefix)
    }

    /// Counts the turns of a group.
    pub fn turns(&self, queue: &QueueKey, group: &str) -> String {
        format!("{}subs:rr:{}:{group}", self.prefix, queue_text(queue))
    }
}

/// `<cmd>:<T>`; the colons of a command are escaped, those of a tenant stand behind the first.
pub fn queue_text(queue: &QueueKey) -> String {
    format!("{}:{}", queue.command.replace(':', "%3a"), queue.tenant)
}

/// Ends in `:s:<shard>`. A tenant of such a name cannot be told from a shard's queue; the contract's names of
/// shards make it unlikely.
fn is_sharded(tenant: &str) -> bool {
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    tenant
        .rsplit_once(":s:")
        .is_some_and(|(_, shard)| (1..=64).contains(&shard.len()) && shard.bytes().all(legal))
}

/// What stands behind the name of a queue in a member of `codeq:queues`: that of its shard, or nothing.
pub fn suffix_of(member: &str) -> &str {
    let tenant = member.split_once(':').map_or("", |(_, rest)| rest);
    match tenant.rfind(":s:").filter(|_| is_sharded(tenant)) {
        Some(at) => &tenant[at..],
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_contract() {
        let keys = Keys::new("default", false);
        let queue = QueueKey::new("acme:eu", "A:b");
        assert_eq!(keys.queue(&queue)[9], "codeq:q:a%3ab:acme:eu:pending:9");
        assert_eq!(keys.of("tasks:ttl"), "codeq:tasks:ttl");
        assert_eq!(keys.idempotency(&queue, "k"), "codeq:idem:a%3ab:acme:eu:k");
        assert_eq!(keys.last_told(7), format!("codeq:subs:last:{:032x}", 7));
        assert_eq!(keys.turns(&queue, "g:1"), "codeq:subs:rr:a%3ab:acme:eu:g:1");
        let video = Keys::new("video", true);
        assert_eq!(video.queue(&queue)[10], "codeq:{video}:q:a%3ab:acme:eu:s:video:inprog");
        assert_eq!(video.of("tasks"), "codeq:{video}:tasks");
    }

    #[test]
    fn queues_are_read_back_by_the_shard_they_belong_to() {
        let queue = QueueKey::new("acme:eu", "a:b");
        let (main, video) = (Keys::new("default", false), Keys::new("video", false));
        assert_eq!(main.parse_queue(&main.queue_name(&queue)), Some(queue.clone()));
        assert_eq!(video.parse_queue(&video.queue_name(&queue)), Some(queue.clone()));
        assert_eq!(main.parse_queue(&video.queue_name(&queue)), None);
        assert_eq!(suffix_of(&video.queue_name(&queue)), video.suffix());
        assert_eq!(
            (suffix_of(&main.queue_name(&queue)), suffix_of("a:s:video"), suffix_of("a")),
            ("", "", "")
        );
        assert_eq!(video.parse_queue(&main.queue_name(&queue)), None);
    }
}
