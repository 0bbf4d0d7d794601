//! Applies the rule of each key's kind: bounds, replacements, faults.

use codeq_queue::BackoffPolicy;
use serde_json::{Map, Value};
use url::Url;

use super::address::{ListenAddress, parse_host};
use super::error::Fault;
use super::keys::{BACKEND_KEYS, KEYS, Key, Kind};
use super::settings::{Findings, Settings, plain_default};

/// What a rule makes of a value.
enum Ruling {
    Keep,
    UseDefault,
    Replace(Value),
    Fault(String),
}

pub(super) fn apply(settings: &mut Settings, findings: &mut Findings) {
    for key in KEYS {
        if key.kind == Kind::Backends {
            let (backends, known) = (settings.map(key.path).clone(), findings.faults.len());
            let backends = apply_to_backends(backends, key.path, findings);
            for fault in &mut findings.faults[known..] {
                fault.place = fault.key.as_deref().and_then(|path| settings.place(path));
            }
            settings.put(key.path, backends);
            continue;
        }
        match rule(key, settings.value(key.path), key.path, findings) {
            Ruling::Keep => {}
            Ruling::UseDefault => settings.reset(key.path),
            Ruling::Replace(value) => settings.put(key.path, value),
            Ruling::Fault(text) => {
                let place = settings.place(key.path);
                findings.faults.push(Fault { place, ..Fault::of(key.path, text) });
                // What is checked next has a field for a number of this size; nothing comes of it.
                if settings.value(key.path).is_number() {
                    settings.put(key.path, plain_default(key));
                }
            }
        }
    }
}

fn apply_to_backends(
    backends: Map<String, Value>,
    path: &str,
    findings: &mut Findings,
) -> Map<String, Value> {
    backends
        .into_iter()
        .map(|(name, entry)| {
            let entry = apply_to_backend(&entry, &format!("{path}.{name}"), findings);
            (name, Value::Object(entry))
        })
        .collect()
}

/// The entry with all its fields.
fn apply_to_backend(entry: &Value, path: &str, findings: &mut Findings) -> Map<String, Value> {
    let mut full = Map::new();
    for key in BACKEND_KEYS {
        let given = entry.get(key.path).filter(|value| !value.is_null()).cloned();
        let value = given.unwrap_or_else(|| plain_default(key));
        let ruled = match rule(key, &value, &format!("{path}.{}", key.path), findings) {
            Ruling::Keep => value,
            Ruling::Replace(value) => value,
            Ruling::UseDefault => plain_default(key),
            Ruling::Fault(text) => {
                findings.faults.push(Fault::of(&format!("{path}.{}", key.path), text));
                plain_default(key)
            }
        };
        full.insert(key.path.to_string(), ruled);
    }
    full
}

fn rule(key: &Key, value: &Value, path: &str, findings: &mut Findings) -> Ruling {
    match value {
        Value::String(text) => rule_text(key, text, path, findings),
        Value::Number(number) => match number.as_i64() {
            Some(number) if key.kind != Kind::Ratio => rule_int(key.kind, number, path),
            _ => rule_ratio(number.as_f64().unwrap_or(1.0)),
        },
        _ => Ruling::Keep,
    }
}

fn rule_int(kind: Kind, number: i64, path: &str) -> Ruling {
    match kind {
        Kind::Count(_) | Kind::Few(_) | Kind::Flat(_) if number <= 0 => Ruling::UseDefault,
        Kind::NotNegative(_) if number < 0 => Ruling::Replace(Value::from(0)),
        Kind::Flat(most) if number > most => Ruling::Replace(Value::from(most)),
        Kind::Count(most) | Kind::NotNegative(most) if number > most => {
            Ruling::Fault(format!("{path} must be at most {most}"))
        }
        Kind::Few(most) if number > most => Ruling::Fault(format!("{path} must be between 1 and {most}")),
        Kind::Within(least, most) if !(least..=most).contains(&number) => {
            Ruling::Fault(format!("{path} must be between {least} and {most}"))
        }
        _ => Ruling::Keep,
    }
}

fn rule_ratio(ratio: f64) -> Ruling {
    let is_ratio = ratio > 0.0 && ratio <= 1.0;
    Ruling::Replace(Value::from(if is_ratio { ratio } else { 1.0 }))
}

fn rule_text(key: &Key, text: &str, path: &str, findings: &mut Findings) -> Ruling {
    let is_blank = text.trim().is_empty();
    let fault_unless = |fits: bool, wanted: &str| match fits {
        true => Ruling::Keep,
        false => Ruling::Fault(format!("{path} must be {wanted}")),
    };
    match key.kind {
        Kind::Filled | Kind::Choice(_) | Kind::Policy | Kind::Zone | Kind::Host | Kind::Listen
            if is_blank =>
        {
            Ruling::UseDefault
        }
        Kind::Choice(names) => fault_unless(names.contains(&text), &listed(names)),
        Kind::Policy if BackoffPolicy::parse(text).is_none() => {
            findings.warnings.push(format!("{path} {text:?} is unknown, exp_full_jitter is used"));
            Ruling::UseDefault
        }
        Kind::Zone if jiff::tz::TimeZone::get(text).is_err() => {
            Ruling::Fault(format!("{path} {text:?} is not a known time zone"))
        }
        Kind::Host => fault_unless(parse_host(text).is_some(), "an IP address or a host name"),
        Kind::Listen => fault_unless(ListenAddress::parse(text).is_some(), "host:port or :port"),
        Kind::HttpUrl if is_blank => Ruling::Replace(Value::from("")),
        Kind::HttpUrl => fault_unless(is_http_url(text), "a valid http(s) URL"),
        _ => Ruling::Keep,
    }
}

/// Whether requests can be sent there.
pub(super) fn is_http_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// `debug, info, warn or error`.
fn listed(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.join(", "),
    }
}
