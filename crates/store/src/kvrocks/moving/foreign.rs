//! Records of the original server, put into the form that scripts can change. Fields that we do not know are
//! kept as they are.

use crate::kvrocks::format::record::{RecordExtras, Stored, text_of};
use codeq_queue::{Body, State, Task, Time};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Every field that a record of ours has.
const KNOWN: [&str; 31] = [
    "id",
    "status",
    "lastKnownLocation",
    "workerId",
    "ownerSub",
    "leaseUntil",
    "leaseUntilMs",
    "claimedAtMs",
    "visibleAtMs",
    "seq",
    "error",
    "resultKey",
    "attempts",
    "refunds",
    "maxAttempts",
    "cancelled",
    "updatedAt",
    "updatedAtMs",
    "tenantId",
    "command",
    "priority",
    "createdAt",
    "createdAtMs",
    "createdNo",
    "shard",
    "webhook",
    "idempotencyKey",
    "traceParent",
    "traceState",
    "payload",
    "headers",
];

/// Where the original server really had a task.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Spot {
    Pending,
    Delayed { until: Time },
    Running,
    Dead,
}

/// What an old record becomes.
pub struct Converted {
    pub task: Task,
    pub text: String,
}

/// `None` for text that is no record, or that belongs to no tenant and is not adopted.
pub fn convert(
    text: &[u8],
    spot: Option<Spot>,
    adopter: Option<&str>,
    max_attempts: u32,
) -> Option<Converted> {
    let mut stored: Stored<'_> = serde_json::from_slice(text).ok()?;
    if stored.max_attempts == 0 {
        stored.max_attempts = max_attempts;
    }
    let mut task = stored.task()?;
    if task.body.tenant.is_empty() {
        let body = Body { tenant: adopter?.into(), ..(*task.body).clone() };
        task.body = Arc::new(body);
    }
    task.state = match (task.state, spot) {
        (State::Ready { .. } | State::Delayed { .. }, Some(Spot::Delayed { until })) => {
            State::Delayed { until }
        }
        (State::Delayed { .. }, _) => State::Ready { seq: 0 },
        (State::Failed, Some(Spot::Dead)) => State::Dead,
        (state, _) => state,
    };
    let number = u64::try_from(task.created_at.millis()).unwrap_or(0) * 1000;
    let unknown = unknown_fields(text)?;
    let text = text_of(&task, RecordExtras { number, shard: &stored.shard, unknown: &unknown });
    Some(Converted { task, text })
}

/// Already in our form.
pub fn is_ours(text: &[u8]) -> bool {
    text.starts_with(b"{\"status\":\"")
}

struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Fields(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// The fields that a record of ours does not have, byte for byte.
fn unknown_fields(text: &[u8]) -> Option<String> {
    let fields: Fields = serde_json::from_slice(text).ok()?;
    let unknown = fields.0.into_iter().filter(|(name, _)| !KNOWN.contains(&name.as_str()));
    Some(
        unknown
            .map(|(name, value)| {
                format!(",{}:{}", crate::kvrocks::format::record::quoted(&name), value.get())
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kvrocks::format::record;

    const OLD: &[u8] = b"{\"id\":\"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\",\"command\":\"a:b\",\
        \"payload\":\"{\\\"n\\\": 1.0}\",\"status\":\"PENDING\",\"tenantId\":\"t\",\
        \"createdAt\":\"2026-03-01T12:00:00Z\",\"updatedAt\":\"2026-03-01T12:00:00Z\",\
        \"odd\":[ 12345678901234567890, {} ]}";

    #[test]
    fn unknown_fields_are_kept_and_defaults_filled_in() {
        let until = Time::from_millis(1_772_366_500_000);
        let found = convert(OLD, Some(Spot::Delayed { until }), None, 5).unwrap();
        assert!(found.text.ends_with(",\"odd\":[ 12345678901234567890, {} ]}"), "{}", found.text);
        assert!(is_ours(found.text.as_bytes()) && !is_ours(OLD));
        let read = record::parse(found.text.as_bytes()).unwrap();
        assert_eq!((read.state.clone(), read.max_attempts), (State::Delayed { until }, 5));
        assert_eq!(&*read.body.payload, "{\"n\": 1.0}");
        assert_eq!(read, found.task);
    }

    #[test]
    fn who_has_no_tenant_is_adopted_or_left_alone() {
        let text = String::from_utf8_lossy(OLD).replace("\"tenantId\":\"t\",", "");
        assert!(convert(text.as_bytes(), None, None, 5).is_none());
        let found = convert(text.as_bytes(), None, Some("home"), 5).unwrap();
        assert_eq!(&*found.task.body.tenant, "home");
    }
}
