//! Schedules: how they are put and how they are shown.

use crate::is_zero;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The body of a put.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<i64>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The body of a create.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub task: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_window_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_seconds: Option<i64>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_at: Option<String>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// A schedule and what has come of it.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView<'a> {
    pub name: Cow<'a, str>,
    pub tenant_id: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    pub timezone: Cow<'a, str>,
    /// As it was put.
    pub task: Cow<'a, RawValue>,
    pub overlap: Cow<'a, str>,
    pub catch_up: Cow<'a, str>,
    pub catch_up_window_seconds: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jitter_seconds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<String>,
    pub paused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Cow<'a, str>>,
    /// Left out while it is paused and after its last tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// The last tick that made a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_task_id: Option<String>,
    /// Ticks that came while nothing ran and made no task.
    pub missed: u64,
    /// Ticks that made no task because the one before lived.
    pub skipped: u64,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct SchedulePage<'a> {
    pub items: Vec<ScheduleView<'a>>,
    pub next: Option<String>,
}

/// The next ticks of a plan.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct NextTicks {
    pub items: Vec<String>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Default, Debug)]
pub struct PauseBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Default, Debug)]
pub struct BackfillBody {
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// RFC 3339; not included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}
