//! Reading a provider's configuration, key by key, so that a key no one asked for is noticed.

use super::duration;
use serde_json::{Map, Value};
use std::time::Duration;

pub struct Fields {
    kind: &'static str,
    map: Map<String, Value>,
}

impl Fields {
    /// `config` is a map, JSON text of one, or nothing.
    pub fn new(kind: &'static str, config: &Value) -> Result<Fields, String> {
        let parsed = match config {
            Value::String(text) if text.trim().is_empty() => Value::Null,
            Value::String(text) => {
                serde_json::from_str(text).map_err(|_| format!("{kind} auth config is not valid JSON"))?
            }
            other => other.clone(),
        };
        match parsed {
            Value::Object(map) => Ok(Fields { kind, map }),
            Value::Null => Ok(Fields { kind, map: Map::new() }),
            _ => Err(format!("{kind} auth config must be an object")),
        }
    }

    /// Trimmed; empty if absent.
    pub fn text(&mut self, key: &str) -> Result<String, String> {
        match self.take(key) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.trim().to_owned()),
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    /// Like `text`, and `<label> is required` if that is empty.
    pub fn required(&mut self, key: &str, label: &str) -> Result<String, String> {
        Some(self.text(key)?).filter(|text| !text.is_empty()).ok_or_else(|| format!("{label} is required"))
    }

    pub fn duration(&mut self, key: &str) -> Result<Option<Duration>, String> {
        let wrong = self.wrong(key, "a duration");
        self.take(key).map(|value| duration::read(&value).ok_or(wrong)).transpose()
    }

    /// Empty if absent.
    pub fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        let wrong = self.wrong(key, "a list of strings");
        let text = |value: Value| value.as_str().map(str::to_owned).ok_or(wrong.clone());
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => values.into_iter().map(text).collect(),
            Some(_) => Err(wrong),
        }
    }

    /// Empty if absent.
    pub fn object(&mut self, key: &str) -> Result<Map<String, Value>, String> {
        match self.take(key) {
            None => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map),
            Some(_) => Err(self.wrong(key, "an object")),
        }
    }

    /// As it stands; none if absent or null.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    /// Refuses a key that nobody took.
    pub fn finish(self) -> Result<(), String> {
        match self.map.keys().next() {
            Some(key) => Err(format!("unknown key {key:?} in {} auth config", self.kind)),
            None => Ok(()),
        }
    }

    fn wrong(&self, key: &str, what: &str) -> String {
        format!("{key} must be {what} in {} auth config", self.kind)
    }
}
