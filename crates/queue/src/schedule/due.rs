//! What becomes of ticks that are due.
//!
//! A tick is late as long as somebody was there to see it and it is not long ago: it fires. Otherwise it was
//! missed, and the schedule's catch-up says whether it still fires.

use super::{CatchUp, Schedule};
use crate::time::Time;
use std::time::Duration;

/// A tick that is older was missed even if the store was open: the machine slept, or the disk was full.
const LATE: Duration = Duration::from_secs(60);
/// Missed ticks of a cron expression that are counted in one step.
const COUNTED: u64 = 1000;

/// One step for a schedule that is due. It may be due again right after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// The tick that fires, if one does.
    pub fires: Option<Time>,
    /// Ticks that were missed and will not fire.
    pub missed: u64,
    /// The tick after this step; `None` if the plan has ended.
    pub next_at: Option<Time>,
}

/// `open_since` is when the store began to watch the time. `None` if nothing is due.
pub fn due(schedule: &Schedule, now: Time, open_since: Time) -> Option<Due> {
    let tick = schedule.progress.next_at.filter(|tick| *tick <= now)?;
    let (definition, plan) = (&schedule.definition, &schedule.definition.plan);
    let minus = |duration: Duration| {
        Time::from_millis(now.millis() - i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    };
    let seen_since = open_since.max(minus(LATE)).min(now);
    let window = minus(definition.catch_up_window.min(Duration::from_secs(u64::from(u32::MAX))));
    let fire = |tick, missed, next_at| Some(Due { fires: Some(tick), missed, next_at });
    if tick >= seen_since || (definition.catch_up == CatchUp::All && tick >= window) {
        return fire(tick, 0, plan.next(tick));
    }
    let until = match definition.catch_up {
        CatchUp::All => seen_since.min(window),
        CatchUp::None | CatchUp::One => seen_since,
    };
    let passed = plan.pass(tick, until, COUNTED);
    let is_last = passed.next.is_none_or(|next| next >= until);
    match definition.catch_up == CatchUp::One && is_last && passed.last >= window {
        true => fire(passed.last, passed.count - 1, passed.next),
        false => Some(Due { fires: None, missed: passed.count, next_at: passed.next }),
    }
}
