//! What operators see: metrics, traces, logs, and the files in `deploy/` that are made for them.

pub mod collector;
mod deploy;
mod logs;
mod metrics;
mod outage;
mod streams;
mod traces;

use serde_json::{Value, json};

/// Settings that send traces to `address`.
pub fn tracing(address: &str) -> Value {
    json!({
        "tracingEnabled": true,
        "tracingServiceName": "shop",
        "tracingOtlpEndpoint": address,
        "tracingOtlpInsecure": true,
    })
}
