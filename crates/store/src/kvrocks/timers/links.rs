//! What ties tasks together, as text in their records: `links` in the head, which scripts change, and `after` in the
//! tail, which only a requeue takes away.

use codeq_queue::{Delay, Held, OnFailure, State, Task, TaskId, TaskOptions, Time};
use serde::Deserialize;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

fn quoted_ids(ids: &[TaskId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
    ids.join(",")
}

/// The field of the head that few tasks have, with its comma.
pub fn write_head(out: &mut String, task: &Task) {
    let mut fields = Vec::new();
    if let State::Held(held) = &task.state {
        let mut text = format!("\"held\":{{\"open\":[{}]", quoted_ids(&held.open));
        match held.delay {
            Delay::None => {}
            Delay::For(delay) => text.push_str(&format!(",\"delay\":{}", delay.as_millis())),
            Delay::Until(at) => text.push_str(&format!(",\"at\":{}", at.millis())),
        }
        if on_failure(task) == OnFailure::Run {
            text.push_str(",\"run\":true");
        }
        fields.push(text + "}");
    }
    fields.extend(task.body.batch().map(|batch| format!("\"batch\":\"{batch}\"")));
    if !fields.is_empty() {
        write!(out, ",\"links\":{{{}}}", fields.join(",")).expect("writing to a string does not fail");
    }
}

fn on_failure(task: &Task) -> OnFailure {
    task.body.options.as_deref().map(|options| options.on_failure).unwrap_or_default()
}

/// What a task was created after. Scripts find it by this form.
pub fn write_after(out: &mut String, options: &TaskOptions) {
    if options.after.is_empty() {
        return;
    }
    write!(out, ",\"after\":[{}]", quoted_ids(&options.after)).expect("writing to a string does not fail");
    if options.on_failure == OnFailure::Run {
        out.push_str(",\"onDependencyFailure\":\"run\"");
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct LinksText {
    held: Option<HeldText>,
    batch: String,
}

#[derive(Deserialize)]
struct HeldText {
    open: Vec<String>,
    #[serde(default)]
    delay: Option<f64>,
    #[serde(default)]
    at: Option<f64>,
}

impl LinksText {
    pub fn batch(&self) -> Option<TaskId> {
        TaskId::parse(&self.batch)
    }

    pub fn state(&self) -> Option<State> {
        let held = self.held.as_ref()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "milliseconds, below 2^53"
        )]
        let delay = match (held.delay, held.at) {
            (Some(delay), _) => Delay::For(Duration::from_millis(delay as u64)),
            (None, Some(at)) => Delay::Until(Time::from_millis(at as i64)),
            (None, None) => Delay::None,
        };
        Some(State::Held(Arc::new(Held { open: parse_ids(&held.open), delay })))
    }
}

pub fn parse_ids(ids: &[String]) -> Box<[TaskId]> {
    ids.iter().filter_map(|id| TaskId::parse(id)).collect()
}

/// What `joining.lua` has to know of a task: fields of its options.
pub fn option_fields(task: &Task, only: bool) -> Vec<String> {
    let mut fields = Vec::new();
    if only {
        fields.push("\"only\":true".into());
    }
    if matches!(task.state, State::Held(_)) {
        fields.push("\"held\":true".into());
    }
    fields.extend(task.body.batch().map(|batch| format!("\"batch\":\"{batch}\"")));
    fields
}
