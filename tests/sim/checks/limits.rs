//! Limits are exact: no more run, and no more start in any time, than the policy of a queue allows; and what it allows
//! is lent to who asks.

use super::{Checked, broken};
use crate::sim::flows::{LANES, LIMITED, lane_limit, running};
use crate::sim::ledger::Ledger;
use crate::sim::look::Look;
use codeq_queue::rate::Rate;
use codeq_queue::{QueuePolicy, State, Task, Time};

const CHECK: &str = "limits";

pub fn at_rest(ledger: &Ledger, look: &Look) -> Checked {
    let queue = (None, &ledger.running.most);
    let lanes = ledger.running.most_in_lane.iter().map(|(lane, most)| (Some(*lane), most));
    for (lane, most) in std::iter::once(queue).chain(lanes) {
        let now = running(look, lane);
        if most.is_some_and(|most| now > most) {
            let of = lane.unwrap_or("the queue");
            return broken(CHECK, format!("{now} of {of:?} run, {most:?} may: {:?}", look.policy));
        }
    }
    Ok(())
}

/// `burst` at once, then one after each interval.
pub fn started(starts: &[Time], rate: Rate) -> Checked {
    let Some(last) = starts.last() else { return Ok(()) };
    for (index, first) in starts.iter().enumerate() {
        let window = u64::try_from(last.millis() - first.millis()).unwrap_or(0);
        let earned = window * u64::from(rate.limit) / (u64::from(rate.period_seconds) * 1000);
        let count = (starts.len() - index) as u64;
        if count > earned + u64::from(rate.burst) {
            return broken(CHECK, format!("{count} starts within {window} ms: {rate:?}"));
        }
    }
    Ok(())
}

/// How many tasks a claim that asks for `count` must get while nobody else is at work; `None` if time decides, too.
pub fn allowed(look: &Look, count: usize) -> Option<u64> {
    let plain = QueuePolicy::default();
    let policy = look.policy.as_ref().map_or(&plain, |stored| &*stored.policy);
    if policy.rate.is_some() || policy.lanes.is_ordered {
        return None;
    }
    let free =
        |limit: Option<u64>, lane| limit.map_or(u64::MAX, |most| most.saturating_sub(running(look, lane)));
    let in_lane = |lane: &'static str| {
        let is_ready = |task: &&Task| {
            let is_meant = &*task.body.command == LIMITED && task.body.lane().unwrap_or("") == lane;
            is_meant && matches!(task.state, State::Ready { .. })
        };
        let ready = look.tasks.values().filter(is_ready).count() as u64;
        ready.min(free(lane_limit(policy, lane), Some(lane)))
    };
    let startable: u64 = LANES.into_iter().map(in_lane).sum();
    Some(startable.min(free(policy.concurrency.map(u64::from), None)).min(count as u64))
}

pub fn lent(allowed: Option<u64>, tasks: &[Task]) -> Checked {
    match allowed.is_none_or(|allowed| allowed == tasks.len() as u64) {
        true => Ok(()),
        false => broken(CHECK, format!("{} were lent, {allowed:?} could be: {tasks:?}", tasks.len())),
    }
}
