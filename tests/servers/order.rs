//! What a producer asks for. Its number is in the payload, so whoever meets the task knows the order.

use codeq_api::grpc::producer::CreateTask;
use rand::Rng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

/// One of them with a colon, which stores have to write in a way of their own.
pub const COMMANDS: [&str; 3] = ["work", "Work:Night", "other"];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    pub serial: u64,
    pub command: &'static str,
    pub priority: u8,
    pub delay_seconds: u32,
    pub max_attempts: u32,
    /// Whether it may be sent again.
    pub is_keyed: bool,
}

impl Order {
    /// Some are delayed, some die of a few failures, most have a key.
    pub fn draw(serial: u64, random: &mut SmallRng) -> Order {
        Order {
            serial,
            command: COMMANDS[random.random_range(0..COMMANDS.len())],
            priority: random.random_range(0..=9),
            delay_seconds: if random.random_bool(0.1) { random.random_range(1..=2) } else { 0 },
            max_attempts: if random.random_bool(0.2) { random.random_range(1..=3) } else { 1000 },
            is_keyed: random.random_bool(0.7),
        }
    }

    fn key(&self) -> Option<String> {
        self.is_keyed.then(|| format!("order-{}", self.serial))
    }

    pub fn payload(&self) -> String {
        json!({ "serial": self.serial }).to_string()
    }

    pub fn body(&self) -> Value {
        json!({
            "command": self.command,
            "payload": {"serial": self.serial},
            "priority": self.priority,
            "delaySeconds": self.delay_seconds,
            "maxAttempts": self.max_attempts,
            "idempotencyKey": self.key(),
        })
    }

    pub fn message(&self, seq: u64) -> CreateTask {
        CreateTask {
            seq,
            command: self.command.into(),
            payload: self.payload().into(),
            priority: self.priority.into(),
            delay_seconds: i32::try_from(self.delay_seconds).expect("delays are short"),
            max_attempts: i32::try_from(self.max_attempts).expect("attempts are few"),
            idempotency_key: self.key().unwrap_or_default(),
            ..CreateTask::default()
        }
    }
}

/// The number in a payload; none if it is not one of ours.
pub fn serial_of(payload: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(payload).ok()?["serial"].as_u64()
}
