//! Bytes in flight: bodies that are sent and never ended, and answers that nobody reads.

use super::wire::Wire;
use crate::harness::Server;
use crate::streams::token;
use serde_json::{Value, json};
use std::time::Duration;

const SCOPES: [&str; 5] = crate::streams::SCOPES;
const BODY_BYTES: usize = 900_000;

/// 4 MB for everyone: 1 MB for a token, 2 MB for a tenant. Tokens `a1`, `a2`, `a3` of `acme`, `g1` of `globex`.
fn server() -> Server {
    let tokens: Vec<Value> = [("a1", "acme"), ("a2", "acme"), ("a3", "acme"), ("g1", "globex")]
        .into_iter()
        .map(|(name, tenant)| token(name, "same", tenant, &SCOPES, &["*"]))
        .collect();
    Server::serve(json!({
        "env": "dev",
        "producerAuthProvider": "multi", "producerAuthConfig": {"providers": tokens.clone()},
        "workerAuthProvider": "multi", "workerAuthConfig": {"providers": tokens},
        "limits": {"maxInFlightBytes": 4_000_000},
    }))
}

/// A create whose body is not ended.
async fn half_sent(server: &Server, token: &str) -> Wire {
    let mut wire = Wire::open(server).await;
    let head = format!(
        "POST /v1/codeq/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        BODY_BYTES + 1
    );
    wire.send(head.as_bytes()).await;
    wire.send(&vec![b' '; BODY_BYTES]).await;
    wire
}

async fn create(server: &Server, token: &str) -> crate::harness::Answer {
    let payload = "x".repeat(BODY_BYTES / 2);
    server.post("/v1/codeq/tasks", token, json!({"command": "c", "payload": payload})).await
}

/// Begins a body of `token` that leaves no room for a create of `probe`, and shows how that is refused. Of two that
/// arrive together either may be the one that finds no room; then it is begun anew.
async fn fill(server: &Server, token: &str, probe: &str) -> (Wire, crate::harness::Answer) {
    for _ in 0..50 {
        let begun = half_sent(server, token).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let answer = create(server, probe).await;
        if answer.status == 503 {
            return (begun, answer);
        }
    }
    panic!("{probe} is never refused")
}

/// Waits until a create of this token is answered so.
async fn until(server: &Server, token: &str, status: u16) -> crate::harness::Answer {
    for _ in 0..200 {
        let answer = create(server, token).await;
        if answer.status == status {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{token} is never answered {status}")
}

/// One token with 60 bodies of 95 MB at once took 8.6 GB; there was a limit for each body and none for all.
#[tokio::test]
async fn a_token_a_tenant_and_the_server_have_a_budget_of_bytes_in_flight() {
    let server = server();
    assert_eq!(create(&server, "a1").await.status, 202);
    let (first, refused) = fill(&server, "a1", "a1").await;
    assert_eq!(refused.json["code"], "storage_unavailable", "{}", refused.text);
    assert_eq!(refused.json["error"], "too many bytes in flight");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(create(&server, "a2").await.status, 202, "another token has its own share");

    let (second, _) = fill(&server, "a2", "a3").await;
    assert_eq!(create(&server, "g1").await.status, 202, "another tenant has its own share");

    drop((first, second));
    assert_eq!(until(&server, "a1", 202).await.status, 202, "what is over is given back");
    until(&server, "a3", 202).await;
}

/// Small requests of a token go on while there is room for them, and a claim that waits takes none.
#[tokio::test]
async fn a_claim_that_waits_has_nothing_in_flight() {
    let server = server();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let mut wire = Wire::open(&server).await;
        let body = format!("{{\"waitSeconds\": 20, \"commands\": [\"none\"]}}{}", " ".repeat(BODY_BYTES));
        let head = format!(
            "POST /v1/codeq/tasks/claim HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a1\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        wire.send(head.as_bytes()).await;
        wire.send(body.as_bytes()).await;
        waiting.push(wire);
        server.until_claims_wait(waiting.len()).await;
    }
    assert_eq!(create(&server, "a1").await.status, 202);
}
