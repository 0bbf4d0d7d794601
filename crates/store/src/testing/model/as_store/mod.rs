//! The model as a store, to hold the exam and the model against each other.
//!
//! Everything happens under one lock at the moment of the call; answers are ready when they are returned,
//! except those that wait. Reopening keeps everything, because nothing was ever elsewhere.

mod verbs;

use super::state::Model;
use crate::testing::exam::{Candidate, Open, START};
use crate::{Clock, ManualClock, Rules};
use codeq_queue::store::{Answer, Claim, ResultLookup, TaskRef, Wait};
use codeq_queue::subscription::Subscription;
use codeq_queue::topic::Topic;
use codeq_queue::{AuditEntry, Delivery, DeliveryState, Failure, Operation, Store, Task, Time};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;

struct Inner {
    model: Model,
    rng: SmallRng,
    claims: Vec<(Claim, oneshot::Sender<Vec<Task>>)>,
    watches: Vec<(TaskRef, Wait, oneshot::Sender<ResultLookup>)>,
    topics: BTreeMap<(Arc<str>, String), Topic>,
    subscriptions: Vec<Subscription>,
    operations: Vec<Operation>,
    /// The newest first.
    audit: Vec<AuditEntry>,
    is_closed: bool,
}

#[derive(Clone)]
struct ModelStore {
    inner: Arc<Mutex<Inner>>,
    clock: Arc<ManualClock>,
}

/// Opens the model as a candidate.
pub fn open() -> Open {
    Arc::new(|rules: Rules| {
        let inner = Inner {
            model: Model::new(rules, START),
            rng: SmallRng::seed_from_u64(7),
            claims: Vec::new(),
            watches: Vec::new(),
            topics: BTreeMap::new(),
            subscriptions: Vec::new(),
            operations: Vec::new(),
            audit: Vec::new(),
            is_closed: false,
        };
        let store =
            ModelStore { inner: Arc::new(Mutex::new(inner)), clock: Arc::new(ManualClock::at(START)) };
        let hooked = store.clone();
        store.clock.on_jump(Box::new(move || drop(hooked.lock())));
        Arc::new(store)
    })
}

impl Candidate for ModelStore {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    fn rules(&self) -> Rules {
        self.lock().model.rules.clone()
    }

    fn keeps_on_reopen(&self) -> bool {
        true
    }

    fn reopen(&self) {
        self.lock().is_closed = false;
    }
}

impl Inner {
    fn pulse(&mut self, now: Time) {
        let rng = &mut self.rng;
        self.model.advance(now.max(self.model.now), &mut |_, low, high| rng.random_range(low..=high));
        let now = self.model.now;
        let kept = |delivery: &Delivery| match delivery.state {
            DeliveryState::Failed { at } => at.plus_seconds(7 * 86_400) > now,
            DeliveryState::Pending { .. } => true,
        };
        self.model.callbacks.retain(kept);
        self.serve();
    }

    fn take(&mut self, claim: &Claim) -> Vec<Task> {
        let mut tasks = Vec::new();
        while tasks.len() < claim.count {
            let Some(id) = self.model.candidates(claim).first().copied() else { break };
            tasks.push(self.model.lend(id, claim));
        }
        tasks
    }

    /// Answers everyone who waits and need not any more, in the order they came.
    fn serve(&mut self) {
        let over = |inner: &Inner, wait: Wait| match wait {
            Wait::No => true,
            Wait::Until(at) => at <= inner.model.now || inner.is_closed,
            Wait::Forever => inner.is_closed,
        };
        for (claim, sender) in std::mem::take(&mut self.claims) {
            if sender.is_closed() {
                continue;
            }
            let tasks = if self.is_closed { Vec::new() } else { self.take(&claim) };
            if tasks.is_empty() && !over(self, claim.wait) {
                self.claims.push((claim, sender));
            } else {
                drop(sender.send(tasks));
            }
        }
        for (named, wait, sender) in std::mem::take(&mut self.watches) {
            let found = self.model.result(&named);
            if found == ResultLookup::Pending && !over(self, wait) {
                self.watches.push((named, wait, sender));
            } else {
                drop(sender.send(found));
            }
        }
    }
}

impl ModelStore {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock().expect("no one panics holding the model");
        if !inner.is_closed {
            inner.pulse(self.clock.now());
        }
        inner
    }

    fn now<T: Send + 'static>(&self, act: impl FnOnce(&mut Inner) -> T) -> Answer<T> {
        let mut inner = self.lock();
        if inner.is_closed {
            return Box::pin(std::future::ready(Err(Failure::Closed)));
        }
        let answer = act(&mut inner);
        inner.serve();
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn each<T: Send + 'static, I>(&self, items: Vec<I>, act: impl Fn(&mut Inner, I) -> T) -> Answer<Vec<T>> {
        self.now(|inner| items.into_iter().map(|item| act(inner, item)).collect())
    }

    fn later<T: Send + 'static>(&self, wait: impl FnOnce(&mut Inner, oneshot::Sender<T>)) -> Answer<T> {
        let (sender, receiver) = oneshot::channel();
        let registered = self.now(|inner| wait(inner, sender));
        Box::pin(async move {
            registered.await?;
            receiver.await.map_err(|_| Failure::Closed)
        })
    }
}
