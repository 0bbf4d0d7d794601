//! The subscriptions of a shard, found by id and counted by tenant.

use codeq_queue::subscription::Subscription;
use codeq_queue::{Time, limits};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

#[derive(Default)]
pub struct Subscriptions {
    /// With the order of their making.
    all: BTreeMap<u128, (u64, Subscription)>,
    by_tenant: HashMap<Arc<str>, BTreeSet<u128>>,
}

impl Subscriptions {
    pub fn get(&self, id: u128) -> Option<&(u64, Subscription)> {
        self.all.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(u64, Subscription)> {
        self.all.values()
    }

    pub fn insert(&mut self, order: u64, subscription: Subscription) {
        self.by_tenant.entry(subscription.tenant.clone()).or_default().insert(subscription.id);
        self.all.insert(subscription.id, (order, subscription));
    }

    pub fn remove(&mut self, id: u128) {
        let Some((_, gone)) = self.all.remove(&id) else { return };
        if let Some(ids) = self.by_tenant.get_mut(&gone.tenant) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_tenant.remove(&gone.tenant);
            }
        }
    }

    /// How many of a tenant have not expired, or as many as there may be. Those that have are counted only
    /// when it matters.
    pub fn living(&self, tenant: &str, now: Time) -> usize {
        let Some(ids) = self.by_tenant.get(tenant) else { return 0 };
        if ids.len() < limits::SUBSCRIPTIONS {
            return ids.len();
        }
        let is_living = |id: &&u128| self.all.get(id).is_some_and(|(_, s)| s.expires_at > now);
        ids.iter().filter(is_living).count()
    }
}
