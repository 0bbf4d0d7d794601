//! Which subscribers are notified of a queue that has filled. Pure: the time and the subscriptions are arguments.
//!
//! A [`View`] gives the candidates. This process's [`Chooser`] chooses among them where it is alone, and the store
//! where several processes notify.

use codeq_queue::shared::{Lot, Pick};
use codeq_queue::subscription::{DeliveryMode, Subscription};
use codeq_queue::{QueueKey, Time};
use std::collections::HashMap;
use std::sync::Arc;

/// Groups whose turn is remembered; when the table is full the turns start over.
const GROUPS: usize = 10_000;
/// Seconds for which the same hash-mode subscription is chosen.
const HASH_SECONDS: i64 = 60;

/// The living subscriptions of every tenant in creation order, found by command.
#[derive(Default)]
pub struct View {
    tenants: HashMap<Arc<str>, Tenant>,
}

#[derive(Default)]
struct Tenant {
    all: Vec<Arc<Subscription>>,
    by_event: HashMap<Box<str>, Vec<usize>>,
}

impl View {
    pub fn new(subscriptions: Vec<Subscription>) -> View {
        let mut tenants: HashMap<Arc<str>, Tenant> = HashMap::new();
        for subscription in subscriptions {
            let tenant = tenants.entry(subscription.tenant.clone()).or_default();
            let place = tenant.all.len();
            for event in &subscription.event_types {
                tenant.by_event.entry(event.clone()).or_default().push(place);
            }
            tenant.all.push(Arc::new(subscription));
        }
        View { tenants }
    }

    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    pub fn ids(&self) -> impl Iterator<Item = u128> {
        self.tenants.values().flat_map(|tenant| tenant.all.iter().map(|subscription| subscription.id))
    }

    /// Subscriptions to the command of a queue, in creation order.
    fn matching(&self, queue: &QueueKey) -> Vec<&Arc<Subscription>> {
        let Some(tenant) = self.tenants.get(&queue.tenant) else { return Vec::new() };
        let places = |event: &str| tenant.by_event.get(event).into_iter().flatten().copied();
        let mut found: Vec<usize> = places(&queue.command).chain(places("*")).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|place| &tenant.all[place]).collect()
    }

    /// The lots to choose from now: one for each fan-out subscription, one for each group, and one for all
    /// subscriptions in hash mode.
    pub fn lots(&self, queue: &QueueKey, now: Time) -> Vec<Lot> {
        let mut lots: Vec<Lot> = Vec::new();
        let (mut groups, mut hashed) = (Vec::<Lot>::new(), Vec::new());
        let mut known: HashMap<&str, usize> = HashMap::new();
        for subscription in self.matching(queue).into_iter().filter(|s| s.expires_at > now) {
            let member = subscription.clone();
            match subscription.mode {
                DeliveryMode::Fanout => lots.push(Lot { pick: Pick::Number(0), members: vec![member] }),
                DeliveryMode::Hash => hashed.push(member),
                DeliveryMode::Group => {
                    let group = subscription.group.as_deref().unwrap_or_default();
                    let place = *known.entry(group).or_insert(groups.len());
                    match groups.get_mut(place) {
                        Some(lot) => lot.members.push(member),
                        None => groups.push(Lot { pick: Pick::Turns(group.into()), members: vec![member] }),
                    }
                }
            }
        }
        lots.append(&mut groups);
        if !hashed.is_empty() {
            let minute = u64::try_from(now.millis().div_euclid(1000 * HASH_SECONDS)).unwrap_or(0);
            lots.push(Lot { pick: Pick::Number(minute), members: hashed });
        }
        lots
    }
}

/// Remembers when each subscription was notified and whose turn it is, where no other process notifies.
#[derive(Default)]
pub struct Chooser {
    told: HashMap<u128, Time>,
    turns: HashMap<(QueueKey, Box<str>), usize>,
}

impl Chooser {
    /// The subscriptions to notify now.
    pub fn choose(&mut self, lots: &[Lot], queue: &QueueKey, now: Time) -> Vec<Arc<Subscription>> {
        let chosen = lots.iter().filter_map(|lot| match &lot.pick {
            Pick::Turns(group) => self.next_member(queue, group, &lot.members, now),
            Pick::Number(number) => self.numbered(*number, &lot.members, now),
        });
        chosen.collect()
    }

    /// The next member in turn that may be told.
    fn next_member(
        &mut self,
        queue: &QueueKey,
        group: &str,
        members: &[Arc<Subscription>],
        now: Time,
    ) -> Option<Arc<Subscription>> {
        if self.turns.len() >= GROUPS {
            self.turns.clear();
        }
        let key = (queue.clone(), group.into());
        let turn = self.turns.get(&key).copied().unwrap_or(0);
        let mut places = (turn..turn + members.len()).map(|place| place % members.len());
        let place = places.find(|place| self.is_free(&members[*place], now))?;
        self.turns.insert(key, place + 1);
        Some(members[place].clone())
    }

    fn numbered(&self, number: u64, members: &[Arc<Subscription>], now: Time) -> Option<Arc<Subscription>> {
        let free: Vec<_> = members.iter().filter(|member| self.is_free(member, now)).collect();
        let place = number.checked_rem(u64::try_from(free.len()).ok()?)?;
        free.get(usize::try_from(place).ok()?).map(|member| (*member).clone())
    }

    /// It was told now: it rests for its interval.
    pub fn told(&mut self, subscription: &Subscription, now: Time) {
        if !subscription.min_interval.is_zero() {
            self.told.insert(subscription.id, now);
        }
    }

    /// Forgets those that are gone.
    pub fn keep(&mut self, view: &View) {
        let mut kept = HashMap::with_capacity(self.told.len());
        kept.extend(view.ids().filter_map(|id| Some((id, *self.told.get(&id)?))));
        self.told = kept;
    }

    fn is_free(&self, subscription: &Subscription, now: Time) -> bool {
        self.told.get(&subscription.id).is_none_or(|told| told.plus(subscription.min_interval) <= now)
    }
}

#[cfg(test)]
mod tests;
