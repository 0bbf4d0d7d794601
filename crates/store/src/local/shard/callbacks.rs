//! What is done with callbacks: taken, reported on, listed, made due again, forgotten.

use super::outbox::Callback;
use super::turn::{Reply, Turn};
use crate::local::format::entry::Entry;
use crate::local::rows::library;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::{Delivery, DeliveryState, Refusal, Time, limits};
use std::sync::Arc;
use std::time::Duration;

/// Failed callbacks dropped per round.
const FORGOTTEN_AT_ONCE: usize = 10_000;

impl Turn<'_> {
    pub fn take_deliveries(&mut self, limit: usize, hold: Duration, reply: Reply<Vec<Delivery>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let due = self.shard.outbox.due(self.now, limit);
        let (taken, _) = self.each(due, |turn, callback| {
            let state = DeliveryState::Pending { due: turn.now.plus(hold) };
            let (id, attempts) = (callback.delivery.id, callback.delivery.attempts);
            turn.log(Entry::DeliveryMoved { id, state, attempts, error: None });
            callback
        });
        self.answer_callbacks(reply, taken);
    }

    /// Bodies of a bounded size that are no longer in memory are read from the tables.
    fn answer_callbacks(&mut self, reply: Reply<Vec<Delivery>>, callbacks: Vec<Callback>) {
        let needs_tables = callbacks.iter().any(Callback::lacks_body);
        self.answer_from(reply, needs_tables, move |library| {
            let version = library.version();
            let told = callbacks.iter().map(|callback| {
                if !callback.lacks_body() {
                    return Ok(Some(callback.told()));
                }
                // One that is gone by now is not told of.
                let body = library::callback_body(&version, callback.delivery.id)?;
                Ok(body.map(|body| Delivery { body, ..callback.told() }))
            });
            told.filter_map(Result::transpose).collect()
        });
    }

    pub fn delivery_body(&mut self, id: u128, reply: Reply<Option<Arc<str>>>) {
        match self.shard.outbox.get(id).map(|callback| callback.delivery.clone()) {
            Some(delivery) if delivery.has_body() => self.answer(reply, Some(delivery.body.clone())),
            Some(_) => {
                self.answer_from(reply, true, move |library| library::callback_body(&library.version(), id))
            }
            None => self.answer(reply, None),
        }
    }

    /// Refuses a callback that this shard does not know.
    pub fn report_delivery(&mut self, id: u128, report: DeliveryReport, reply: Reply<Result<(), Refusal>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let Some(attempts) = self.shard.outbox.get(id).map(|callback| callback.delivery.attempts) else {
            return self.answer(reply, Err(Refusal::DeliveryNotFound));
        };
        let cut = |text: String| Some(limits::cut(&text, limits::ERROR_BYTES).into());
        let attempts = attempts + 1;
        let entry = match report {
            DeliveryReport::Delivered => Entry::DeliveryDone { id },
            DeliveryReport::Retry { due, error } => {
                let state = DeliveryState::Pending { due };
                Entry::DeliveryMoved { id, state, attempts, error: cut(error) }
            }
            DeliveryReport::Failed { error } => {
                let state = DeliveryState::Failed { at: self.now };
                Entry::DeliveryMoved { id, state, attempts, error: cut(error) }
            }
        };
        self.log(entry);
        self.answer(reply, Ok(()));
    }

    pub fn deliveries(
        &mut self,
        tenant: Option<&Arc<str>>,
        failed: bool,
        after: u128,
        limit: usize,
        reply: Reply<Vec<Delivery>>,
    ) {
        let wanted = self.shard.outbox.after(after).filter(|Callback { delivery, .. }| {
            tenant.is_none_or(|tenant| delivery.tenant == *tenant)
                && matches!(delivery.state, DeliveryState::Failed { .. }) == failed
        });
        let found = wanted.take(limit).cloned().collect();
        self.answer_callbacks(reply, found);
    }

    pub fn redeliver(&mut self, tenant: &Arc<str>, id: u128, reply: Reply<Result<Delivery, Refusal>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let known = self.shard.outbox.get(id).filter(|callback| callback.delivery.tenant == *tenant);
        let is_failed =
            known.is_some_and(|known| matches!(known.delivery.state, DeliveryState::Failed { .. }));
        if !is_failed {
            return self.answer(reply, Err(Refusal::DeliveryNotFound));
        }
        let state = DeliveryState::Pending { due: self.now };
        self.log(Entry::DeliveryMoved { id, state, attempts: 0, error: None });
        let callback = self.shard.outbox.get(id).expect("moved just now").clone();
        self.answer_from(reply, callback.lacks_body(), move |library| {
            let mut told = callback.told();
            if callback.lacks_body() {
                let body = library::callback_body(&library.version(), id)?;
                told.body = body.unwrap_or(told.body);
            }
            Ok(Ok(told))
        });
    }

    /// Drops callbacks that failed too long ago.
    pub fn forget_failed_deliveries(&mut self) {
        if self.unwritable.is_some() {
            return;
        }
        let kept = i64::try_from(limits::FAILED_DELIVERY_KEPT.as_millis()).unwrap_or(i64::MAX);
        let before = Time::from_millis(self.now.millis().saturating_sub(kept));
        let over = self.shard.outbox.failed_before(before, FORGOTTEN_AT_ONCE);
        self.each(over, |turn, id| turn.log(Entry::DeliveryDone { id }));
    }
}
