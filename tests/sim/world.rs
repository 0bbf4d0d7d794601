//! The world of one life: a store, its clients and what they know, step by step.

use super::Counts;
use super::action::Action;
use super::checks::wake::answered;
use super::checks::{self, Checked, Violation};
use super::ground::Ground;
use super::ledger::Ledger;
use super::look::{Look, PATIENCE, look};
use super::plants::{Door, Plant};
use codeq_queue::store::Health;
use codeq_queue::{Backoff, BackoffPolicy, Delivery, Failure, Store, Task};
use codeq_store::{Clock, Rules};
use futures_util::future::{join_all, poll_immediate};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::{Duration, Instant};

const OPERATIONS: u64 = 500;
const FAULTS: u64 = 6;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Heard,
    /// It is answered and the answer is lost.
    Unheard,
    /// The client is gone as soon as it has asked.
    Dropped,
}

struct Letter {
    action: Action,
    fate: Fate,
    is_stale: bool,
}

pub struct World {
    pub rng: SmallRng,
    pub ground: Ground,
    pub door: Door,
    pub tenant: Arc<str>,
    pub ledger: Ledger,
    /// What workers were lent, as they were told.
    pub held: Vec<Task>,
    pub taken: Vec<Delivery>,
    /// Messages that arrive at a later step.
    pub late: Vec<(u64, Action)>,
    pub payloads: u64,
    pub counts: Counts,
    /// The step at which a full disk has room again.
    pub full_until: Option<u64>,
    /// The lanes of the queue with a policy are served in order.
    pub is_ordered: bool,
}

/// Every policy without chance comes up, and retention is short enough to matter.
fn rules(seed: u64) -> Rules {
    let policies = [BackoffPolicy::Fixed, BackoffPolicy::Linear, BackoffPolicy::Exponential];
    let policy = policies[(seed % 3) as usize];
    Rules {
        backoff: Backoff { policy, base_seconds: seed % 4, max_seconds: 20 },
        retention: Duration::from_secs(3600),
        dead_retention: seed.is_multiple_of(2).then_some(Duration::from_secs(5400)),
        cleanup_interval: Duration::from_secs(30),
        ..Rules::default()
    }
}

pub async fn live(seed: u64, plant: Option<Plant>) -> Result<Counts, Violation> {
    let shards = if seed.is_multiple_of(4) { 2 } else { 1 };
    let mut ground = Ground::new(rules(seed), shards, Plant::durability(plant));
    let store = ground.open().expect("an empty disk opens");
    let tenant: Arc<str> = "acme".into();
    let door = Door { store, tenant: tenant.clone(), plant, keys: Arc::default() };
    let mut world = World {
        rng: SmallRng::seed_from_u64(seed),
        ledger: Ledger::new(ground.rules.clone(), tenant.clone(), ground.clock.now()),
        ground,
        door,
        tenant,
        held: Vec::new(),
        taken: Vec::new(),
        late: Vec::new(),
        payloads: 0,
        counts: Counts { seeds: 1, ..Counts::default() },
        full_until: None,
        is_ordered: seed.is_multiple_of(5),
    };
    let policy = world.put_policy();
    world.act(policy).await?;
    let mut faults = 0;
    while world.counts.operations < OPERATIONS || faults < FAULTS {
        if world.counts.operations >= faults * OPERATIONS / FAULTS + OPERATIONS / FAULTS / 2 {
            faults += 1;
            world.fault().await?;
        }
        world.step().await?;
    }
    world.finish().await?;
    Ok(world.counts)
}

impl World {
    pub(super) async fn step(&mut self) -> Checked {
        self.ledger.step += 1;
        match self.rng.random_range(0..60) {
            0 => self.probe_order().await?,
            1 | 2 => self.probe_wake().await?,
            3 => self.probe_limits().await?,
            4..20 => self.move_clock(),
            _ => {}
        }
        let letters = self.letters();
        self.counts.operations += letters.len() as u64;
        let posted = join_all(letters.iter().map(|letter| self.post(letter)));
        let answers = answered("a step", posted).await?;
        let mut answers: Vec<_> = letters.into_iter().zip(answers).collect();
        // Calls of one step overlap. Who reads a task may see it lent before the borrower hears of it.
        answers.sort_by_key(|(letter, _)| !matches!(letter.action, Action::Claim(_)));
        for (letter, answer) in answers {
            match answer {
                Some(reply) => {
                    self.ledger.hear(&letter.action, letter.is_stale, &reply)?;
                    self.follow(reply);
                }
                // Who does not know asks again.
                None if matches!(letter.action, Action::Create(_)) && self.rng.random_bool(0.7) => {
                    self.late.push((self.ledger.step + self.rng.random_range(1..4), letter.action));
                }
                None => {}
            }
        }
        self.tend().await
    }

    /// One to four calls that overlap, some of them twice; and what was late until now.
    fn letters(&mut self) -> Vec<Letter> {
        let (mut actions, step) = (Vec::new(), self.ledger.step);
        let (due, waiting) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= step);
        self.late = waiting;
        actions.extend(due.into_iter().map(|(_, action): (u64, Action)| action));
        for _ in 0..self.rng.random_range(1..=4) {
            let Some(action) = self.next_action() else { continue };
            match self.rng.random_range(0..24) {
                0 => {
                    self.counts.messages += 1;
                    actions.extend([action.clone(), action]);
                }
                1 => {
                    self.counts.messages += 1;
                    self.late.push((step + self.rng.random_range(2..30), action));
                }
                _ => actions.push(action),
            }
        }
        actions.into_iter().map(|action| self.letter(action)).collect()
    }

    fn letter(&mut self, action: Action) -> Letter {
        let fate = match self.rng.random_range(0..24) {
            0 => Fate::Unheard,
            1 => Fate::Dropped,
            _ => Fate::Heard,
        };
        self.counts.messages += u64::from(fate != Fate::Heard);
        let is_stale = self.ledger.is_stale(&action);
        self.ledger.intend(&action);
        Letter { action, fate, is_stale }
    }

    /// The answer, if the client hears one before the power goes.
    async fn post(&self, letter: &Letter) -> Option<super::action::Reply> {
        let answer = self.door.perform(letter.action.clone());
        let answer = match letter.fate {
            Fate::Dropped => {
                drop(poll_immediate(answer).await);
                return None;
            }
            Fate::Unheard => {
                drop(answer.await);
                return None;
            }
            Fate::Heard => answer.await.ok(),
        };
        answer.filter(|_| !self.ground.is_sprung())
    }

    /// Mostly a little on, often to the very millisecond at which something is due or to the one before.
    fn move_clock(&mut self) {
        let now = self.ledger.now.millis();
        let mut due = Vec::new();
        for account in self.ledger.accounts.values() {
            due.extend(account.lent.as_ref().map(|lent| lent.until.millis()));
            due.extend(account.not_before.map(|time| time.millis()));
        }
        due.retain(|at| *at > now + 1);
        let to = match self.rng.random_range(0..4) {
            0 | 1 if !due.is_empty() => {
                due.sort_unstable();
                due[self.rng.random_range(0..due.len().min(3))] - i64::from(self.rng.random_bool(0.5))
            }
            2 => now + self.rng.random_range(0..20_000),
            _ => now + self.rng.random_range(0..500),
        };
        self.set_clock(codeq_queue::Time::from_millis(to));
    }

    pub(super) fn set_clock(&mut self, to: codeq_queue::Time) {
        self.ground.clock.set(to);
        self.ledger.clock_moved(to);
    }

    /// Two round trips: what dropped calls leave behind has arrived, too.
    async fn settle(&self, store: &dyn Store) -> Result<(), Failure> {
        for _ in 0..2 {
            tokio::task::yield_now().await;
            store.queues(None).await?;
        }
        Ok(())
    }

    async fn see(&self, store: &dyn Store) -> Result<Look, Failure> {
        self.settle(store).await?;
        look(store, &self.ledger).await
    }

    /// Looks at a store and holds every promise against what it shows. `None` if it could not show it.
    pub(super) async fn examine(&self, store: &dyn Store) -> Result<Option<Look>, Violation> {
        match answered("a look", self.see(store)).await? {
            // Timers have to write, too.
            Ok(look) if look.is_late(self.ledger.now) && matches!(store.health(), Health::Unavailable(_)) => {
                Ok(None)
            }
            Ok(look) if !self.ground.is_sprung() => {
                checks::at_rest(&self.ledger, &look)?;
                Ok(Some(look))
            }
            Err(Failure::Internal(what)) => Err(Violation { check: "lost", what }),
            _ => Ok(None),
        }
    }

    /// As [`World::examine`], of the store everyone works with, which is opened anew if it must be.
    pub(super) async fn look(&mut self) -> Result<Look, Violation> {
        loop {
            self.counts.looks += 1;
            let store = self.door.store.clone();
            if let Some(look) = self.examine(&*store).await? {
                self.ledger.take_in(&look);
                return Ok(look);
            }
            self.make_ready().await?;
        }
    }

    /// After every step: what has gone is brought back.
    async fn tend(&mut self) -> Checked {
        if self.full_until.is_some_and(|step| step <= self.ledger.step) {
            self.make_room();
        }
        let is_down = matches!(self.door.store.health(), Health::Poisoned(_) | Health::Closed);
        if is_down || self.ground.is_sprung() {
            return self.power_cycle().await;
        }
        let is_waiting = matches!(self.door.store.health(), Health::Unavailable(_));
        if is_waiting && self.full_until.is_none() {
            return self.make_ready().await;
        }
        Ok(())
    }

    pub(super) fn make_room(&mut self) {
        self.full_until = None;
        self.ground.shards.iter().for_each(|shard| shard.disk.set_full(false));
    }

    /// Waits for a store that recovers by itself, and opens anew one that does not.
    pub(super) async fn make_ready(&mut self) -> Checked {
        self.make_room();
        let begun = Instant::now();
        loop {
            match self.door.store.health() {
                _ if self.ground.is_sprung() => return self.power_cycle().await,
                Health::Ready | Health::Degraded(_) => return Ok(()),
                Health::Unavailable(reason) if begun.elapsed() > PATIENCE => {
                    return checks::broken("wake", format!("still unavailable: {reason}"));
                }
                Health::Unavailable(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                Health::Poisoned(_) | Health::Closed => return self.power_cycle().await,
            }
        }
    }
}
