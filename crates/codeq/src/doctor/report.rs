//! What was found, and what to do about it.

use crate::tag;
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Error,
}

#[derive(Serialize, Debug)]
struct Check {
    name: &'static str,
    status: Status,
    text: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    next: String,
}

#[derive(Default)]
pub struct Report {
    checks: Vec<Check>,
}

impl Report {
    pub fn ok(&mut self, name: &'static str, text: impl Into<String>) {
        self.add(name, Status::Ok, text.into(), String::new());
    }

    /// Works, but may not be what is wanted.
    pub fn warn(&mut self, name: &'static str, text: impl Into<String>, next: impl Into<String>) {
        self.add(name, Status::Warn, text.into(), next.into());
    }

    /// A server would not start, or not do its work.
    pub fn error(&mut self, name: &'static str, text: impl Into<String>, next: impl Into<String>) {
        self.add(name, Status::Error, text.into(), next.into());
    }

    fn add(&mut self, name: &'static str, status: Status, text: String, next: String) {
        self.checks.push(Check { name, status, text, next });
    }

    pub fn failures(&self) -> usize {
        self.checks.iter().filter(|check| check.status == Status::Error).count()
    }

    pub fn text(&self) -> String {
        let line = |check: &Check| {
            let (tag, width) = match check.status {
                Status::Ok => (tag::ok(), 4),
                Status::Warn => (tag::warn(), 2),
                Status::Error => (tag::failed(), 1),
            };
            let next = match check.next.is_empty() {
                true => String::new(),
                false => format!("{:23}next: {}\n", "", check.next),
            };
            format!("{tag}{:width$}{:<15}{}\n{next}", "", check.name, check.text)
        };
        self.checks.iter().map(line).collect()
    }

    pub fn json(&self) -> Value {
        json!({"ok": self.failures() == 0, "checks": self.checks})
    }
}
