//! Which queues of a tenant have something to claim, where these are many: the best, and some drawn evenly.

use super::{MANY_READY, Queue, Queues};
use crate::local::shard::slots::{SlotId, Slots};
use codeq_queue::Time;
use codeq_queue::order::ReadyCommands;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Where a head stands among those of a tenant: the highest priority first, then the earliest created.
type Rank = (u8, Time, u64);

fn rank(slots: &Slots, slot_id: SlotId) -> Rank {
    let slot = slots.at(slot_id);
    (u8::MAX - slot.priority, slot.created_at, slot.no)
}

/// The queues of a tenant from which a claim gets something, by their heads. What only the time holds back comes in when
/// the shard looks at it again.
#[derive(Default)]
pub struct Heads {
    is_built: bool,
    ranks: BTreeSet<(Rank, u32)>,
    /// The same queues in no order, to draw from.
    ids: Vec<u32>,
}

pub struct HeadPlace {
    rank: Rank,
    /// In `ids`.
    index: usize,
}

impl Heads {
    /// True the first time: all queues are to be put.
    pub fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.is_built, true)
    }

    /// They are not kept any more.
    pub fn drop_places(&self, all: &mut [Queue]) {
        self.ids.iter().for_each(|id| all[*id as usize].place = None);
    }

    /// Puts a queue where its head belongs.
    pub fn put(&mut self, all: &mut [Queue], id: u32, slots: &Slots, now: Time) {
        let queue = &mut all[id as usize];
        let rank = queue.head(slots, now).map(|slot_id| rank(slots, slot_id));
        match (&mut queue.place, rank) {
            (Some(place), Some(rank)) if place.rank == rank => {}
            (Some(place), Some(rank)) => {
                self.ranks.remove(&(place.rank, id));
                self.ranks.insert((rank, id));
                place.rank = rank;
            }
            (None, Some(rank)) => {
                queue.place = Some(Box::new(HeadPlace { rank, index: self.ids.len() }));
                self.ranks.insert((rank, id));
                self.ids.push(id);
            }
            (Some(_), None) => {
                let Some(place) = queue.place.take() else { return };
                self.ranks.remove(&(place.rank, id));
                self.ids.swap_remove(place.index);
                let moved = self.ids.get(place.index).and_then(|id| all[*id as usize].place.as_mut());
                moved.into_iter().for_each(|moved| moved.index = place.index);
            }
            (None, None) => {}
        }
    }
}

impl Queues {
    /// The best head of a tenant's queues.
    pub fn best_head(&self, tenant: &str, slots: &Slots, now: Time) -> Option<SlotId> {
        let tenant = self.tenants.get(tenant)?;
        let head = |id: &u32| self.at(*id).head(slots, now);
        match &tenant.heads {
            None => tenant.ready.iter().filter_map(head).min_by_key(|slot_id| rank(slots, *slot_id)),
            Some(heads) => heads.ranks.iter().take(MANY_READY).find_map(|(_, id)| head(id)),
        }
    }

    /// Of which commands of a tenant a claim would get something now: of the named ones, and of some others, drawn evenly.
    pub fn ready_commands(
        &self,
        tenant: &str,
        named: &[Arc<str>],
        most: usize,
        (slots, now): (&Slots, Time),
        mut draw: impl FnMut() -> u64,
    ) -> ReadyCommands {
        let is_ready = |id: &u32| self.at(*id).head(slots, now).is_some();
        let named: Vec<u32> =
            named.iter().filter_map(|name| self.find(tenant, name)).filter(is_ready).collect();
        let command = |id: &u32| self.at(*id).key.command.clone();
        let mut ready =
            ReadyCommands { named: named.iter().map(command).collect(), ..ReadyCommands::default() };
        let Some(tenant) = self.tenants.get(tenant) else { return ready };
        let is_other = |id: &u32| !named.contains(id);
        let Some(heads) = &tenant.heads else {
            ready.others =
                tenant.ready.iter().filter(|id| is_ready(id) && is_other(id)).map(command).collect();
            ready.other_count = ready.others.len() as u64;
            return ready;
        };
        ready.other_count = heads.ids.len().saturating_sub(named.len()) as u64;
        let others = sample(heads.ids.len(), &mut draw).map(|at| heads.ids[at]).filter(is_other);
        ready.others = others.take(most).map(|id| command(&id)).collect();
        ready
    }
}

/// The numbers below `count` in a random order, each drawn when it is asked for.
fn sample(count: usize, draw: &mut impl FnMut() -> u64) -> impl Iterator<Item = usize> {
    // What a shuffle that goes no further than it is asked to has moved.
    let mut moved: HashMap<usize, usize> = HashMap::new();
    (0..count).map(move |at| {
        let other = at + usize::try_from(draw() % (count - at) as u64).expect("below a number of queues");
        let here = moved.remove(&at).unwrap_or(at);
        match other == at {
            true => here,
            false => moved.insert(other, here).unwrap_or(other),
        }
    })
}
