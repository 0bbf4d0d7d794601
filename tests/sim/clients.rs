//! What clients do next: producers with and without keys, workers that stall and vanish, operators,
//! receivers of callbacks that lie. All drawn from the seed.

use super::action::{Action, Reply};
use super::flows::LIMITED;
use super::ledger::result_text;
use super::world::World;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::store::{Abandon, Claim, Heartbeat, Nack, Report, Submit, TaskRef, Wait};
use codeq_queue::{Commands, Outcome, Owner, QueueKey, Task};
use codeq_store::testing::exam::request::New;
use rand::Rng;
use std::sync::Arc;
use std::time::Duration;

pub const COMMANDS: [&str; 3] = ["render", "encode", "mail"];
/// Of the claims that wait; nobody else claims it by name, and nobody pauses it.
pub const BELL: &str = "bell";
const WORKERS: u32 = 3;
const KEYS: u32 = 12;

impl World {
    pub(super) fn next_action(&mut self) -> Option<Action> {
        Some(match self.rng.random_range(0..118) {
            0..30 => self.create(),
            30..50 => Action::Claim(self.claim()),
            50..76 => return self.report(),
            76..80 => Action::Cancel(self.anyone()?),
            80..84 => Action::Requeue(self.anyone()?),
            84 => Action::Remove(self.anyone()?),
            85 => Action::Cleanup(self.ledger.now),
            86..88 => Action::Pause(self.queue()),
            88..91 => Action::Resume(self.queue()),
            91..94 => Action::TakeDeliveries(Duration::from_secs(self.rng.random_range(1..60))),
            94..100 => return self.report_delivery(),
            100..111 => self.create_in_lane(),
            111 => self.put_policy(),
            _ => self.act_on_batch(),
        })
    }

    fn command(&mut self) -> &'static str {
        COMMANDS[self.rng.random_range(0..COMMANDS.len())]
    }

    fn queue(&mut self) -> QueueKey {
        let command = self.command();
        QueueKey::new(&self.tenant, command)
    }

    /// Mostly one of the newest.
    pub(super) fn anyone(&mut self) -> Option<TaskRef> {
        let known = self.ledger.known.len();
        let reach = if self.rng.random_bool(0.5) { 20 } else { 400 };
        let back = self.rng.random_range(0..reach);
        known.checked_sub(1 + back).map(|index| self.ledger.known[index].clone())
    }

    pub(super) fn new_task(&mut self, command: &str) -> New {
        self.payloads += 1;
        let fill = "x".repeat(self.rng.random_range(0..200));
        let new = New::of(command).payload(&format!("{{\"n\":{},\"fill\":\"{fill}\"}}", self.payloads));
        new.max_attempts(self.rng.random_range(1..=4))
    }

    fn create(&mut self) -> Action {
        let command = self.command();
        let mut new = self.new_task(command);
        if self.rng.random_bool(0.5) {
            new = new.priority(self.rng.random_range(0..10));
        }
        if self.rng.random_bool(0.4) {
            new = new.key(&format!("key-{}", self.rng.random_range(0..KEYS)));
        }
        if self.rng.random_bool(0.4) {
            new = new.webhook("https://example.org/done");
        }
        if self.rng.random_bool(0.2) {
            new = new.delayed_ms(self.rng.random_range(1..60_000));
        }
        Action::Create(self.relate(new).build(&self.tenant))
    }

    pub(super) fn worker(&mut self) -> Arc<Owner> {
        Arc::new(Owner::new("subject", &format!("worker-{}", self.rng.random_range(0..WORKERS))))
    }

    fn claim(&mut self) -> Claim {
        let commands = match self.rng.random_bool(0.4) {
            true => Commands::Any,
            false => Commands::these([self.command(), LIMITED]),
        };
        Claim {
            tenant: self.tenant.clone(),
            commands,
            owner: self.worker(),
            lease: Duration::from_secs(self.rng.random_range(1..90)),
            is_default_lease: false,
            count: self.rng.random_range(1..5),
            wait: Wait::No,
        }
    }

    /// Something a worker says of a task it was lent, perhaps long ago. Who says nothing has vanished.
    fn report(&mut self) -> Option<Action> {
        let index = self.rng.random_range(0..self.held.len().max(1));
        let task = self.held.get(index)?.clone();
        let owner = task.state.lease()?.owner.clone();
        let report = Report { tenant: self.tenant.clone(), id: task.id, owner, attempt: Some(task.attempts) };
        // Kept in one of four cases, to be spoken for again when it is too late.
        if self.rng.random_bool(0.75) {
            self.held.swap_remove(index);
        }
        Some(match self.rng.random_range(0..20) {
            0..10 => Action::Submit(Submit { outcome: self.outcome(&task), report }),
            10..14 => {
                let delay_seconds = self.rng.random_range(-1..6);
                Action::Nack(Nack::new(report, delay_seconds, Some("busy".into())))
            }
            14..17 => Action::Abandon(Abandon::new(report, self.rng.random())),
            _ => {
                self.held.push(task);
                let extend = Duration::from_secs(self.rng.random_range(1..120));
                Action::Heartbeat(Heartbeat::new(report, extend))
            }
        })
    }

    fn outcome(&mut self, task: &Task) -> Outcome {
        match self.rng.random_bool(0.25) {
            true => Outcome::failed("no such file"),
            false => Outcome::completed(&result_text(task.id, task.attempts)),
        }
    }

    /// A receiver that got a callback may say that it did not, and one that did not may say nothing.
    fn report_delivery(&mut self) -> Option<Action> {
        let delivery = self.taken.pop()?;
        let error = || "500".to_owned();
        let report = match self.rng.random_range(0..8) {
            0..4 => DeliveryReport::Delivered,
            4..6 => DeliveryReport::Retry { due: self.ledger.now.plus_seconds(5), error: error() },
            6 => DeliveryReport::Failed { error: error() },
            _ => return None,
        };
        Some(Action::ReportDelivery(delivery, report))
    }

    /// Clients go on from what they heard.
    pub(super) fn follow(&mut self, reply: Reply) {
        match reply {
            Reply::Lent(tasks) => self.held.extend(tasks),
            Reply::Deliveries(deliveries) => self.taken.extend(deliveries),
            _ => {}
        }
    }
}
