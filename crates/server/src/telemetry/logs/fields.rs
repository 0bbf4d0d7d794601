//! The fields of an event or a span, in the order they were recorded.

use std::error::Error;
use std::fmt::{Debug, Write};

use serde_json::Value;
use tracing::field::{Field, Visit};

/// The names every line sets by itself.
const RESERVED: [&str; 5] = ["time", "level", "msg", "service", "env"];

#[derive(Default)]
pub(super) struct Fields {
    pub message: String,
    pub named: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Adds the fields of an enclosing span that are not there yet.
    pub fn add_missing(&mut self, outer: &Fields) {
        for (name, value) in &outer.named {
            if !self.named.iter().any(|(known, _)| known == name) {
                self.named.push((name, value.clone()));
            }
        }
    }

    fn set(&mut self, field: &Field, value: Value) {
        let name = field.name().trim_start_matches("r#");
        if RESERVED.contains(&name) {
            return;
        }
        match self.named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, place)) => *place = value,
            None => self.named.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_string(),
            _ => self.set(field, Value::from(value)),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            write!(text, ": {error}").expect("a string can always be written to");
            cause = error.source();
        }
        self.record_str(field, &text);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.set(field, Value::from(value)),
            false => self.record_debug(field, &value),
        }
    }
}
