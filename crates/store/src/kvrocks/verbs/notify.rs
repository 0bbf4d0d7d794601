//! Whom to notify, where every process may: turns and rests are kept in the store, and one script chooses.

use crate::kvrocks::redis::batch::Item;
use crate::kvrocks::redis::reply::{Answered, int};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::shared::{Lot, Pick};
use codeq_queue::subscription::Subscription;
use codeq_queue::{Failure, QueueKey};
use std::sync::Arc;

/// Subscriptions looked at by one call, unless a single lot has more.
const MEMBERS: usize = 500;

impl StoreContext {
    /// One choice per call: a lot is never split, and lots have nothing in common.
    pub async fn choose(
        self: Arc<Self>,
        queue: QueueKey,
        lots: Vec<Lot>,
    ) -> Result<Vec<Arc<Subscription>>, Failure> {
        self.enter().await?;
        let items = together(lots).into_iter().map(|lots| self.choice(&queue, lots));
        let chosen = self.run_batch(items.collect::<Vec<_>>()).await?;
        Ok(chosen.into_iter().flatten().collect())
    }

    fn choice(&self, queue: &QueueKey, lots: Vec<Lot>) -> Item<Vec<Arc<Subscription>>> {
        if lots.iter().all(needs_no_choice) {
            return Item::Answered(lots.into_iter().flat_map(|lot| lot.members).collect());
        }
        let call = self.notify_call(queue, &lots);
        Item::ask(self.default_shard, call, move |reply| {
            let places = Answered::of(reply)?.list();
            let chosen = lots.iter().zip(&places).filter_map(|(lot, place)| {
                let place = usize::try_from(int(place)).ok()?;
                lot.members.get(place).cloned()
            });
            Ok((chosen.collect(), Vec::new()))
        })
    }

    fn notify_call(&self, queue: &QueueKey, lots: &[Lot]) -> Call {
        let keys = &self.home().keys;
        let mut call = Call::new(Script::Notify, vec![keys.of("subs")]);
        for lot in lots {
            call = match &lot.pick {
                Pick::Turns(group) => {
                    call.keys.push(keys.turns(queue, group));
                    call.arg("turns")
                }
                Pick::Number(number) => call.number(number),
            };
            call.keys.extend(lot.members.iter().map(|member| keys.last_told(member.id)));
            call = call.number(lot.members.len());
            call.args.extend(lot.members.iter().map(|member| rest_ms(member).to_string().into_bytes()));
        }
        call
    }
}

/// Whoever never rests and is alone in its lot is told in any case.
fn needs_no_choice(lot: &Lot) -> bool {
    lot.members.len() == 1 && lot.members[0].min_interval.is_zero()
}

/// Far below what the server takes for a life.
fn rest_ms(subscription: &Subscription) -> u64 {
    subscription.min_interval.as_secs().min(u64::from(u32::MAX)) * 1000
}

/// Lots whose members fit into one call.
fn together(lots: Vec<Lot>) -> Vec<Vec<Lot>> {
    let mut calls: Vec<Vec<Lot>> = Vec::new();
    let mut members = 0;
    for lot in lots {
        members += lot.members.len();
        match calls.last_mut() {
            Some(call) if members <= MEMBERS => call.push(lot),
            _ => {
                members = lot.members.len();
                calls.push(vec![lot]);
            }
        }
    }
    calls
}
