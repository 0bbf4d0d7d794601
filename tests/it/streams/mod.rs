//! The gRPC streams, driven by plain clients made from the published protos.

mod bounds;
mod creating;
mod ending;
mod flow;
mod handshake;
mod issuing;
mod lending;
mod refusing;
mod reporting;
mod scaling;
pub mod talk;

use crate::harness::Server;
use serde_json::{Value, json};
use std::time::Duration;

/// Everything a worker may do.
pub const SCOPES: [&str; 5] =
    ["codeq:claim", "codeq:heartbeat", "codeq:abandon", "codeq:nack", "codeq:result"];

/// One token of a `static` provider.
pub fn token(token: &str, subject: &str, tenant: &str, scopes: &[&str], events: &[&str]) -> Value {
    json!({"type": "static", "config": {
        "token": token, "subject": subject, "scopes": scopes, "eventTypes": events,
        "raw": {"tenantId": tenant, "role": "ADMIN"},
    }})
}

/// Both streams on; a producer `p`, a worker `w`, both of `acme`; a narrow worker and one of another tenant.
pub fn config() -> Value {
    let workers = [
        token("w", "worker", "acme", &SCOPES, &["*"]),
        token("narrow", "narrow", "acme", &["codeq:claim"], &["allowed"]),
        token("mute", "mute", "acme", &["codeq:subscribe"], &["*"]),
        token("foreign", "foreign", "other", &SCOPES, &["*"]),
    ];
    json!({
        "webhookHmacSecret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        "producerAuthProvider": "static",
        "producerAuthConfig": token("p", "producer", "acme", &[], &[])["config"],
        "workerAuthProvider": "multi",
        "workerAuthConfig": {"providers": workers},
        "workerStreamAddr": "127.0.0.1:0",
        "producerStreamAddr": "127.0.0.1:0",
    })
}

pub fn server() -> Server {
    Server::serve(config())
}

pub async fn task(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/codeq/tasks/{id}"), "p").await.json
}

/// Waits until the task satisfies `is`, and shows it.
pub async fn task_until(server: &Server, id: &str, is: impl Fn(&Value) -> bool) -> Value {
    let waiting = async {
        loop {
            let task = task(server, id).await;
            if is(&task) {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("the task changes")
}
