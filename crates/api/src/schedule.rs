//! Schedules: how they are put and how they are shown.

use crate::is_zero;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The body of a put.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleBody<'a> {
    /// Five fields, or six with seconds in front; either this or `every_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// 1 to 31,622,400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<i64>,
    /// RFC 3339: an instant at which the interval ticks; the epoch if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// An IANA name; UTC if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The body of a create.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub task: Option<&'a RawValue>,
    /// `skip`, `allow` or `cancel`: what happens while the task of the last tick lives; `skip` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    /// `none`, `one` or `all`: what is done about ticks that came while nothing ran; `one` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<String>,
    /// Ticks that are older are not caught up: 1 to 31,622,400, a day if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_window_seconds: Option<i64>,
    /// Each task waits up to this long, by its name and tick: 0 to 86,400, 0 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_seconds: Option<i64>,
    /// RFC 3339: no tick before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_at: Option<String>,
    /// RFC 3339: no tick at or after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_at: Option<String>,
    /// It does not tick until it is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// A schedule and what has come of it.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView<'a> {
    /// 1 to 128 of `[A-Za-z0-9_.:-]`.
    pub name: Cow<'a, str>,
    /// Whose schedule.
    pub tenant_id: Cow<'a, str>,
    /// As it was put; absent if it has an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Cow<'a, str>>,
    /// The interval; absent if it has a cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<u64>,
    /// An instant at which the interval ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// An IANA name.
    pub timezone: Cow<'a, str>,
    /// As it was put.
    pub task: Cow<'a, RawValue>,
    /// `skip`, `allow` or `cancel`.
    pub overlap: Cow<'a, str>,
    /// `none`, `one` or `all`.
    pub catch_up: Cow<'a, str>,
    /// Ticks that are older are not caught up.
    pub catch_up_window_seconds: u64,
    /// Each task waits up to this long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jitter_seconds: u64,
    /// No tick before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<String>,
    /// No tick at or after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<String>,
    /// It does not tick.
    pub paused: bool,
    /// Why it was paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Cow<'a, str>>,
    /// Left out while it is paused and after its last tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// The last tick that made a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<String>,
    /// The task of that tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_task_id: Option<String>,
    /// Ticks that came while nothing ran and made no task.
    pub missed: u64,
    /// Ticks that made no task because the one before lived.
    pub skipped: u64,
    /// When it was put for the first time.
    pub created_at: String,
    /// When its definition was last changed.
    pub updated_at: String,
}

/// One page of the schedules of a tenant.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct SchedulePage<'a> {
    /// In the order of their names.
    pub items: Vec<ScheduleView<'a>>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}

/// The next ticks of a plan.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct NextTicks {
    /// RFC 3339, the next one first; fewer than asked for if the plan ends.
    pub items: Vec<String>,
}

/// Why a schedule is paused.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Default, Debug)]
pub struct PauseBody {
    /// At most 512 bytes; blank is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The stretch of time whose ticks make their tasks now, at most 10,000.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Default, Debug)]
pub struct BackfillBody {
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// RFC 3339; not included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}
