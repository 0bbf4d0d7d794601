//! Who works here: the workers that claimed or reported lately, and what they have in hand.
//!
//! Advisory and in memory. It follows what passes through this process and decides nothing; a task whose lease ran
//! out is no longer shown, and a worker that was silent for [`SEEN`] is forgotten. Where processes share a keyspace,
//! each tells the others ([`others`]).

pub mod others;

use codeq_api::work::WorkerInfo;
use codeq_queue::{Owner, TaskId, Time};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// For how long a worker is shown after it was last heard of.
pub const SEEN: Duration = Duration::from_secs(300);
/// Workers that are remembered.
pub const WORKERS: usize = 10_000;
/// Tasks in hand that are remembered over all workers. Beyond that they are not counted.
const TASKS: usize = 200_000;
/// Commands of a worker that are shown.
const COMMANDS: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
        }
    }
}

/// One worker, as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sighting {
    pub tenant: Arc<str>,
    pub owner: Arc<Owner>,
    pub protocol: Protocol,
    pub commands: Vec<String>,
    pub info: WorkerInfo,
    /// Those with the longest lease first.
    pub running: Vec<TaskId>,
    pub running_count: usize,
    pub last_seen: Time,
}

#[derive(Default)]
pub struct Workers {
    tenants: RwLock<Tenants>,
    /// Tasks in hand over all of them.
    tasks: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Tenants {
    by_name: HashMap<Arc<str>, HashMap<Arc<Owner>, Arc<Worker>>>,
    count: usize,
}

struct Worker {
    protocol: Protocol,
    /// In milliseconds.
    last_seen: AtomicI64,
    state: Mutex<State>,
    tasks: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    commands: Vec<String>,
    info: WorkerInfo,
    /// Until when each is leased.
    running: HashMap<TaskId, Time>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let state = self.state.get_mut().expect("no one panics holding a worker");
        self.tasks.fetch_sub(state.running.len(), Ordering::Relaxed);
    }
}

/// A claim, as a worker sent it.
pub struct Claimed<'a> {
    pub tenant: &'a Arc<str>,
    pub owner: &'a Arc<Owner>,
    pub protocol: Protocol,
    pub commands: &'a [String],
    pub info: Option<&'a WorkerInfo>,
}

impl Workers {
    /// A worker asks for tasks.
    pub fn claims(&self, claimed: &Claimed<'_>, now: Time) {
        let worker = self.worker(claimed.tenant, claimed.owner, claimed.protocol, now);
        let mut state = worker.state.lock().expect("no one panics holding a worker");
        let commands = &claimed.commands[..claimed.commands.len().min(COMMANDS)];
        if state.commands != commands {
            state.commands = commands.to_vec();
        }
        if let Some(info) = claimed.info.filter(|info| **info != state.info) {
            state.info = info.clone();
        }
    }

    /// It holds these until then: lent to it just now, or kept by a heartbeat.
    pub fn holds(
        &self,
        (tenant, owner, protocol): (&Arc<str>, &Arc<Owner>, Protocol),
        ids: impl Iterator<Item = TaskId>,
        until: Time,
        now: Time,
    ) {
        let worker = self.worker(tenant, owner, protocol, now);
        let mut state = worker.state.lock().expect("no one panics holding a worker");
        for id in ids {
            let is_full = self.tasks.load(Ordering::Relaxed) >= TASKS;
            match state.running.get_mut(&id) {
                Some(known) => *known = until,
                None if is_full => return,
                None => {
                    state.running.insert(id, until);
                    self.tasks.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// It has them no more.
    pub fn drops(
        &self,
        (tenant, owner, protocol): (&Arc<str>, &Arc<Owner>, Protocol),
        ids: impl Iterator<Item = TaskId>,
        now: Time,
    ) {
        let worker = self.worker(tenant, owner, protocol, now);
        let mut state = worker.state.lock().expect("no one panics holding a worker");
        let gone = ids.filter(|id| state.running.remove(id).is_some()).count();
        self.tasks.fetch_sub(gone, Ordering::Relaxed);
    }

    /// Everyone who was heard of lately, of one tenant or of all, by name. Shows so many tasks of each.
    pub fn list(&self, tenant: Option<&str>, shown: usize, now: Time) -> Vec<Sighting> {
        self.forget(now);
        let tenants = self.tenants.read().expect("no one panics holding the workers");
        let wanted =
            tenants.by_name.iter().filter(|(name, _)| tenant.is_none_or(|tenant| ***name == *tenant));
        let mut list: Vec<Sighting> = wanted
            .flat_map(|(tenant, workers)| {
                workers.iter().map(move |(owner, worker)| worker.show(tenant, owner, shown, now))
            })
            .collect();
        let name =
            |seen: &Sighting| (seen.tenant.clone(), seen.owner.worker_id.clone(), seen.owner.subject.clone());
        list.sort_by_cached_key(name);
        list
    }

    fn worker(&self, tenant: &Arc<str>, owner: &Arc<Owner>, protocol: Protocol, now: Time) -> Arc<Worker> {
        let find = |tenants: &Tenants| tenants.by_name.get(&**tenant)?.get(&**owner).cloned();
        let known = find(&self.tenants.read().expect("no one panics holding the workers"));
        if let Some(worker) = known.filter(|worker| worker.protocol == protocol) {
            worker.last_seen.store(now.millis(), Ordering::Relaxed);
            return worker;
        }
        if self.tenants.read().expect("no one panics holding the workers").count >= WORKERS {
            self.forget(now);
        }
        let mut tenants = self.tenants.write().expect("no one panics holding the workers");
        tenants.make_room();
        let last_seen = AtomicI64::new(now.millis());
        let state = Mutex::default();
        let worker = Arc::new(Worker { protocol, last_seen, state, tasks: self.tasks.clone() });
        let workers = tenants.by_name.entry(tenant.clone()).or_default();
        if workers.insert(owner.clone(), worker.clone()).is_none() {
            tenants.count += 1;
        }
        worker
    }

    /// Lets go of those who were silent for too long.
    fn forget(&self, now: Time) {
        let mut tenants = self.tenants.write().expect("no one panics holding the workers");
        tenants.by_name.retain(|_, workers| {
            workers.retain(|_, worker| now.since(worker.seen()) < SEEN);
            !workers.is_empty()
        });
        tenants.count = tenants.by_name.values().map(HashMap::len).sum();
    }
}

impl Tenants {
    /// When there are too many, the tenant with the most gives way: a tenth of its workers, those who were silent
    /// for longest. So names that one tenant makes up cannot displace the workers of another.
    fn make_room(&mut self) {
        if self.count < WORKERS {
            return;
        }
        let Some(workers) = self.by_name.values_mut().max_by_key(|workers| workers.len()) else { return };
        let mut seen: Vec<Time> = workers.values().map(|worker| worker.seen()).collect();
        seen.sort_unstable();
        let oldest = seen[seen.len() / 10];
        let mut left = seen.len() / 10 + 1;
        workers.retain(|_, worker| {
            let goes = left > 0 && worker.seen() <= oldest;
            left -= usize::from(goes);
            !goes
        });
        self.count = self.by_name.values().map(HashMap::len).sum();
    }
}

impl Worker {
    fn seen(&self) -> Time {
        Time::from_millis(self.last_seen.load(Ordering::Relaxed))
    }

    fn show(&self, tenant: &Arc<str>, owner: &Arc<Owner>, shown: usize, now: Time) -> Sighting {
        let mut state = self.state.lock().expect("no one panics holding a worker");
        let before = state.running.len();
        state.running.retain(|_, until| *until > now);
        self.tasks.fetch_sub(before - state.running.len(), Ordering::Relaxed);
        let mut running: Vec<(Time, TaskId)> =
            state.running.iter().map(|(id, until)| (*until, *id)).collect();
        running.sort_unstable_by_key(|task| std::cmp::Reverse(task.0));
        let running_count = running.len();
        running.truncate(shown);
        Sighting {
            tenant: tenant.clone(),
            owner: owner.clone(),
            protocol: self.protocol,
            commands: state.commands.clone(),
            info: state.info.clone(),
            running: running.into_iter().map(|(_, id)| id).collect(),
            running_count,
            last_seen: self.seen(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Arc<Owner> {
        Arc::new(Owner::new("sub", name))
    }

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn id(number: u128) -> TaskId {
        TaskId::from_bits(number)
    }

    #[test]
    fn a_worker_is_shown_with_what_it_holds_until_it_is_silent() {
        let (workers, acme, w) = (Workers::default(), Arc::<str>::from("acme"), owner("w"));
        let commands = ["mail".to_owned()];
        let info = WorkerInfo { host: Some("h".into()), ..WorkerInfo::default() };
        let (tenant, owner, protocol) = (&acme, &w, Protocol::Http);
        let claimed = Claimed { tenant, owner, protocol, commands: &commands, info: Some(&info) };
        workers.claims(&claimed, at(0));
        let who = (&acme, &w, Protocol::Http);
        workers.holds(who, [id(1), id(2), id(3)].into_iter(), at(60), at(1));
        workers.holds(who, [id(3)].into_iter(), at(90), at(2));
        workers.drops(who, [id(1), id(9)].into_iter(), at(3));
        let seen = workers.list(Some("acme"), 1, at(4)).pop().expect("it is there");
        assert_eq!((seen.running, seen.running_count, seen.last_seen), (vec![id(3)], 2, at(3)));
        assert_eq!((seen.commands, seen.info), (commands.to_vec(), info));
        let later = workers.list(None, 20, at(80)).pop().expect("it is there");
        assert_eq!(later.running, [id(3)], "the lease of the other has run out");
        assert!(workers.list(Some("globex"), 20, at(80)).is_empty());
        assert!(workers.list(None, 20, at(303)).is_empty());
        assert_eq!(workers.tasks.load(Ordering::Relaxed), 0);
    }

    /// A tenant that makes names up displaces its own workers, not those of others.
    #[test]
    fn there_is_a_bound_and_the_tenant_with_the_most_gives_way() {
        let workers = Workers::default();
        let (quiet, loud) = (Arc::<str>::from("quiet"), Arc::<str>::from("loud"));
        let none = || std::iter::empty();
        workers.drops((&quiet, &owner("w"), Protocol::Grpc), none(), at(0));
        for number in 0..WORKERS as i64 + 500 {
            let made_up = owner(&format!("w-{number}"));
            workers.drops((&loud, &made_up, Protocol::Http), none(), at(1 + number / 1000));
        }
        let all = workers.list(None, 0, at(20));
        assert!((WORKERS / 2..=WORKERS).contains(&all.len()), "{}", all.len());
        assert_eq!(workers.list(Some("quiet"), 0, at(20)).len(), 1);
        let newest = format!("w-{}", WORKERS + 499);
        assert!(all.iter().any(|seen| *seen.owner.worker_id == *newest));
    }
}
