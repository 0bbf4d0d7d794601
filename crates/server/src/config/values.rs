//! Turns YAML values and texts into the value a key wants, or says which key they do not fit.
//!
//! The faults name the key and the wanted type, never the value: it may be a secret.

use serde_json::{Map, Value};

use super::error::Fault;
use super::keys::{BACKEND_KEYS, Key, Kind};

/// Reads a value of the file, or of a JSON text, for `key`. `path` names it in faults. Null is unset.
pub(super) fn from_value(key: &Key, value: Value, path: &str) -> Result<Option<Value>, Vec<Fault>> {
    if value.is_null() {
        return Ok(None);
    }
    match key.kind {
        Kind::Auth | Kind::Shards | Kind::Backends | Kind::Names | Kind::Sentinel => {
            read_map(key.kind, decoded(value, path)?, path)
        }
        _ => scalar(key.kind, value, path).map_err(|text| vec![Fault::of(path, text)]),
    }
}

/// Reads the text of a variable or flag called `name` for `key`.
pub(super) fn from_text(key: &Key, text: &str, name: &str) -> Result<Option<Value>, Vec<Fault>> {
    let one = |text: String| vec![Fault::from(text)];
    match key.kind {
        Kind::Bool => Ok(Some(Value::Bool(is_true(text)))),
        Kind::Count(_) | Kind::Few(_) | Kind::Flat(_) | Kind::NotNegative(_) | Kind::Within(..) => {
            let number = text.trim().parse::<i64>().map_err(|_| one(format!("{name} must be an integer")))?;
            Ok(Some(Value::from(number)))
        }
        Kind::Ratio => {
            let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            number.map(|number| Some(Value::from(number))).ok_or(one(format!("{name} must be a number")))
        }
        Kind::Auth | Kind::Shards | Kind::Backends | Kind::Names | Kind::Sentinel => {
            from_value(key, json(text, name)?, name)
        }
        _ => Ok(Some(Value::from(text))),
    }
}

/// The texts that switch something on.
pub(super) fn is_true(text: &str) -> bool {
    ["true", "yes", "1"].iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

/// A map may be written as JSON text.
pub(super) fn decoded(value: Value, path: &str) -> Result<Value, Vec<Fault>> {
    match value {
        Value::String(text) => json(&text, path),
        other => Ok(other),
    }
}

pub(super) fn json(text: &str, name: &str) -> Result<Value, Vec<Fault>> {
    serde_json::from_str(text)
        .map_err(|error| vec![Fault::of(name, format!("{name} is not valid JSON: {error}"))])
}

fn scalar(kind: Kind, value: Value, path: &str) -> Result<Option<Value>, String> {
    let (fits, wanted) = match kind {
        Kind::Bool => (value.is_boolean(), "true or false"),
        Kind::Count(_) | Kind::Few(_) | Kind::Flat(_) | Kind::NotNegative(_) | Kind::Within(..) => {
            (value.is_i64(), "an integer")
        }
        Kind::Ratio => (value.is_number(), "a number"),
        _ => (value.is_string(), "a string; put the value in quotes"),
    };
    fits.then_some(Some(value)).ok_or_else(|| format!("{path} must be {wanted}"))
}

fn read_map(kind: Kind, value: Value, path: &str) -> Result<Option<Value>, Vec<Fault>> {
    match (kind, value) {
        (_, Value::Null) => Ok(None),
        // A bare token is a whole configuration of a static provider.
        (Kind::Auth, value @ (Value::Object(_) | Value::String(_))) => Ok(Some(value)),
        (Kind::Shards, Value::Object(map)) => shards(map, path),
        (Kind::Backends, Value::Object(map)) => backends(map, path),
        (Kind::Sentinel, Value::Object(map)) => sentinel(map, path),
        (Kind::Names, Value::Array(names)) if names.iter().all(Value::is_string) => {
            Ok(Some(Value::Array(names)))
        }
        (Kind::Names, _) => Err(vec![Fault::of(path, format!("{path} must be a list of names"))]),
        _ => Err(vec![Fault::of(path, format!("{path} must be a map or a JSON text"))]),
    }
}

fn no_text(path: &str) -> Fault {
    Fault::of(path, format!("{path} must be a string; put the value in quotes"))
}

fn sentinel(map: Map<String, Value>, path: &str) -> Result<Option<Value>, Vec<Fault>> {
    let faults: Vec<Fault> = map
        .iter()
        .filter_map(|(name, value)| match name.as_str() {
            "addrs" | "master" | "password" if value.is_string() => None,
            "addrs" | "master" | "password" => Some(no_text(&format!("{path}.{name}"))),
            _ => Some(Fault::unknown(&format!("{path}.{name}"))),
        })
        .collect();
    if faults.is_empty() { Ok(Some(Value::Object(map))) } else { Err(faults) }
}

fn shards(map: Map<String, Value>, path: &str) -> Result<Option<Value>, Vec<Fault>> {
    let faults: Vec<Fault> = map
        .iter()
        .filter(|(_, shard)| !shard.is_string())
        .map(|(name, _)| no_text(&format!("{path}.{name}")))
        .collect();
    if faults.is_empty() { Ok(Some(Value::Object(map))) } else { Err(faults) }
}

fn backends(map: Map<String, Value>, path: &str) -> Result<Option<Value>, Vec<Fault>> {
    let mut read = Map::new();
    let mut faults = Vec::new();
    for (name, entry) in map {
        match backend(entry, &format!("{path}.{name}")) {
            Ok(entry) => drop(read.insert(name, entry)),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(Some(Value::Object(read))) } else { Err(faults) }
}

fn backend(entry: Value, path: &str) -> Result<Value, Vec<Fault>> {
    let map = match entry {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        _ => return Err(vec![Fault::of(path, format!("{path} must be a map"))]),
    };
    let mut read = Map::new();
    let mut faults = Vec::new();
    for (name, value) in map {
        let inner = format!("{path}.{name}");
        let Some(key) = BACKEND_KEYS.iter().find(|key| key.path == name) else {
            faults.push(Fault::unknown(&inner));
            continue;
        };
        match from_value(key, value, &inner) {
            Ok(Some(value)) => drop(read.insert(name, value)),
            Ok(None) => {}
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(Value::Object(read)) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_switch_on() {
        for (text, expected) in [
            ("true", true),
            ("YES", true),
            ("1", true),
            ("True", true),
            ("on", false),
            ("0", false),
            ("x", false),
        ] {
            assert_eq!(is_true(text), expected, "{text}");
        }
    }
}
