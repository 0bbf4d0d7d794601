//! Heartbeat, abandon, nack and result: the guards of semantics §2, in their order.

use super::worker_scopes;
use super::{UNKNOWN_ID, create, dev_with, fixed, id, post, post_as, refused, running, serve_with, task};
use crate::harness::{Answer, DEV_TOKEN, Server};
use serde_json::{Value, json};

const VERBS: [&str; 4] = ["heartbeat", "abandon", "nack", "result"];

/// A body that would be accepted by each of the verbs.
fn good(attempt: Option<i64>) -> Value {
    json!({"status": "COMPLETED", "result": {}, "attempt": attempt})
}

/// Two workers of one tenant: `dev-token` is `worker-dev`, `other` is another.
fn two_workers() -> Server {
    let worker = |token: &str, subject: &str| {
        let raw = json!({"tenantId": "dev-tenant"});
        fixed(token, json!({"subject": subject, "scopes": worker_scopes(), "eventTypes": ["*"], "raw": raw}))
    };
    let producer = |token: &str| fixed(token, json!({"raw": {"tenantId": "dev-tenant", "role": "ADMIN"}}));
    let producers = vec![producer(DEV_TOKEN), producer("unused")];
    serve_with(producers, vec![worker(DEV_TOKEN, "worker-dev"), worker("other", "worker-2")], json!({}))
}

async fn report(server: &Server, token: &str, id: &str, verb: &str, body: Value) -> Answer {
    post_as(server, token, &format!("/tasks/{id}/{verb}"), body).await
}

#[tokio::test]
async fn the_guards_come_in_their_order() {
    let server = two_workers();
    let pending = id(&create(&server, json!({"command": "pending", "payload": 1})).await);
    let lent = running(&server, "lent", json!({})).await;
    let before = (task(&server, &pending).await, task(&server, &lent).await);
    for verb in VERBS {
        let (malformed, not_found) = match verb {
            "result" => ("invalid request body", "task not found"),
            _ => ("invalid body", "not-found"),
        };
        let ask = |token, id, body| report(&server, token, id, verb, body);
        // 0. A malformed request is not even looked up.
        let got = ask(DEV_TOKEN, UNKNOWN_ID, json!({"attempt": "x"})).await;
        refused(&got, 400, "invalid_body", malformed);
        // 1. Unknown, whatever else is wrong. Ids of another form are simply unknown.
        let upper = lent.to_uppercase();
        let bare = lent.replace('-', "");
        for unknown in [UNKNOWN_ID, "nope", &upper, &bare, "%20", "%ff"] {
            refused(&ask("other", unknown, good(Some(9))).await, 404, "task_not_found", not_found);
        }
        // 2. Another attempt, before status and owner.
        for attempt in [0, 2, -1, 1 << 32, (1 << 32) + 1, i64::MAX, i64::MIN] {
            refused(&ask("other", &lent, good(Some(attempt))).await, 409, "lease_lost", "lease-lost");
        }
        refused(&ask("other", &pending, good(Some(1))).await, 409, "lease_lost", "lease-lost");
        // 3. Not running, before the owner.
        for attempt in [None, Some(0)] {
            let got = ask("other", &pending, good(attempt)).await;
            refused(&got, 409, "not_in_progress", "not-in-progress");
        }
        // 4. Running for somebody else, before the content of a result.
        for attempt in [None, Some(1)] {
            refused(&ask("other", &lent, good(attempt)).await, 403, "not_owner", "not-owner");
            let nonsense = json!({"status": "NONSENSE", "attempt": attempt});
            refused(&ask("other", &lent, nonsense).await, 403, "not_owner", "not-owner");
        }
    }
    assert_eq!((task(&server, &pending).await, task(&server, &lent).await), before, "nothing changed");
    let done = report(&server, DEV_TOKEN, &lent, "result", good(Some(1))).await;
    assert_eq!(done.status, 200, "{}", done.text);
    for verb in VERBS {
        for attempt in [None, Some(1)] {
            let got = report(&server, DEV_TOKEN, &lent, verb, good(attempt)).await;
            refused(&got, 409, "not_in_progress", "not-in-progress");
        }
    }
}

#[tokio::test]
async fn the_fencing_attempt_stops_a_worker_that_came_back_too_late() {
    let server = Server::memory();
    let id = running(&server, "c", json!({})).await;
    report(&server, DEV_TOKEN, &id, "abandon", json!({})).await;
    super::claim(&server, json!({"commands": ["c"]})).await;
    for verb in VERBS {
        let got = report(&server, DEV_TOKEN, &id, verb, good(Some(1))).await;
        refused(&got, 409, "lease_lost", "lease-lost");
    }
    assert_eq!(report(&server, DEV_TOKEN, &id, "result", good(Some(2))).await.status, 200);
}

#[tokio::test]
async fn an_abandoned_task_joins_the_tail_of_its_queue() {
    let server = Server::memory();
    let first = running(&server, "c", json!({})).await;
    let second = id(&create(&server, json!({"command": "c", "payload": 1})).await);
    let got = report(&server, DEV_TOKEN, &first, "abandon", json!({"attempt": 1})).await;
    assert_eq!((got.status, &*got.text), (200, r#"{"status":"requeued"}"#));
    let back = task(&server, &first).await;
    let shown = (&back["status"], &back["lastKnownLocation"], &back["attempts"]);
    assert_eq!(shown, (&json!("PENDING"), &json!("PENDING_LIST"), &json!(1)));
    for gone in ["workerId", "leaseUntil", "error", "refunds"] {
        assert!(back.get(gone).is_none(), "{back}");
    }
    for (expected, attempts) in [(second, 1), (first, 2)] {
        let claimed = super::claim(&server, json!({"commands": ["c"]})).await;
        assert_eq!((id(&claimed), &claimed["attempts"]), (expected, &json!(attempts)));
    }
}

#[tokio::test]
async fn a_nack_delays_by_what_it_says_or_by_the_policy() {
    let server =
        dev_with(json!({"backoffPolicy": "linear", "backoffBaseSeconds": 7, "backoffMaxSeconds": 100}));
    for (given, applied) in [
        (json!(3), 3),
        (json!(100), 100),
        (json!(101), 100),
        (json!(i64::MAX), 100),
        (json!(0), 7),
        (json!(-2), 7),
        (json!(null), 7),
    ] {
        let id = running(&server, "c", json!({})).await;
        let before = super::now();
        let got = report(&server, DEV_TOKEN, &id, "nack", json!({"delaySeconds": given, "attempt": 1})).await;
        assert_eq!(got.text, format!(r#"{{"status":"requeued","delaySeconds":{applied}}}"#), "{given}");
        let back = task(&server, &id).await;
        let shown = (&back["status"], &back["lastKnownLocation"]);
        assert_eq!(shown, (&json!("PENDING"), &json!("DELAYED_ZSET")), "{back}");
        assert!(back.get("workerId").is_none() && back.get("leaseUntil").is_none(), "{back}");
        assert!(super::instant(&back["updatedAt"]) >= before);
    }
}

#[tokio::test]
async fn the_default_policy_draws_between_nothing_and_twice_the_base() {
    let server = Server::memory();
    for _ in 0..10 {
        let id = running(&server, "c", json!({})).await;
        let got = report(&server, DEV_TOKEN, &id, "nack", json!({})).await;
        let seconds = got.json["delaySeconds"].as_i64().expect("a delay");
        assert!((0..=10).contains(&seconds), "{seconds}");
        let place = task(&server, &id).await["lastKnownLocation"].clone();
        assert!(seconds == 0 || place == "DELAYED_ZSET", "{place}");
        if seconds == 0 {
            super::claim(&server, json!({"commands": ["c"]})).await;
        }
    }
}

#[tokio::test]
async fn a_reason_is_kept_until_there_is_another_and_cut_between_characters() {
    let server = Server::memory();
    let long = format!("a{}", "é".repeat(5000));
    let cut = format!("a{}", "é".repeat(4095));
    for (reason, kept) in
        [(json!("boom"), "boom"), (json!(long), &*cut), (json!("x".repeat(8192)), &*"x".repeat(8192))]
    {
        let id = running(&server, "c", json!({})).await;
        report(&server, DEV_TOKEN, &id, "nack", json!({"reason": reason, "delaySeconds": 900})).await;
        assert_eq!(task(&server, &id).await["error"], kept);
    }
    let server = dev_with(json!({"backoffPolicy": "fixed", "backoffMaxSeconds": 1, "backoffBaseSeconds": 1}));
    let id = running(&server, "c", json!({})).await;
    report(&server, DEV_TOKEN, &id, "nack", json!({"reason": "boom"})).await;
    let again = super::claim(&server, json!({"commands": ["c"], "waitSeconds": 5})).await;
    assert_eq!((&again["error"], &again["attempts"]), (&json!("boom"), &json!(2)));
    report(&server, DEV_TOKEN, &id, "nack", json!({"reason": "  "})).await;
    assert_eq!(task(&server, &id).await["error"], "boom", "a blank reason is none");
}

#[tokio::test]
async fn a_heartbeat_may_shorten_the_lease() {
    let server = Server::memory();
    let id = running(&server, "c", json!({})).await;
    let before = super::now();
    post(&server, &format!("/tasks/{id}/heartbeat"), json!({"extendSeconds": 20, "attempt": 1})).await;
    let beat = task(&server, &id).await;
    super::lies_ahead(super::instant(&beat["leaseUntil"]), 20, before);
    assert_eq!((&beat["status"], &beat["attempts"]), (&json!("IN_PROGRESS"), &json!(1)));
}
