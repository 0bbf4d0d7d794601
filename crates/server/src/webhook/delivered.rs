//! What receivers answered lately: a memory of this process for whoever looks at deliveries.
//!
//! Bounded, lost at a restart, and decides nothing. The store knows what is to be sent and what has failed.

use super::door::ReceiverAnswer;
use codeq_queue::{Delivery, Time};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Attempts remembered, of all tenants.
const REMEMBERED: usize = 5_000;
/// Attempts of one tenant, so that a busy one leaves room for the others.
const OF_TENANT: usize = 500;

/// One attempt and how it was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnsweredAttempt {
    /// Rises with every attempt.
    pub number: u64,
    pub delivery: Delivery,
    pub at: Time,
    pub is_taken: bool,
    /// `None`: nobody answered.
    pub answer: Option<ReceiverAnswer>,
}

#[derive(Default)]
pub struct AnswerLog {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    last: u64,
    /// The oldest first.
    attempts: VecDeque<Arc<AnsweredAttempt>>,
    of_tenants: HashMap<Arc<str>, usize>,
}

impl Kept {
    fn forget(&mut self, index: usize) {
        let Some(gone) = self.attempts.remove(index) else { return };
        if let Some(count) = self.of_tenants.get_mut(&gone.delivery.tenant) {
            *count -= 1;
            if *count == 0 {
                self.of_tenants.remove(&gone.delivery.tenant);
            }
        }
    }
}

impl AnswerLog {
    /// Remembers an attempt; an earlier one of the same delivery is forgotten with it.
    pub fn add(&self, mut delivery: Delivery, at: Time, is_taken: bool, answer: Option<ReceiverAnswer>) {
        let mut kept = self.kept();
        if delivery.attempts > 0 {
            let earlier = kept.attempts.iter().rposition(|attempt| attempt.delivery.id == delivery.id);
            earlier.into_iter().for_each(|earlier| kept.forget(earlier));
        }
        let tenant = delivery.tenant.clone();
        if kept.of_tenants.get(&tenant).is_some_and(|count| *count >= OF_TENANT) {
            let oldest = kept.attempts.iter().position(|attempt| attempt.delivery.tenant == tenant);
            oldest.into_iter().for_each(|oldest| kept.forget(oldest));
        }
        while kept.attempts.len() >= REMEMBERED {
            kept.forget(0);
        }
        // What was sent is as large as a result, and nobody asks for it here.
        delivery.body = "".into();
        kept.last += 1;
        let number = kept.last;
        kept.attempts.push_back(Arc::new(AnsweredAttempt { number, delivery, at, is_taken, answer }));
        *kept.of_tenants.entry(tenant).or_default() += 1;
    }

    /// Deliveries of a tenant, or of all, that were taken, the newest first, from before `before` on.
    pub fn taken(&self, tenant: Option<&str>, before: u64) -> Vec<Arc<AnsweredAttempt>> {
        let kept = self.kept();
        let newest_first = kept.attempts.iter().rev();
        let taken = newest_first.filter(|attempt| {
            attempt.is_taken
                && attempt.number < before
                && tenant.is_none_or(|tenant| *attempt.delivery.tenant == *tenant)
        });
        taken.cloned().collect()
    }

    /// The last answers to these deliveries.
    pub fn answers(&self, ids: &[u128]) -> HashMap<u128, ReceiverAnswer> {
        let ids: HashSet<u128> = ids.iter().copied().collect();
        let kept = self.kept();
        let theirs = kept.attempts.iter().filter(|attempt| ids.contains(&attempt.delivery.id));
        theirs.filter_map(|attempt| Some((attempt.delivery.id, attempt.answer.clone()?))).collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::{DeliveryState, TaskId};

    fn delivery(id: u128, tenant: &str, attempts: u32) -> Delivery {
        Delivery {
            id,
            task_id: TaskId::from_bits(id),
            tenant: tenant.into(),
            url: "http://receiver/".into(),
            body: "{}".into(),
            state: DeliveryState::Pending { due: Time::ZERO },
            attempts,
            last_error: None,
            created_at: Time::ZERO,
        }
    }

    fn said(status: u16) -> Option<ReceiverAnswer> {
        Some(ReceiverAnswer { status, head: "text".into() })
    }

    #[test]
    fn a_busy_tenant_leaves_room_for_the_others() {
        let log = AnswerLog::default();
        log.add(delivery(0, "quiet", 0), Time::ZERO, true, said(204));
        for id in 1..=600 {
            log.add(delivery(id, "busy", 0), Time::ZERO, true, said(200));
        }
        assert_eq!(log.taken(Some("quiet"), u64::MAX).len(), 1);
        let busy = log.taken(Some("busy"), u64::MAX);
        assert_eq!((busy.len(), busy[0].delivery.id, busy[499].delivery.id), (OF_TENANT, 600, 101));
        assert_eq!(log.taken(None, u64::MAX).len(), OF_TENANT + 1);
        assert_eq!(log.taken(Some("busy"), busy[0].number).len(), OF_TENANT - 1, "a page goes on behind one");
    }

    #[test]
    fn all_tenants_together_have_a_bound() {
        let log = AnswerLog::default();
        for id in 0..6_000u128 {
            log.add(delivery(id, &format!("t{}", id % 100), 0), Time::ZERO, true, None);
        }
        assert_eq!(log.taken(None, u64::MAX).len(), REMEMBERED);
        assert_eq!(log.kept().of_tenants.values().sum::<usize>(), REMEMBERED);
    }

    #[test]
    fn the_last_answer_of_a_delivery_counts() {
        let log = AnswerLog::default();
        log.add(delivery(7, "t", 0), Time::ZERO, false, said(500));
        log.add(delivery(7, "t", 1), Time::ZERO, false, said(503));
        assert_eq!(log.answers(&[7])[&7].status, 503);
        assert!(log.taken(None, u64::MAX).is_empty(), "it was not taken");
        log.add(delivery(7, "t", 2), Time::ZERO, true, said(200));
        assert_eq!(log.taken(None, u64::MAX).len(), 1);
        assert_eq!(log.kept().attempts.len(), 1);
    }
}
