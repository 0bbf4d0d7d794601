//! What a script did to one queue because it was time, and what is told of it.

use crate::kvrocks::coordination::events::Told;
use crate::kvrocks::redis::connection::Reply;
use crate::kvrocks::redis::reply::{int, list, string, text};
use crate::kvrocks::store::StoreContext;
use codeq_queue::event::What;
use codeq_queue::{AttemptOutcome, Event, State, Time};

/// What a script did to one queue because it was time.
pub struct Acted {
    moved: Vec<Reply>,
    ready_before_moves: i64,
    ended: Vec<Reply>,
    ready_before_ends: i64,
    looked: i64,
}

impl Acted {
    pub fn parse(reply: Reply) -> Acted {
        let mut parts = list(reply).into_iter();
        let mut next = || parts.next().unwrap_or(Reply::Nil);
        Acted {
            moved: list(next()),
            ready_before_moves: int(&next()),
            ended: list(next()),
            ready_before_ends: int(&next()),
            looked: int(&next()),
        }
    }

    /// Tells what happened. Gives how many ids were looked at.
    pub fn settle(self, keeper: &StoreContext, now: Time, events: &mut Vec<Event>) -> i64 {
        let mut is_empty = self.ready_before_moves == 0;
        for reply in self.moved {
            let Some(told) = Told::parse(&text(reply)) else { continue };
            events.push(told.event(now, What::Promoted, std::mem::take(&mut is_empty)));
        }
        let mut is_empty = self.ready_before_ends == 0;
        for pair in self.ended {
            let mut pair = list(pair).into_iter();
            let told = Told::parse(&pair.next().map(text).unwrap_or_default());
            let place = string(pair.next().unwrap_or(Reply::Nil));
            let error = string(pair.next().unwrap_or(Reply::Nil));
            events.extend(told.map(|told| match place.as_str() {
                "CANCELLED" => told.cancelled(now, error.into(), keeper.rules.callbacks),
                "EXPIRED" => told.ended(now, State::Failed, None, Some(error.into()), keeper.rules.callbacks),
                place => expired(keeper, &told, place, now, &mut is_empty),
            }));
        }
        self.looked
    }
}

fn expired(keeper: &StoreContext, told: &Told, place: &str, now: Time, is_empty: &mut bool) -> Event {
    let (outcome, error) = (AttemptOutcome::LeaseExpired, Some("LEASE_EXPIRED".into()));
    match place {
        "DLQ_SET" => told.ended(now, State::Dead, Some(outcome), error, keeper.rules.callbacks),
        "PENDING_LIST" => told.returned(now, outcome, error, std::mem::take(is_empty)),
        _ => told.returned(now, outcome, error, false),
    }
}
