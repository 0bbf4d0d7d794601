//! The tokens already verified.
//!
//! Every request passes here first: one hash of the token, one read lock of one shard, no
//! allocation. An entry holds until the token ends, five minutes pass, or the key that verified it
//! leaves its set. Only accepted tokens enter, so a stranger cannot fill the table.

use super::caller::Caller;
use codeq_queue::Time;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// How long a verification is believed at most.
pub const TOKEN_CACHE_TTL: Duration = Duration::from_secs(5 * 60);

const SHARDS: usize = 16;
/// 10,240 tokens and 16 MiB of token text over all shards.
const SHARD_TOKENS: usize = 640;
const SHARD_BYTES: usize = 1024 * 1024;

/// The kind of route a token was accepted for: the same token may be another caller on another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    Producer,
    Worker,
    Any,
}

/// The key set that verified a token, as it was then.
#[derive(Clone)]
pub struct Proof {
    /// Rises when a key leaves the set or changes.
    pub generation: Arc<AtomicU64>,
    pub seen: u64,
}

/// For how long and under which condition a verification may be believed.
#[derive(Clone)]
pub struct Standing {
    since: Time,
    until: Time,
    proof: Option<Proof>,
}

impl Standing {
    /// Believed from `now` for [`TOKEN_CACHE_TTL`].
    pub fn new(now: Time) -> Standing {
        Standing { since: now, until: now.plus(TOKEN_CACHE_TTL), proof: None }
    }

    /// No longer than that.
    pub fn until(self, end: Time) -> Standing {
        Standing { until: self.until.min(end), ..self }
    }

    /// Only while the key set keeps its keys.
    pub fn proven_by(self, proof: Proof) -> Standing {
        Standing { proof: Some(proof), ..self }
    }

    /// If the clock was set back, the entry is in doubt and the token is verified again.
    fn holds(&self, now: Time) -> bool {
        let is_proven = |proof: &Proof| proof.generation.load(Ordering::Acquire) == proof.seen;
        self.since <= now && now < self.until && self.proof.as_ref().is_none_or(is_proven)
    }
}

struct Entry {
    group: Group,
    token: Box<str>,
    caller: Arc<Caller>,
    standing: Standing,
    /// Counts up within the shard; the older half has the lower numbers.
    number: u64,
}

#[derive(Default)]
struct Shard {
    entries: HashTable<Entry>,
    bytes: usize,
    next: u64,
}

/// A bounded table of accepted tokens.
pub struct TokenCache {
    hasher: DefaultHashBuilder,
    shards: [RwLock<Shard>; SHARDS],
}

impl TokenCache {
    pub fn new() -> TokenCache {
        let shards = std::array::from_fn(|_| RwLock::new(Shard::default()));
        TokenCache { hasher: DefaultHashBuilder::default(), shards }
    }

    pub fn find(&self, group: Group, token: &str, now: Time) -> Option<Arc<Caller>> {
        self.look(group, token, now, |caller, _| caller.clone())
    }

    /// Also says how long the verification may still be believed.
    pub fn find_standing(&self, group: Group, token: &str, now: Time) -> Option<(Arc<Caller>, Standing)> {
        self.look(group, token, now, |caller, standing| (caller.clone(), standing.clone()))
    }

    pub fn remember(&self, group: Group, token: &str, caller: &Arc<Caller>, standing: Standing, now: Time) {
        let hash = self.hasher.hash_one((group, token));
        let mut shard = self.shard(hash).write().expect("no one panics holding a shard");
        shard.forget(hash, group, token);
        shard.make_room(token.len(), now);
        shard.insert(hash, &self.hasher, group, token, caller.clone(), standing);
    }

    fn look<T>(
        &self,
        group: Group,
        token: &str,
        now: Time,
        take: impl FnOnce(&Arc<Caller>, &Standing) -> T,
    ) -> Option<T> {
        let hash = self.hasher.hash_one((group, token));
        let shard = self.shard(hash).read().expect("no one panics holding a shard");
        let entry = shard.entries.find(hash, |entry| entry.is_for(group, token))?;
        entry.standing.holds(now).then(|| take(&entry.caller, &entry.standing))
    }

    /// The table uses the lowest and the highest bits of the hash, the choice of a shard others.
    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[(hash >> 40) as usize % SHARDS]
    }
}

impl Entry {
    fn is_for(&self, group: Group, token: &str) -> bool {
        self.group == group && *self.token == *token
    }
}

impl Shard {
    fn forget(&mut self, hash: u64, group: Group, token: &str) {
        if let Ok(found) = self.entries.find_entry(hash, |entry| entry.is_for(group, token)) {
            self.bytes -= found.remove().0.token.len();
        }
    }

    fn insert(
        &mut self,
        hash: u64,
        hasher: &DefaultHashBuilder,
        group: Group,
        token: &str,
        caller: Arc<Caller>,
        standing: Standing,
    ) {
        let entry = Entry { group, token: token.into(), caller, standing, number: self.next };
        self.next += 1;
        self.bytes += token.len();
        self.entries.insert_unique(hash, entry, |entry| hasher.hash_one((entry.group, &*entry.token)));
    }

    /// Drops what no longer holds, and if that is not enough the older half.
    fn make_room(&mut self, bytes: usize, now: Time) {
        if self.is_full(bytes) {
            self.keep(|entry| entry.standing.holds(now));
        }
        while self.is_full(bytes) && !self.entries.is_empty() {
            let mut numbers: Vec<u64> = self.entries.iter().map(|entry| entry.number).collect();
            let middle = numbers.len() / 2;
            let median = *numbers.select_nth_unstable(middle).1;
            self.keep(|entry| entry.number > median);
        }
    }

    fn is_full(&self, bytes: usize) -> bool {
        self.entries.len() >= SHARD_TOKENS || self.bytes + bytes > SHARD_BYTES
    }

    fn keep(&mut self, is_kept: impl Fn(&Entry) -> bool) {
        self.entries.retain(|entry| is_kept(entry));
        self.bytes = self.entries.iter().map(|entry| entry.token.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::claims::Identity;
    use serde_json::json;

    const NOW: Time = Time::from_millis(1_000_000);

    fn someone() -> Arc<Caller> {
        let claims = json!({"sub": "someone"}).as_object().cloned().unwrap_or_default();
        Arc::new(Identity::from_claims(claims, None, None).caller("t").expect("a tenant"))
    }

    fn sizes(known: &TokenCache) -> (usize, usize) {
        let shards: Vec<_> = known.shards.iter().map(|shard| shard.read().unwrap()).collect();
        (shards.iter().map(|s| s.entries.len()).sum(), shards.iter().map(|s| s.bytes).sum())
    }

    #[test]
    fn a_token_is_known_to_its_group_for_five_minutes() {
        let known = TokenCache::new();
        known.remember(Group::Worker, "t", &someone(), Standing::new(NOW), NOW);
        assert!(known.find(Group::Worker, "t", NOW).is_some());
        assert!(known.find(Group::Producer, "t", NOW).is_none());
        assert!(known.find(Group::Worker, "u", NOW).is_none());
        let end = NOW.plus(TOKEN_CACHE_TTL);
        assert!(known.find(Group::Worker, "t", Time::from_millis(end.millis() - 1)).is_some());
        assert!(known.find(Group::Worker, "t", end).is_none());
    }

    #[test]
    fn a_clock_set_back_makes_it_doubtful() {
        let known = TokenCache::new();
        known.remember(Group::Any, "t", &someone(), Standing::new(NOW), NOW);
        assert!(known.find(Group::Any, "t", Time::from_millis(NOW.millis() - 1)).is_none());
    }

    #[test]
    fn a_key_that_leaves_takes_its_tokens_along() {
        let generation = Arc::new(AtomicU64::new(3));
        let proof = Proof { generation: generation.clone(), seen: 3 };
        let known = TokenCache::new();
        known.remember(Group::Any, "t", &someone(), Standing::new(NOW).proven_by(proof), NOW);
        assert!(known.find(Group::Any, "t", NOW).is_some());
        generation.store(4, Ordering::Release);
        assert!(known.find(Group::Any, "t", NOW).is_none());
    }

    #[test]
    fn remembering_again_replaces() {
        let known = TokenCache::new();
        known.remember(Group::Any, "t", &someone(), Standing::new(NOW), NOW);
        let later = NOW.plus_seconds(200);
        known.remember(Group::Any, "t", &someone(), Standing::new(later), later);
        assert!(known.find(Group::Any, "t", later.plus_seconds(200)).is_some());
        assert_eq!(sizes(&known), (1, 1));
    }

    #[test]
    fn the_table_stays_within_its_bounds_and_keeps_the_newest() {
        let (known, caller) = (TokenCache::new(), someone());
        for n in 0..3 * SHARDS * SHARD_TOKENS {
            known.remember(Group::Any, &n.to_string(), &caller, Standing::new(NOW), NOW);
            assert!(known.find(Group::Any, &n.to_string(), NOW).is_some());
        }
        let (tokens, _) = sizes(&known);
        assert!((SHARDS * SHARD_TOKENS / 4..=SHARDS * SHARD_TOKENS).contains(&tokens), "{tokens}");
    }

    #[test]
    fn long_tokens_count_by_their_bytes() {
        let (known, caller) = (TokenCache::new(), someone());
        for n in 0..4096 {
            known.remember(Group::Any, &format!("{n:016384}"), &caller, Standing::new(NOW), NOW);
        }
        let (tokens, bytes) = sizes(&known);
        assert!(bytes <= SHARDS * SHARD_BYTES && bytes == tokens * 16384, "{bytes}");
    }

    #[test]
    fn the_ended_leave_before_the_living() {
        let mut shard = Shard::default();
        let hasher = DefaultHashBuilder::default();
        for n in 0..SHARD_TOKENS {
            let (token, end) = (n.to_string(), NOW.plus_seconds(if n % 2 == 0 { 1 } else { 100 }));
            let standing = Standing::new(NOW).until(end);
            let hash = hasher.hash_one((Group::Any, token.as_str()));
            shard.insert(hash, &hasher, Group::Any, &token, someone(), standing);
        }
        shard.make_room(1, NOW.plus_seconds(1));
        assert_eq!(shard.entries.len(), SHARD_TOKENS / 2);
        assert!(shard.entries.iter().all(|entry| entry.number % 2 == 1));
    }
}
