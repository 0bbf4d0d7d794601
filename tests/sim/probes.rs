//! Two things that are only to be seen while nobody else is at work: whose turn it is, and who is woken.

use super::action::{Action, Reply};
use super::checks::wake::{answered, woken};
use super::checks::{Checked, limits, order};
use super::clients::{BELL, COMMANDS};
use super::flows::LIMITED;
use super::look::PATIENCE;
use super::world::World;
use codeq_queue::Commands;
use codeq_queue::store::{Claim, Wait};
use rand::Rng;
use std::time::Duration;

impl World {
    fn claim_of(&mut self, command: &str, count: usize, wait: Wait) -> Claim {
        Claim {
            tenant: self.tenant.clone(),
            commands: Commands::these([command]),
            owner: self.worker(),
            lease: Duration::from_secs(self.rng.random_range(5..90)),
            is_default_lease: false,
            count,
            wait,
        }
    }

    pub(super) async fn probe_order(&mut self) -> Checked {
        let look = self.look().await?;
        let command = COMMANDS[self.rng.random_range(0..COMMANDS.len())];
        let count = self.rng.random_range(1..6);
        let is_paused = look.queues.iter().any(|queue| queue.is_paused && &*queue.command == command);
        let claim = Action::Claim(self.claim_of(command, count, Wait::No));
        let reply = answered("a claim", self.door.perform(claim.clone())).await?;
        let (Ok(reply), false) = (reply, self.ground.is_sprung()) else { return Ok(()) };
        self.counts.operations += 1;
        if let Reply::Lent(tasks) = &reply {
            let expected = if is_paused { Vec::new() } else { order::heads(&look, command, count) };
            order::lent(&expected, tasks)?;
        }
        self.ledger.hear(&claim, false, &reply)?;
        self.follow(reply);
        Ok(())
    }

    /// What a policy allows is lent, no more and no less.
    pub(super) async fn probe_limits(&mut self) -> Checked {
        let look = self.look().await?;
        let count = self.rng.random_range(1..8);
        let claim = Action::Claim(self.claim_of(LIMITED, count, Wait::No));
        let reply = answered("a claim", self.door.perform(claim.clone())).await?;
        let (Ok(reply), false) = (reply, self.ground.is_sprung()) else { return Ok(()) };
        self.counts.operations += 1;
        if let Reply::Lent(tasks) = &reply {
            limits::lent(limits::allowed(&look, count), tasks)?;
        }
        self.ledger.hear(&claim, false, &reply)?;
        self.follow(reply);
        Ok(())
    }

    /// A claim waits; a task comes; the claim has it.
    pub(super) async fn probe_wake(&mut self) -> Checked {
        let claim = self.claim_of(BELL, 1, Wait::Forever);
        let door = self.door.clone();
        let waiting = tokio::spawn({
            let claim = claim.clone();
            async move { door.wait(claim).await }
        });
        tokio::task::yield_now().await;
        let arrived = answered("queues", self.door.store.queues(None)).await?;
        let delay = self.rng.random_range(1..5_000);
        let is_delayed = self.rng.random_bool(0.5);
        let new = self.new_task(BELL);
        let new = if is_delayed { new.delayed_ms(delay) } else { new };
        let create = Action::Create(new.build(&self.tenant));
        self.ledger.intend(&create);
        self.counts.operations += 2;
        let made = answered("a create", self.door.perform(create.clone())).await?;
        if is_delayed {
            self.set_clock(self.ledger.latest.plus(Duration::from_millis(delay)));
        }
        let (Ok(_), Ok(made), false) = (arrived, made, self.ground.is_sprung()) else {
            waiting.abort();
            return Ok(());
        };
        self.ledger.hear(&create, false, &made)?;
        let lent = tokio::time::timeout(PATIENCE / 2, waiting).await;
        if lent.is_err() && self.ground.is_sprung() {
            return Ok(());
        }
        woken(lent.is_ok())?;
        if let (Ok(Ok(Ok(tasks))), false) = (lent, self.ground.is_sprung()) {
            let reply = Reply::Lent(tasks);
            self.ledger.hear(&Action::Claim(claim), false, &reply)?;
            self.follow(reply);
        }
        Ok(())
    }
}
