//! Callers that do not behave: each is refused in the documented way, and the others do not notice.

mod bodies;
mod budget;
mod double;
mod floods;
mod framing;
mod ids;
pub mod issuer;
mod keys;
mod logs;
mod outage;
mod paths;
mod polls;
mod routes;
mod slow;
mod strangers;
mod tenants;
mod tokens;
mod types;
mod vanish;
mod wire;

use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use wire::Wire;

/// A well-formed id of nothing.
pub const NOBODY: &str = "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11";

/// The server takes work as if nothing had happened.
pub async fn assert_serves(server: &Server) {
    let task = json!({"command": "after-the-storm", "payload": 1});
    assert_eq!(server.post("/v1/codeq/tasks", DEV_TOKEN, task).await.status, 202);
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["after-the-storm"]}));
    assert_eq!(claimed.await.status, 200);
}

/// Creates a task and returns its id.
pub async fn create(server: &Server, token: &str, task: Value) -> String {
    let created = server.post("/v1/codeq/tasks", token, task).await;
    assert_eq!(created.status, 202, "{}", created.text);
    created.json["id"].as_str().expect("a task has an id").to_owned()
}

/// One request on a connection of its own.
pub async fn once(server: &Server, request: &[u8]) -> Option<wire::Reply> {
    let mut wire = Wire::open(server).await;
    wire.send(request).await;
    wire.reply().await
}

/// The text of a request of the development token.
pub fn request(method: &str, target: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {DEV_TOKEN}");
    format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// A small generator; the seed is printed by whoever fails.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// A seed that differs from run to run.
    pub fn new() -> Dice {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Dice(now.map_or(7, |now| now.as_nanos() as u64) | 1)
    }
}
