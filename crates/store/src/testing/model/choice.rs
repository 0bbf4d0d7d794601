//! What the driver draws: requests, callers, targets and instants, all from one seed.

use super::driver::Driver;
use super::limits::{self, ModelLimits};
use super::state::{Entry, Model};
use crate::testing::exam::request::New;
use codeq_queue::store::{Claim, Report, TaskRef, Wait};
use codeq_queue::{Commands, NewTask, Outcome, Owner, QueueKey, State, TaskId, Time};
use rand::Rng;
use rand::seq::IndexedRandom;
use std::sync::Arc;
use std::time::Duration;

pub const TENANTS: [&str; 6] = ["acme", "umbrella", "initech", LANES, ORDERS, RATES];
const PLAIN_TENANTS: usize = 3;
/// Tenants of one queue each, with lanes and a policy: the second one's lanes are served in order, the third one's have
/// rates.
const LANES: &str = "lanes";
const ORDERS: &str = "orders";
const RATES: &str = "rates";
const LANE_COMMAND: &str = "crop";
const LANE_NAMES: [&str; 4] = ["", "a", "b", "c"];
pub const COMMANDS: [&str; 5] = ["render", "Encode", "mail.send", "a:b-c_d", "z"];
const WORKERS: [(&str, &str); 3] = [("subject", "one"), ("subject", "two"), ("other", "one")];
const KEYS: [&str; 6] = ["k1", "k2", "k3", "k4", "k5", "k6"];

impl Driver {
    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *from.choose(&mut self.rng).expect("there is something to pick from")
    }

    pub(super) fn tenant(&mut self) -> Arc<str> {
        self.pick(&TENANTS[..PLAIN_TENANTS]).into()
    }

    fn lane_tenant(&mut self) -> Arc<str> {
        self.pick(&[LANES, ORDERS, RATES]).into()
    }

    /// A policy for a queue that has lanes. That lanes are served in order is decided once.
    pub(super) fn policy(&mut self) -> (QueueKey, (&'static str, ModelLimits)) {
        let tenant = self.lane_tenant();
        let policy = match &*tenant {
            ORDERS => limits::ORDERED,
            RATES => self.pick(&limits::RATES),
            _ => self.pick(&limits::POLICIES),
        };
        (QueueKey::new(&tenant, LANE_COMMAND), policy)
    }

    fn lane_request(&mut self) -> NewTask {
        let payload = format!("{{ \"n\": {} }}", self.rng.random::<u32>());
        let mut new = New::of(LANE_COMMAND).payload(&payload).max_attempts(self.rng.random_range(1..=4));
        let lane = self.pick(&LANE_NAMES);
        if !lane.is_empty() {
            new = new.lane(lane);
        }
        if self.one_in(3) {
            new = new.priority(self.rng.random_range(0..10));
        }
        if self.one_in(8) {
            new = new.delayed_ms(self.rng.random_range(0..20_000));
        }
        let tenant = self.lane_tenant();
        new.build(&tenant)
    }

    pub(super) fn owner(&mut self) -> Arc<Owner> {
        let (subject, worker_id) = self.pick(&WORKERS);
        Arc::new(Owner::new(subject, worker_id))
    }

    fn command(&mut self) -> String {
        let command = self.pick(&COMMANDS);
        match self.rng.random_range(0..3) {
            0 => command.to_ascii_uppercase(),
            1 => command.to_ascii_lowercase(),
            _ => command.to_owned(),
        }
    }

    pub(super) fn queue(&mut self) -> QueueKey {
        let (tenant, command) = (self.tenant(), self.command());
        QueueKey::new(&tenant, &command)
    }

    pub(super) fn request(&mut self) -> NewTask {
        if self.one_in(4) {
            return self.lane_request();
        }
        let payload = format!("{{ \"n\": {} }}", self.rng.random::<u32>());
        let mut new = New::of(&self.command()).payload(&payload);
        new = new.max_attempts(self.rng.random_range(1..=4));
        if self.one_in(2) {
            new = new.priority(self.rng.random_range(0..10));
        }
        if self.one_in(3) {
            new = new.key(self.pick(&KEYS));
        }
        if self.one_in(4) {
            new = new.webhook("https://example.org/done");
        }
        match self.rng.random_range(0..6) {
            0 => new = new.delayed_ms(self.rng.random_range(0..20_000)),
            1 => {
                let ms = self.model.now.millis() + self.rng.random_range(-5_000..20_000);
                new = new.run_at(Time::from_millis(ms));
            }
            _ => {}
        }
        let tenant = self.tenant();
        new.build(&tenant)
    }

    pub(super) fn wish(&mut self) -> Claim {
        let commands = if self.one_in(3) {
            Commands::Any
        } else {
            let count = self.rng.random_range(1..4);
            let names: Vec<String> = (0..count).map(|_| self.command()).collect();
            Commands::these(names.iter().map(String::as_str))
        };
        let (tenant, commands) = match self.one_in(4) {
            true => (self.lane_tenant(), self.pick_lane_commands()),
            false => (self.tenant(), commands),
        };
        Claim {
            tenant,
            commands,
            owner: self.owner(),
            lease: Duration::from_secs(self.rng.random_range(1..120)),
            is_default_lease: false,
            count: if self.one_in(3) { self.rng.random_range(1..8) } else { 1 },
            // Over by every clock: waits are reckoned from the candidate's, which may have been set back.
            wait: if self.one_in(4) { Wait::Until(Time::ZERO) } else { Wait::No },
        }
    }

    fn pick_lane_commands(&mut self) -> Commands {
        if self.one_in(3) { Commands::Any } else { Commands::these([LANE_COMMAND]) }
    }

    fn drawn(&mut self, wanted: impl Fn(&Entry) -> bool) -> Option<TaskRef> {
        let fitting: Vec<&Entry> = self.model.entries.iter().filter(|entry| wanted(entry)).collect();
        let task = &fitting.choose(&mut self.rng)?.task;
        Some(TaskRef { tenant: task.body.tenant.clone(), id: task.id })
    }

    /// Mostly a task that `wanted` fits, sometimes any other, a foreign one, or none at all.
    pub(super) fn target(&mut self, wanted: impl Fn(&Entry) -> bool) -> TaskRef {
        let fitting = if self.one_in(5) { None } else { self.drawn(wanted) };
        let mut target = match fitting.or_else(|| self.drawn(|_| true)) {
            Some(target) => target,
            None => TaskRef { tenant: self.tenant(), id: TaskId::from_bits(self.rng.random()) },
        };
        match self.rng.random_range(0..40) {
            0 => target.tenant = self.tenant(),
            1 => target.id = TaskId::from_bits(self.rng.random()),
            _ => {}
        }
        target
    }

    /// Mostly what the owner of a running task would say.
    pub(super) fn report(&mut self) -> Report {
        let named = self.target(|entry| entry.task.state.lease().is_some());
        let task = self.model.find(&named).map(|entry| &entry.task);
        let owner = task.and_then(|task| task.state.lease()).map(|lease| lease.owner.clone());
        let current = task.map_or(0, |task| task.attempts);
        let attempt = match self.rng.random_range(0..12) {
            0 => Some(current + 1),
            1..6 => Some(current),
            _ => None,
        };
        let stranger = self.owner();
        let owner = if self.one_in(12) { stranger } else { owner.unwrap_or(stranger) };
        Report { tenant: named.tenant, id: named.id, owner, attempt }
    }

    pub(super) fn outcome(&mut self) -> Outcome {
        match self.rng.random_range(0..10) {
            0 => Outcome { result: None, ..Outcome::completed("") },
            1 => Outcome { status: "DONE".into(), ..Outcome::completed("{}") },
            2 => Outcome::failed("  "),
            3 | 4 => Outcome::failed("no such file"),
            5 => Outcome { result: Some("{\"part\":1}".into()), ..Outcome::failed("half done") },
            _ => Outcome::completed("{ \"ok\" : 1.0 }"),
        }
    }

    /// Where the clock goes next: a little on, to an instant that matters or just beside it, far on, or back.
    pub(super) fn next_instant(&mut self) -> Time {
        let now = self.candidate_now().millis();
        let coming: Vec<i64> = self.instants().into_iter().filter(|at| *at > now).collect();
        let beside = self.rng.random_range(-1..=1);
        let to = match self.rng.random_range(0..20) {
            0 => now - self.rng.random_range(1..3_600_000),
            1 => now + self.rng.random_range(0..2 * self.retention_ms()),
            2..8 if !coming.is_empty() => coming.iter().min().copied().unwrap_or(now) + beside,
            8..12 if !coming.is_empty() => self.pick(&coming) + beside,
            _ => now + self.rng.random_range(0..3_000),
        };
        Time::from_millis(to)
    }

    fn instants(&self) -> Vec<i64> {
        self.model.entries.iter().filter_map(Model::instant).map(Time::millis).collect()
    }

    fn retention_ms(&self) -> i64 {
        i64::try_from(self.model.rules.retention.as_millis()).expect("the driver's retention is short")
    }

    /// Removal of dead letters may lag, so nothing can be said while it may: the clock passes such spans over.
    pub(super) fn beyond_the_lag(&self, mut to: Time) -> Time {
        let lag = self.model.rules.cleanup_interval;
        loop {
            let dead = self.model.entries.iter().filter(|entry| entry.task.state == State::Dead);
            let unclear = |ends: &Time| *ends <= to && to < ends.plus(lag);
            let Some(ends) = dead.filter_map(|entry| entry.ends).find(unclear) else { return to };
            to = ends.plus(lag);
        }
    }
}
