//! Result callbacks: takes what is due out of the outbox and sees that it arrives.
//!
//! The outbox is the store's. A callback that is taken is ours for a while ([`Policy::hold`]); what we do
//! not report on in that time is due again, here or elsewhere. So nothing is lost when we end, and nothing
//! is sent twice while we live: what comes back is known from `held` and only prolongs the hold.
//!
//! Start at [`Callbacks::run`]; [`Sending`] is one attempt.

mod large;
mod sending;
mod state;

use super::Sender;
use super::door::host_of;
use super::parked::Key;
use crate::config::{Config, Persistence};
use crate::rate::RateScope;
use codeq_queue::{Delivery, Failure, Time};
use large::LargeBodies;
use sending::Sending;
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Callbacks asked of the store at once.
const TAKEN_AT_ONCE: usize = 512;
/// How often the outbox is looked at though nobody said that there is something.
const LOOK: Duration = Duration::from_secs(5);
/// How long to leave a store alone that could not answer.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// How much longer than an attempt a callback is ours.
const HOLD_MARGIN: Duration = Duration::from_secs(5);
/// How limits call it.
const RESULT: &str = "task_result";
/// How long it is ours where other processes take from the same outbox.
const SHARED_HOLD: Duration = Duration::from_secs(60);

/// The numbers of the configuration.
#[derive(Clone, Debug)]
pub struct Policy {
    pub max_attempts: u32,
    pub base_backoff: Duration,
    pub max_backoff: Duration,
    pub timeout: Duration,
    pub hold: Duration,
    /// Other processes take from the same outbox.
    pub is_shared: bool,
}

impl Policy {
    pub fn new(config: &Config) -> Policy {
        let webhooks = &config.webhooks;
        let is_shared = matches!(config.persistence, Persistence::Kvrocks(_));
        let least = webhooks.timeout + HOLD_MARGIN;
        Policy {
            max_attempts: webhooks.result_max_attempts,
            base_backoff: webhooks.result_base_backoff,
            max_backoff: webhooks.result_max_backoff,
            timeout: webhooks.timeout,
            hold: if is_shared { SHARED_HOLD.max(least * 2) } else { least },
            is_shared,
        }
    }

    /// The wait after failed attempt number `attempt`; `chance` in 0..1 makes it up to 10 % longer.
    fn backoff(&self, attempt: u32, chance: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(30);
        let wait = self.base_backoff.saturating_mul(1 << doublings).min(self.max_backoff);
        wait.saturating_add(wait.mul_f64(chance * 0.1))
    }
}

pub struct Callbacks {
    sender: Sender,
    policy: Policy,
    large: LargeBodies,
    state: Mutex<State>,
    /// Something is to be done earlier than planned.
    replan: Notify,
}

impl Callbacks {
    pub fn new(sender: Sender, policy: Policy) -> Arc<Callbacks> {
        let (state, replan) = (Mutex::default(), Notify::new());
        Arc::new(Callbacks { sender, policy, large: LargeBodies::default(), state, replan })
    }

    /// Takes and sends until the server drains.
    pub async fn run(self: Arc<Self>) {
        loop {
            let mut pause = Duration::ZERO;
            if let Err(failure) = self.take_all().await {
                tracing::debug!(err = %failure, "the outbox cannot be read");
                pause = STORE_PAUSE;
            }
            tokio::select! {
                () = self.sender.draining.cancelled() => return,
                () = self.rest(pause) => {}
            }
        }
    }

    /// Until there may be something to take; at least `pause`.
    async fn rest(self: &Arc<Self>, pause: Duration) {
        tokio::time::sleep(pause).await;
        let look = tokio::time::sleep(LOOK);
        tokio::pin!(look);
        loop {
            self.release().await;
            let next = self.state().next_event();
            let wait = next.map_or(LOOK, |at| at.since(self.sender.broker.now()));
            tokio::select! {
                () = self.sender.signals.ended() => return,
                () = self.sender.broker.redelivered() => return,
                () = &mut look => return,
                () = tokio::time::sleep(wait), if wait < LOOK => {
                    if self.state().is_retry_due(self.sender.broker.now()) {
                        return;
                    }
                }
                () = self.replan.notified() => {}
            }
        }
    }

    async fn take_all(self: &Arc<Self>) -> Result<(), Failure> {
        self.state().forget_retries(self.sender.broker.now());
        while self.sender.outbound.has_room() && !self.sender.draining.is_cancelled() {
            let until = self.sender.broker.now().plus(self.policy.hold);
            self.state().begin_taking();
            let taken = self.sender.broker.take_deliveries(TAKEN_AT_ONCE, self.policy.hold).await;
            let taken = taken?;
            // Of large ones fewer come at once.
            let is_last = taken.len() < TAKEN_AT_ONCE && taken.iter().all(Delivery::has_body);
            let taken = self.state().end_taking(taken, until);
            for delivery in taken {
                self.place(delivery).await;
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Sends now, or as soon as the rate limit of the address allows.
    async fn place(self: &Arc<Self>, delivery: Delivery) {
        let key = address_key(&delivery.url);
        let now = self.sender.broker.now();
        let is_waiting = self.state().parked.is_waiting(&key);
        let is_free = match is_waiting {
            true => Err(now),
            false => self.may_send(&key, now).await,
        };
        match is_free {
            Ok(()) => self.send(delivery),
            Err(at) => {
                self.state().parked.park(key, delivery, at);
                self.sender.metrics.rate_limited(RateScope::Webhook, RESULT);
            }
        }
    }

    async fn may_send(&self, key: &Key, now: Time) -> Result<(), Time> {
        let taken = self.sender.take(key, RESULT, now).await;
        taken.map_err(|seconds| now.plus_seconds(seconds))
    }

    /// Sends what the rate limits have held back. Only this and [`Callbacks::place`] touch what is parked,
    /// one after the other, so that it may be asked without holding on to it.
    async fn release(self: &Arc<Self>) {
        let now = self.sender.broker.now();
        loop {
            let Some(key) = self.state().parked.due(now) else { return };
            match self.may_send(&key, now).await {
                Ok(()) => {
                    let released = self.state().parked.pop(&key);
                    released.into_iter().for_each(|delivery| self.send(delivery));
                }
                Err(at) => self.state().parked.put_off(&key, at.max(Time::from_millis(now.millis() + 1))),
            }
        }
    }

    fn send(self: &Arc<Self>, delivery: Delivery) {
        let (id, host, tenant) = (delivery.id, host_of(&delivery.url), delivery.tenant.clone());
        let sending = Sending::new(self.clone(), delivery);
        if !self.sender.outbound.push(&tenant, &host, Box::new(sending), usize::MAX) {
            // It comes again when our hold is over.
            self.state().let_go(id);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose bucket an address takes from.
pub fn address_key(url: &str) -> Key {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, url.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests;
