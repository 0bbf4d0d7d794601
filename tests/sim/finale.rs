//! The end of a life: the faults stop, everything that lives is claimed and ended, every callback is
//! delivered, and the store is opened once more.

use super::action::{Action, Reply};
use super::checks::wake::answered;
use super::checks::{Checked, Violation, batches, broken, reach};
use super::clients::COMMANDS;
use super::ledger::result_text;
use super::world::World;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::store::{Claim, Report, Submit, Wait};
use codeq_queue::{Commands, Outcome, Owner, QueueKey, Task};
use std::sync::Arc;
use std::time::{Duration, Instant};

const TURNS: u32 = 10;
/// A note that has not come by then was lost; it comes again when the clock has moved on.
const NOTE_PATIENCE: Duration = Duration::from_millis(300);

impl World {
    pub(super) async fn finish(&mut self) -> Checked {
        self.power_cycle().await?;
        self.set_clock(self.ledger.latest);
        for command in COMMANDS {
            self.act(Action::Resume(QueueKey::new(&self.tenant, command))).await?;
        }
        for _ in 0..TURNS {
            self.drain().await?;
            self.release().await?;
            self.set_clock(self.ledger.latest.plus(reach::WITHIN / TURNS));
        }
        let look = self.look().await?;
        reach::drained(&look)?;
        batches::over(&self.ledger, &look)?;
        self.deliver().await?;
        answered("close", self.door.store.clone().close()).await?.ok();
        self.power_cycle().await
    }

    /// Drains what has been released until nothing is held for a reason that is over. Shards tell each other of ends at
    /// their own pace.
    async fn release(&mut self) -> Checked {
        let begun = Instant::now();
        loop {
            let look = self.look().await?;
            let is_stuck = batches::stuck(&look).is_some();
            if self.drain().await? == 0 && (!is_stuck || begun.elapsed() > NOTE_PATIENCE) {
                return Ok(());
            }
            if is_stuck {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// A call that must succeed now.
    pub(super) async fn act(&mut self, action: Action) -> Result<Reply, Violation> {
        let is_stale = self.ledger.is_stale(&action);
        self.ledger.intend(&action);
        self.counts.operations += 1;
        let reply = answered("the finale", self.door.perform(action.clone())).await?;
        match reply {
            Ok(reply) => {
                self.ledger.hear(&action, is_stale, &reply)?;
                Ok(reply)
            }
            Err(failure) => {
                broken("reach", format!("the faults are over, and yet: {failure}"))?;
                Ok(Reply::Nothing)
            }
        }
    }

    /// How many tasks it ended.
    async fn drain(&mut self) -> Result<usize, Violation> {
        let owner = Arc::new(Owner::new("drain", "drain"));
        let mut ended = 0;
        loop {
            let claim = Claim {
                tenant: self.tenant.clone(),
                commands: Commands::Any,
                owner: owner.clone(),
                lease: Duration::from_secs(30),
                is_default_lease: false,
                count: 50,
                wait: Wait::No,
            };
            let Reply::Lent(tasks) = self.act(Action::Claim(claim)).await? else { return Ok(ended) };
            if tasks.is_empty() {
                return Ok(ended);
            }
            ended += tasks.len();
            for task in tasks {
                self.complete(&owner, task).await?;
            }
        }
    }

    async fn complete(&mut self, owner: &Arc<Owner>, task: Task) -> Checked {
        let (tenant, owner) = (self.tenant.clone(), owner.clone());
        let report = Report { tenant, id: task.id, owner, attempt: Some(task.attempts) };
        let outcome = Outcome::completed(&result_text(task.id, task.attempts));
        match self.act(Action::Submit(Submit { report, outcome })).await? {
            Reply::Ended(Err(refusal)) => broken("owner", format!("the owner was refused: {refusal}")),
            _ => Ok(()),
        }
    }

    async fn deliver(&mut self) -> Checked {
        self.set_clock(self.ledger.latest.plus(Duration::from_secs(120)));
        loop {
            let take = Action::TakeDeliveries(Duration::from_secs(60));
            let Reply::Deliveries(deliveries) = self.act(take).await? else { return Ok(()) };
            if deliveries.is_empty() {
                break;
            }
            for delivery in deliveries {
                self.act(Action::ReportDelivery(delivery, DeliveryReport::Delivered)).await?;
            }
        }
        let left = self
            .look()
            .await?
            .deliveries
            .into_iter()
            .find(|delivery| matches!(delivery.state, codeq_queue::DeliveryState::Pending { .. }));
        match left {
            Some(delivery) => broken("ends", format!("never due: {delivery:?}")),
            None => Ok(()),
        }
    }
}
