//! Reading a policy: every field checked, every fault told by its path.

use super::{BackoffChange, LaneOverride, LanePolicy, QueuePolicy, SchemaMode};
use crate::limits;
use crate::options::check_lane;
use crate::rate::Rate;
use crate::refusal::Refusal;
use crate::retry::BackoffPolicy;
use serde_json::{Map, Value};
use std::time::Duration;

const RETENTION_SECONDS: u64 = limits::DELAY.as_secs();
const RATE_PERIOD_SECONDS: u64 = 86_400;

/// An object of the policy, and where it is in it.
struct Fields<'a> {
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Refuses what is no object, and names that nobody knows.
    fn of(value: &'a Value, path: &str, known: &[&str]) -> Result<Fields<'a>, Refusal> {
        let fields = value.as_object().ok_or_else(|| invalid(path, "must be an object"))?;
        let fields = Fields { path: path.to_owned(), fields };
        match fields.fields.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(invalid(&fields.at(name), "is not a known field")),
            None => Ok(fields),
        }
    }

    fn at(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// `null` is absent.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn number(&self, name: &str, most: u64) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_u64().filter(|number| (1..=most).contains(number));
        let message = || invalid(&self.at(name), &format!("must be a whole number from 1 to {most}"));
        number.map(Some).ok_or_else(message)
    }

    fn small(&self, name: &str, most: u32) -> Result<Option<u32>, Refusal> {
        let number = self.number(name, u64::from(most))?;
        Ok(number.map(|number| u32::try_from(number).unwrap_or(most)))
    }

    fn seconds(&self, name: &str, most: u64) -> Result<Option<Duration>, Refusal> {
        Ok(self.number(name, most)?.map(Duration::from_secs))
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| invalid(&self.at(name), "must be a text"))
    }

    fn rate(&self, name: &str) -> Result<Option<Rate>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let rate = Fields::of(value, &self.at(name), &["limit", "periodSeconds", "burst"])?;
        let needed =
            |field: &str, found: Option<u32>| found.ok_or_else(|| invalid(&rate.at(field), "is required"));
        let limit = needed("limit", rate.small("limit", limits::POLICY_RATE)?)?;
        let period = rate.small("periodSeconds", RATE_PERIOD_SECONDS as u32)?;
        let period_seconds = needed("periodSeconds", period)?;
        let burst = rate.small("burst", limit)?.unwrap_or(1);
        Ok(Some(Rate { limit, period_seconds, burst }))
    }
}

fn invalid(field: &str, message: &str) -> Refusal {
    Refusal::InvalidPolicy { field: field.to_owned(), message: message.to_owned() }
}

const KNOWN: [&str; 12] = [
    "concurrency",
    "rate",
    "lanes",
    "maxReady",
    "maxAttempts",
    "leaseSeconds",
    "backoff",
    "retentionSeconds",
    "failedRetentionSeconds",
    "maxRunSeconds",
    "payloadSchema",
    "schemaMode",
];

impl QueuePolicy {
    /// A policy from its JSON text.
    pub fn parse(text: &str) -> Result<QueuePolicy, Refusal> {
        let value: Value = serde_json::from_str(text).map_err(|_| Refusal::InvalidBody)?;
        QueuePolicy::read(&value)
    }

    /// A policy from JSON: known fields only, each within its bounds.
    pub fn read(value: &Value) -> Result<QueuePolicy, Refusal> {
        let fields = Fields::of(value, "", &KNOWN)?;
        Ok(QueuePolicy {
            concurrency: fields.small("concurrency", limits::POLICY_CONCURRENCY)?,
            rate: fields.rate("rate")?,
            lanes: fields.get("lanes").map(read_lanes).transpose()?.unwrap_or_default(),
            max_ready: fields.number("maxReady", limits::POLICY_MAX_READY)?,
            max_attempts: fields.small("maxAttempts", limits::IMPORTED_ATTEMPTS)?,
            lease: fields.seconds("leaseSeconds", limits::LEASE_SECONDS)?,
            backoff: fields.get("backoff").map(read_backoff).transpose()?,
            retention: fields.seconds("retentionSeconds", RETENTION_SECONDS)?,
            failed_retention: fields.seconds("failedRetentionSeconds", RETENTION_SECONDS)?,
            max_run: fields.seconds("maxRunSeconds", limits::MAX_RUN.as_secs())?,
            payload_schema: read_schema(&fields)?,
            schema_mode: match fields.text("schemaMode")?.unwrap_or("enforce") {
                "enforce" => SchemaMode::Enforce,
                "warn" => SchemaMode::Warn,
                _ => return Err(invalid("schemaMode", "must be enforce or warn")),
            },
        })
    }
}

fn read_lanes(value: &Value) -> Result<LanePolicy, Refusal> {
    let fields = Fields::of(value, "lanes", &["concurrency", "rate", "ordered", "overrides"])?;
    let is_ordered = match fields.get("ordered") {
        None => false,
        Some(value) => value.as_bool().ok_or_else(|| invalid("lanes.ordered", "must be true or false"))?,
    };
    let mut lanes = LanePolicy {
        concurrency: fields.small("concurrency", limits::POLICY_CONCURRENCY)?,
        rate: fields.rate("rate")?,
        is_ordered,
        ..LanePolicy::default()
    };
    let Some(overrides) = fields.get("overrides") else { return Ok(lanes) };
    let path = "lanes.overrides";
    let overrides = overrides.as_object().ok_or_else(|| invalid(path, "must be an object"))?;
    if overrides.len() > limits::LANE_OVERRIDES {
        return Err(invalid(path, &format!("must have at most {} entries", limits::LANE_OVERRIDES)));
    }
    for (lane, value) in overrides {
        let path = format!("{path}.{}", limits::cut(lane, limits::LANE_BYTES));
        check_lane(Some(lane)).map_err(|refusal| invalid(&path, &refusal.to_string()))?;
        let own = Fields::of(value, &path, &["weight", "concurrency", "rate"])?;
        let weight = own.small("weight", u32::from(limits::WEIGHT))?;
        let own = LaneOverride {
            weight: weight.map(|weight| u8::try_from(weight).unwrap_or(limits::WEIGHT)),
            concurrency: own.small("concurrency", limits::POLICY_CONCURRENCY)?,
            rate: own.rate("rate")?,
        };
        lanes.overrides.insert(lane.as_str().into(), own);
    }
    Ok(lanes)
}

fn read_backoff(value: &Value) -> Result<BackoffChange, Refusal> {
    let fields = Fields::of(value, "backoff", &["policy", "baseSeconds", "maxSeconds"])?;
    let policy = match fields.text("policy")? {
        None => None,
        Some(name) => Some(BackoffPolicy::parse(name).ok_or_else(|| {
            let names: Vec<&str> = BackoffPolicy::ALL.iter().map(|(name, _)| *name).collect();
            invalid("backoff.policy", &format!("must be one of {}", names.join(", ")))
        })?),
    };
    Ok(BackoffChange {
        policy,
        base_seconds: fields.number("baseSeconds", RETENTION_SECONDS)?,
        max_seconds: fields.number("maxSeconds", RETENTION_SECONDS)?,
    })
}

fn read_schema(fields: &Fields<'_>) -> Result<Option<std::sync::Arc<str>>, Refusal> {
    let Some(value) = fields.get("payloadSchema") else { return Ok(None) };
    if !(value.is_object() || value.is_boolean()) {
        return Err(invalid("payloadSchema", "must be a JSON Schema"));
    }
    let text = value.to_string();
    match text.len() > limits::SCHEMA_BYTES {
        true => Err(invalid("payloadSchema", &format!("must have at most {} bytes", limits::SCHEMA_BYTES))),
        false => Ok(Some(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        match QueuePolicy::parse(text) {
            Err(Refusal::InvalidPolicy { field, .. }) => field,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_whole_policy_is_read() {
        let text = r#"{"concurrency":7,"rate":{"limit":100,"periodSeconds":1,"burst":10},
            "lanes":{"concurrency":1,"ordered":true,"overrides":{"acme":{"weight":100}}},
            "maxReady":5,"maxAttempts":3,"leaseSeconds":60,
            "backoff":{"policy":"fixed","baseSeconds":1,"maxSeconds":2},
            "retentionSeconds":10,"failedRetentionSeconds":20,"maxRunSeconds":30,
            "payloadSchema":{"type":"object"},"schemaMode":"warn"}"#;
        let policy = QueuePolicy::parse(text).unwrap();
        assert_eq!(policy.rate, Some(Rate { limit: 100, period_seconds: 1, burst: 10 }));
        assert!(policy.lanes.is_ordered);
        assert_eq!(policy.lane("acme").weight, 100);
        assert_eq!(policy.payload_schema.as_deref(), Some(r#"{"type":"object"}"#));
        assert_eq!(policy.schema_mode, SchemaMode::Warn);
        assert_eq!(QueuePolicy::parse("{}"), Ok(QueuePolicy::default()));
        assert_eq!(QueuePolicy::parse(r#"{"concurrency":null}"#), Ok(QueuePolicy::default()));
    }

    #[test]
    fn faults_are_told_by_their_path() {
        for (text, field) in [
            (r#"{"concurency":1}"#, "concurency"),
            (r#"{"concurrency":0}"#, "concurrency"),
            (r#"{"concurrency":-1}"#, "concurrency"),
            (r#"{"concurrency":1.5}"#, "concurrency"),
            (r#"{"concurrency":1000001}"#, "concurrency"),
            (r#"{"rate":{"periodSeconds":1}}"#, "rate.limit"),
            (r#"{"rate":{"limit":1}}"#, "rate.periodSeconds"),
            (r#"{"rate":{"limit":5,"periodSeconds":1,"burst":6}}"#, "rate.burst"),
            (r#"{"rate":{"limit":5,"periodSeconds":86401}}"#, "rate.periodSeconds"),
            (r#"{"lanes":{"order":true}}"#, "lanes.order"),
            (r#"{"lanes":{"ordered":1}}"#, "lanes.ordered"),
            (r#"{"lanes":{"overrides":{"a":{"weight":101}}}}"#, "lanes.overrides.a.weight"),
            (r#"{"lanes":{"overrides":{"a\n":{}}}}"#, "lanes.overrides.a\n"),
            (r#"{"maxReady":100000001}"#, "maxReady"),
            (r#"{"leaseSeconds":43201}"#, "leaseSeconds"),
            (r#"{"backoff":{"policy":"slow"}}"#, "backoff.policy"),
            (r#"{"retentionSeconds":31622401}"#, "retentionSeconds"),
            (r#"{"maxRunSeconds":604801}"#, "maxRunSeconds"),
            (r#"{"payloadSchema":"text"}"#, "payloadSchema"),
            (r#"{"schemaMode":"off"}"#, "schemaMode"),
            ("[]", ""),
        ] {
            assert_eq!(fault(text), field);
        }
        assert_eq!(QueuePolicy::parse("{"), Err(Refusal::InvalidBody));
    }

    #[test]
    fn overrides_and_schemas_are_bounded() {
        let many: Vec<String> = (0..=1_000).map(|n| format!("\"l{n}\":{{}}")).collect();
        let text = format!("{{\"lanes\":{{\"overrides\":{{{}}}}}}}", many.join(","));
        assert_eq!(fault(&text), "lanes.overrides");
        let text = format!("{{\"payloadSchema\":{{\"title\":\"{}\"}}}}", "x".repeat(70_000));
        assert_eq!(fault(&text), "payloadSchema");
    }
}
