//! The budget of bytes in flight: what bodies of requests, messages and large answers take in memory.
//!
//! Bytes are counted when they have arrived, never because somebody announced them, and are given back when
//! the request is over. The whole server has `limits.maxInFlightBytes`, a token at most a quarter of that and
//! a tenant, whatever the number of its tokens, at most half: one of them cannot take the room of all others.

use crate::auth::Caller;
use hashbrown::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A token gets this part of the whole.
const TOKEN_PART: usize = 4;
/// A tenant gets this part of the whole.
const TENANT_PART: usize = 2;
/// A tenant has this part of the whole also when others have taken all of it: small requests go on.
const KEPT_PART: usize = 64;
/// Locks; one token uses one of them.
const SHARDS: usize = 16;

/// There is no room at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overfull;

pub struct Budget {
    most: usize,
    taken: AtomicUsize,
    tokens: [Mutex<HashMap<[u8; 32], usize>>; SHARDS],
    tenants: [Mutex<HashMap<Arc<str>, usize>>; SHARDS],
}

impl Budget {
    pub fn new(most: usize) -> Arc<Budget> {
        let (tokens, tenants) = (Default::default(), Default::default());
        Arc::new(Budget { most, taken: AtomicUsize::new(0), tokens, tenants })
    }

    /// What one request, or one stream, of this caller takes.
    pub fn share(self: &Arc<Self>, caller: &Caller) -> Share {
        let (token, tenant) = (caller.token_hash, caller.tenant.clone());
        Share { budget: self.clone(), token, tenant, bytes: AtomicUsize::new(0) }
    }

    /// Bytes in flight now.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn token(&self, token: &[u8; 32]) -> MutexGuard<'_, HashMap<[u8; 32], usize>> {
        let shard = &self.tokens[usize::from(token[0]) % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tenant(&self, tenant: &str) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        let sum: usize = tenant.bytes().map(usize::from).sum();
        self.tenants[sum % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, token: &[u8; 32], tenant: &Arc<str>, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        *self.token(token).entry(*token).or_default() += bytes;
        *self.tenant(tenant).entry(tenant.clone()).or_default() += bytes;
    }

    fn give_back(&self, token: &[u8; 32], tenant: &Arc<str>, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        less(&mut self.token(token), token, bytes);
        less(&mut self.tenant(tenant), tenant, bytes);
    }

    fn is_overfull(&self, token: &[u8; 32], tenant: &Arc<str>) -> bool {
        // While all together have no more than one may have, nobody has too much.
        if self.taken() <= self.most / TOKEN_PART {
            return false;
        }
        let of_token = self.token(token).get(token).copied().unwrap_or(0);
        let of_tenant = self.tenant(tenant).get(tenant).copied().unwrap_or(0);
        let is_full = self.taken() > self.most && of_tenant > self.most / KEPT_PART;
        is_full || of_token > self.most / TOKEN_PART || of_tenant > self.most / TENANT_PART
    }
}

/// Entries without bytes in flight are removed.
fn less<K: std::hash::Hash + Eq>(taken: &mut HashMap<K, usize>, key: &K, bytes: usize) {
    let Some(left) = taken.get_mut(key) else { return };
    *left = left.saturating_sub(bytes);
    if *left == 0 {
        taken.remove(key);
    }
}

/// Some of the bytes of a share, given back when this is dropped.
pub struct Weight {
    share: Arc<Share>,
    bytes: usize,
}

impl Weight {
    /// Takes this many more bytes of the share if there is room for them.
    pub fn of(share: &Arc<Share>, bytes: usize) -> Result<Weight, Overfull> {
        share.grow(bytes)?;
        Ok(Weight { share: share.clone(), bytes })
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.share.less(self.bytes);
    }
}

/// Bytes that are given back when this is dropped.
pub struct Share {
    budget: Arc<Budget>,
    token: [u8; 32],
    tenant: Arc<str>,
    bytes: AtomicUsize,
}

impl Share {
    /// Takes this many more bytes if there is room for them.
    pub fn grow(&self, bytes: usize) -> Result<(), Overfull> {
        self.hold(bytes);
        match self.budget.is_overfull(&self.token, &self.tenant) {
            true => {
                self.less(bytes);
                Err(Overfull)
            }
            false => Ok(()),
        }
    }

    /// Takes this many more bytes, room or not: they are in memory already.
    pub fn hold(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.budget.take(&self.token, &self.tenant, bytes);
        }
    }

    pub fn less(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.budget.give_back(&self.token, &self.tenant, bytes);
        }
    }

    /// Whether the caller may begin something that takes room.
    pub fn has_room(&self) -> bool {
        !self.budget.is_overfull(&self.token, &self.tenant)
    }

    /// Gives everything back.
    pub fn clear(&self) {
        self.less(self.bytes.load(Ordering::Relaxed));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{EventTypes, Scopes};

    fn caller(tenant: &str, token: u8) -> Caller {
        Caller {
            subject: "s".into(),
            tenant: tenant.into(),
            scopes: Scopes::worker(),
            event_types: EventTypes::All,
            is_admin: false,
            is_observer: false,
            is_operator: false,
            worker_group: None,
            token_hash: [token; 32],
            expires_at: None,
            ends_at: None,
        }
    }

    #[test]
    fn a_token_gets_a_quarter_a_tenant_half_and_all_together_the_whole() {
        let budget = Budget::new(1000);
        let one = budget.share(&caller("acme", 1));
        assert_eq!(one.grow(250), Ok(()));
        assert_eq!(one.grow(1), Err(Overfull));
        let second = budget.share(&caller("acme", 2));
        assert_eq!((second.grow(250), second.has_room()), (Ok(()), true));
        assert_eq!(budget.share(&caller("acme", 3)).grow(1), Err(Overfull));
        let others: Vec<Share> = (4..6).map(|token| budget.share(&caller("globex", token))).collect();
        assert!(others.iter().all(|share| share.grow(250).is_ok()));
        let late = budget.share(&caller("initech", 9));
        assert_eq!(late.grow(100), Err(Overfull));
        assert_eq!(late.grow(15), Ok(()), "a little is kept for everyone");
        drop(second);
        assert_eq!(late.grow(100), Ok(()));
    }

    #[test]
    fn a_weight_takes_from_the_share_as_long_as_it_is_kept() {
        let budget = Budget::new(1000);
        let share = Arc::new(budget.share(&caller("acme", 1)));
        let weight = Weight::of(&share, 200);
        assert!(weight.is_ok() && Weight::of(&share, 100).is_err());
        assert_eq!(budget.taken(), 200);
        drop(weight);
        assert_eq!((budget.taken(), Weight::of(&share, 100).is_ok()), (0, true));
    }

    #[test]
    fn what_is_over_is_given_back_and_nobody_is_remembered() {
        let budget = Budget::new(1000);
        let share = budget.share(&caller("acme", 1));
        share.hold(900);
        assert!(!share.has_room());
        share.less(800);
        assert_eq!((share.has_room(), budget.taken()), (true, 100));
        drop(share);
        assert_eq!(budget.taken(), 0);
        assert!(budget.tokens.iter().all(|shard| shard.lock().unwrap().is_empty()));
        assert!(budget.tenants.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}
