//! What a producer asked of a task, and what is asked of a running one, as text in the head of its record: scripts
//! act on it.

use crate::kvrocks::format::keys::queue_text;
use crate::kvrocks::format::record::quoted;
use codeq_queue::{CancelRequest, OnConflict, QueueKey, State, Task, Time, UniqueRule, UniqueUntil, limits};
use serde::Deserialize;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Bits of `notes`: what is kept beside a record.
pub const CHECKPOINT: u32 = 1;
pub const PROGRESS: u32 = 2;

/// `<cmd>:<T>:<key>`, what the key of a unique task is called.
pub fn unique_name(queue: &QueueKey, key: &str) -> String {
    format!("{}:{key}", queue_text(queue))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The fields of the head that few tasks have, each with its comma.
pub fn write_head(out: &mut String, task: &Task) {
    let notes = if task.checkpoint.is_some() { CHECKPOINT } else { 0 };
    let written = write_options(out, task).and_then(|()| match notes {
        0 => Ok(()),
        notes => write!(out, ",\"notes\":{notes}"),
    });
    written.expect("writing to a string does not fail");
    if let Some(cancel) = task.state.lease().and_then(|lease| lease.cancel.as_deref()) {
        out.push_str(&format!(",\"cancel\":{{\"by\":{}", cancel.deadline.millis()));
        if let Some(reason) = &cancel.reason {
            out.push_str(&format!(",\"reason\":{}", quoted(reason)));
        }
        out.push('}');
    }
}

fn write_options(out: &mut String, task: &Task) -> std::fmt::Result {
    let Some(options) = task.body.options.as_deref() else { return Ok(()) };
    // Records of older versions name their lane behind the id: those stand in the lists of tasks without one.
    if let Some(lane) = &options.lane {
        write!(out, ",\"lane\":{}", quoted(lane))?;
    }
    if let Some(at) = options.expires_at {
        write!(out, ",\"expiresAtMs\":{}", at.millis())?;
    }
    if let Some(longest) = options.max_run {
        write!(out, ",\"maxRunMs\":{}", millis(longest))?;
    }
    let Some(rule) = &options.unique else { return Ok(()) };
    let queue = QueueKey::new(&task.body.tenant, &task.body.command);
    let to = match rule.until {
        UniqueUntil::Started => "\"started\"".to_owned(),
        UniqueUntil::Ended => "\"ended\"".to_owned(),
        UniqueUntil::For(life) => task.created_at.plus(life).millis().to_string(),
    };
    let (name, conflict) = (quoted(&unique_name(&queue, &rule.key)), rule.on_conflict.word());
    write!(out, ",\"unique\":{{\"name\":{name},\"to\":{to},\"conflict\":\"{conflict}\"")?;
    if let Some(wait) = rule.max_wait {
        write!(out, ",\"wait\":{}", millis(wait))?;
    }
    out.push('}');
    Ok(())
}

/// Until when a key is taken.
#[derive(Deserialize)]
#[serde(untagged)]
enum To {
    Instant(i64),
    Point(String),
}

#[derive(Deserialize)]
pub struct UniqueText {
    name: String,
    to: To,
    #[serde(default)]
    conflict: String,
    #[serde(default)]
    wait: Option<u64>,
}

impl UniqueText {
    pub fn rule(&self, queue: &QueueKey, created_at: Time) -> UniqueRule {
        let prefix = unique_name(queue, "");
        let until = match &self.to {
            To::Instant(at) => UniqueUntil::For(Time::from_millis(*at).since(created_at)),
            To::Point(word) if word == "started" => UniqueUntil::Started,
            To::Point(_) => UniqueUntil::Ended,
        };
        UniqueRule {
            key: self.name.strip_prefix(&prefix).unwrap_or(&self.name).into(),
            until,
            on_conflict: OnConflict::parse(&self.conflict).unwrap_or_default(),
            max_wait: self.wait.map(Duration::from_millis),
        }
    }
}

#[derive(Deserialize)]
pub struct CancelText {
    by: i64,
    #[serde(default)]
    reason: Option<String>,
}

impl CancelText {
    pub fn request(&self) -> Arc<CancelRequest> {
        let reason = self.reason.as_deref().map(Into::into);
        Arc::new(CancelRequest { deadline: Time::from_millis(self.by), reason })
    }
}

/// A reason as it is kept: what is told of it later fits into an error.
pub fn kept_reason(reason: Option<&str>) -> &str {
    const BEFORE: &str = "CANCELLED: ";
    limits::cut(reason.unwrap_or_default(), limits::ERROR_BYTES - BEFORE.len())
}

/// What `intake.lua` has to know of a task besides its record; empty for most.
pub fn options_text(task: &Task, queue: &QueueKey, home: &str, only: bool) -> String {
    let Some(options) = task.body.options.as_deref() else { return String::new() };
    let mut fields = Vec::new();
    if let Some(lane) = &options.lane {
        fields.push(format!("\"lane\":{}", quoted(lane)));
    }
    if let Some(at) = options.expires_at {
        fields.push(format!("\"expires\":{}", at.millis()));
    }
    if let Some(rule) = &options.unique {
        fields.push(format!(
            "\"name\":{},\"conflict\":\"{}\",\"queue\":{},\"home\":{}",
            quoted(&unique_name(queue, &rule.key)),
            rule.on_conflict.word(),
            quoted(&queue_text(queue)),
            quoted(home),
        ));
    }
    fields.extend(crate::kvrocks::timers::links::option_fields(task, only));
    if fields.is_empty() { String::new() } else { format!("{{{}}}", fields.join(",")) }
}

/// When a task expires that nobody has claimed.
pub fn waits_until(task: &Task) -> Option<Time> {
    let is_waiting = matches!(task.state, State::Ready { .. } | State::Delayed { .. } | State::Held(_))
        && task.attempts == 0;
    task.body.options.as_deref().filter(|_| is_waiting)?.expires_at
}

/// The unique key that a task holds as far as its record says.
pub fn held_key(task: &Task) -> Option<&str> {
    let rule = task.body.unique()?;
    let is_held = match rule.until {
        UniqueUntil::Started => task.state.is_live() && task.attempts == 0,
        UniqueUntil::Ended => task.state.is_live(),
        UniqueUntil::For(_) => true,
    };
    is_held.then_some(&rule.key)
}
