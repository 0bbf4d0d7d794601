//! The schedules of a shard, found by name and by when they are due.

use crate::local::format::schedules::ScheduleName;
use codeq_queue::schedule::{Definition, Progress, Schedule};
use codeq_queue::{Refusal, Time, limits};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

#[derive(Default)]
pub struct Schedules {
    all: BTreeMap<ScheduleName, Schedule>,
    /// By when they tick next.
    due: BTreeSet<(Time, ScheduleName)>,
    held: HashMap<Arc<str>, Held>,
    /// The commands of schedules whose names belong here, wherever they live.
    places: BTreeMap<ScheduleName, Arc<str>>,
}

/// What a tenant has here.
#[derive(Clone, Copy, Default)]
struct Held {
    count: usize,
    bytes: usize,
}

impl Schedules {
    pub fn get(&self, name: &ScheduleName) -> Option<&Schedule> {
        self.all.get(name)
    }

    /// When the next one ticks.
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The one that has been due longest.
    pub fn first_due(&self, now: Time) -> Option<&Schedule> {
        let (at, name) = self.due.first()?;
        self.all.get(name).filter(|_| *at <= now)
    }

    /// Those of a tenant in the order of their names.
    pub fn after<'a>(
        &'a self,
        tenant: &Arc<str>,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Schedule> + use<'a> {
        let from = match after {
            Some(name) => Bound::Excluded((tenant.clone(), name.into())),
            None => Bound::Included((tenant.clone(), "".into())),
        };
        let tenant = tenant.clone();
        let range = self.all.range((from, Bound::Unbounded));
        range.map(|(_, schedule)| schedule).take_while(move |schedule| schedule.tenant == tenant)
    }

    /// Whether a tenant may have this one, too, or instead of what it has under the name.
    pub fn check_room(&self, name: &ScheduleName, definition: &Definition) -> Result<(), Refusal> {
        let held = self.held.get(&name.0).copied().unwrap_or_default();
        let known = self.all.get(name).map_or(0, |known| known.definition.bytes());
        let count = held.count + usize::from(known == 0);
        let bytes = held.bytes - known + definition.bytes();
        match count > limits::SCHEDULES || bytes > limits::SCHEDULES_BYTES {
            true => Err(Refusal::TooManySchedules(limits::SCHEDULES)),
            false => Ok(()),
        }
    }

    /// Puts a definition in place of the old one, whose progress stays.
    pub fn define(&mut self, name: ScheduleName, mut schedule: Schedule) {
        let held = self.held.entry(name.0.clone()).or_default();
        held.count += 1;
        held.bytes += schedule.definition.bytes();
        if let Some(known) = self.all.get(&name) {
            held.count -= 1;
            held.bytes -= known.definition.bytes();
            schedule.progress = known.progress.clone();
        }
        self.all.insert(name, schedule);
    }

    /// False if there is no such schedule.
    pub fn advance(&mut self, name: &ScheduleName, progress: Progress) -> bool {
        let Some(schedule) = self.all.get_mut(name) else { return false };
        if schedule.progress.next_at != progress.next_at {
            if let Some(at) = schedule.progress.next_at {
                self.due.remove(&(at, name.clone()));
            }
            if let Some(at) = progress.next_at {
                self.due.insert((at, name.clone()));
            }
        }
        schedule.progress = progress;
        true
    }

    pub fn remove(&mut self, name: &ScheduleName) {
        let Some(gone) = self.all.remove(name) else { return };
        if let Some(at) = gone.progress.next_at {
            self.due.remove(&(at, name.clone()));
        }
        if let Some(held) = self.held.get_mut(&name.0) {
            held.count -= 1;
            held.bytes -= gone.definition.bytes();
            if held.count == 0 {
                self.held.remove(&name.0);
            }
        }
    }

    pub fn place(&self, name: &ScheduleName) -> Option<&Arc<str>> {
        self.places.get(name)
    }

    pub fn set_place(&mut self, name: ScheduleName, command: Option<Arc<str>>) {
        match command {
            Some(command) => drop(self.places.insert(name, command)),
            None => drop(self.places.remove(&name)),
        }
    }
}
