//! POST /tasks: http.md §4.1.

use super::{ahead, claim, create, fields, id, instant, now, post, post_text, refused, task};
use crate::harness::Server;
use serde_json::{Value, json};

/// A create with one more field.
fn with(field: &str, value: Value) -> Value {
    let mut body = json!({"command": "c", "payload": 1});
    body[field] = value;
    body
}

#[tokio::test]
async fn a_plain_task_has_these_fields_and_no_other() {
    let server = Server::memory();
    let before = now();
    let created = create(&server, json!({"command": "c", "payload": {"n": 1}})).await;
    let plain = [
        "command",
        "createdAt",
        "id",
        "lastKnownLocation",
        "maxAttempts",
        "payload",
        "status",
        "tenantId",
        "updatedAt",
    ];
    assert_eq!(fields(&created), plain);
    let expected = json!({
        "id": created["id"], "command": "c", "payload": "{\"n\":1}", "status": "PENDING",
        "lastKnownLocation": "PENDING_LIST", "maxAttempts": 5, "tenantId": "dev-tenant",
        "createdAt": created["createdAt"], "updatedAt": created["createdAt"],
    });
    assert_eq!(created, expected);
    let at = instant(&created["createdAt"]);
    assert!(before <= at && at <= now());
    let id = id(&created);
    let shape: Vec<usize> = id.split('-').map(str::len).collect();
    assert!(shape == [8, 4, 4, 4, 12] && id == id.to_lowercase() && &id[14..15] == "4", "{id}");
    assert_eq!(task(&server, &id).await, created);
}

#[tokio::test]
async fn a_full_task_shows_all_that_was_sent() {
    let server = Server::memory();
    let created = create(
        &server,
        json!({
            "command": " Render.video:v2_x-1 ", "payload": [], "priority": 5, "maxAttempts": 7,
            "webhook": "https://p.example/hook?x=1", "headers": {"b.B-1_": "é", "a": ""},
        }),
    )
    .await;
    let expected = json!({
        "id": created["id"], "command": "Render.video:v2_x-1", "payload": "[]", "priority": 5,
        "webhook": "https://p.example/hook?x=1", "headers": {"a": "", "b.B-1_": "é"}, "maxAttempts": 7,
        "status": "PENDING", "lastKnownLocation": "PENDING_LIST", "tenantId": "dev-tenant",
        "createdAt": created["createdAt"], "updatedAt": created["createdAt"],
    });
    assert_eq!(created, expected);
    assert_eq!(task(&server, &id(&created)).await, created);
}

#[tokio::test]
async fn numbers_are_clamped_and_defaulted() {
    let server = Server::memory();
    for (given, priority) in [
        (-1, json!(null)),
        (0, json!(null)),
        (1, json!(1)),
        (9, json!(9)),
        (10, json!(9)),
        (i64::MAX, json!(9)),
    ] {
        assert_eq!(create(&server, with("priority", json!(given))).await["priority"], priority, "{given}");
    }
    for (given, attempts) in [(-1, 5), (0, 5), (1, 1), (1000, 1000)] {
        assert_eq!(create(&server, with("maxAttempts", json!(given))).await["maxAttempts"], attempts);
    }
    for blank in ["webhook", "idempotencyKey"] {
        assert_eq!(create(&server, with(blank, json!(" "))).await["webhook"], json!(null));
    }
}

#[tokio::test]
async fn everything_may_be_as_long_as_its_limit_and_no_longer() {
    let server = Server::memory();
    let headers = |count: usize| (0..count).map(|n| (format!("h{n}"), json!("v"))).collect::<Value>();
    let sized = |bytes: usize| json!({"name": "v".repeat(bytes - 4)});
    for (field, good, bad, code, text) in [
        ("command", json!("c".repeat(128)), json!("c".repeat(129)), "invalid_command", "invalid command"),
        ("headers", headers(16), headers(17), "invalid_headers", "invalid headers"),
        ("headers", sized(4096), sized(4097), "invalid_headers", "invalid headers"),
        (
            "headers",
            json!({"n".repeat(64): ""}),
            json!({"n".repeat(65): ""}),
            "invalid_headers",
            "invalid headers",
        ),
        (
            "idempotencyKey",
            json!("é".repeat(127) + "k"),
            json!("é".repeat(128)),
            "invalid_idempotency_key",
            "invalid idempotencyKey (max 255 bytes)",
        ),
        (
            "delaySeconds",
            json!(31_622_400),
            json!(31_622_401),
            "invalid_delay",
            "invalid 'delaySeconds' (must be <= 31622400)",
        ),
        (
            "runAt",
            json!(ahead(31_622_400 - 1)),
            json!(ahead(31_622_400 + 10)),
            "invalid_run_at",
            "invalid 'runAt' (at most 366 days ahead)",
        ),
    ] {
        create(&server, with(field, good)).await;
        refused(&post(&server, "/tasks", with(field, bad)).await, 400, code, text);
    }
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_in_its_words() {
    let server = Server::memory();
    let command = ("invalid_command", "invalid command");
    let webhook = ("invalid_webhook_url", "invalid webhook url");
    let headers = ("invalid_headers", "invalid headers");
    let run_at = ("invalid_run_at", "invalid 'runAt' (use RFC3339)");
    let body = ("invalid_body", "invalid body");
    let table = [
        (
            "command",
            vec![json!(""), json!("  "), json!("a b"), json!("a/b"), json!("é"), json!("*")],
            command,
        ),
        ("command", vec![json!(null), json!(5), json!(["c"])], body),
        (
            "webhook",
            vec![json!("ftp://h/"), json!("/relative"), json!("http://"), json!("mailto:a@b"), json!("x")],
            webhook,
        ),
        ("webhook", vec![json!(5), json!({})], body),
        (
            "headers",
            vec![json!({"": "v"}), json!({"a b": "v"}), json!({"é": "v"}), json!({"a:": "v"})],
            headers,
        ),
        ("headers", vec![json!([]), json!("a"), json!({"a": 1}), json!({"a": ["x"]})], body),
        (
            "runAt",
            vec![
                json!("tomorrow"),
                json!("2026-03-01"),
                json!("2026-03-01T12:00:00"),
                json!("2026-13-01T12:00:00Z"),
                json!("2026-03-01 12:00:00Z"),
            ],
            run_at,
        ),
        ("runAt", vec![json!(1_772_366_405)], body),
        ("delaySeconds", vec![json!(-1)], ("invalid_delay", "invalid 'delaySeconds' (must be >= 0)")),
        ("idempotencyKey", vec![json!(5)], body),
    ];
    for (field, values, (code, text)) in table {
        for value in values {
            refused(&post(&server, "/tasks", with(field, value)).await, 400, code, text);
        }
    }
    refused(&post_text(&server, "/tasks", r#"{"payload":1}"#).await, 400, body.0, body.1);
    assert_eq!(super::get(&server, "/admin/queues").await.text, "{}", "nothing was created");
}

#[tokio::test]
async fn run_at_wins_over_the_delay_and_the_past_means_now() {
    let server = Server::memory();
    let place = |task: &Value| task["lastKnownLocation"].as_str().unwrap_or_default().to_owned();
    for (fields, expected) in [
        (json!({"delaySeconds": 0}), "PENDING_LIST"),
        (json!({"delaySeconds": 60}), "DELAYED_ZSET"),
        (json!({"runAt": ahead(60)}), "DELAYED_ZSET"),
        (json!({"runAt": ahead(-60)}), "PENDING_LIST"),
        (json!({"runAt": "1999-12-31T23:59:59.999999999-23:59"}), "PENDING_LIST"),
        (json!({"runAt": ahead(-60), "delaySeconds": 60}), "PENDING_LIST"),
        (json!({"runAt": ahead(60), "delaySeconds": 0}), "DELAYED_ZSET"),
    ] {
        let mut body = fields.clone();
        body["command"] = json!("later");
        body["payload"] = json!(1);
        let task = create(&server, body).await;
        assert_eq!((place(&task), &task["status"]), (expected.to_owned(), &json!("PENDING")), "{fields}");
    }
    // An instant wins over a delay, but does not make a wrong one right.
    let both = json!({"command": "later", "payload": 1, "runAt": ahead(60), "delaySeconds": -1});
    let text = "invalid 'delaySeconds' (must be >= 0)";
    refused(&post(&server, "/tasks", both).await, 400, "invalid_delay", text);
    let counts = super::get(&server, "/admin/queues/later").await.json;
    assert_eq!((&counts["ready"], &counts["delayed"]), (&json!(4), &json!(3)));
}

#[tokio::test]
async fn a_delayed_task_is_delivered_when_it_is_due_and_never_before() {
    let server = Server::memory();
    let due = now().millis() + 700;
    let run_at = codeq_queue::Time::from_millis(due).to_utc();
    let task = create(&server, json!({"command": "due", "payload": 1, "runAt": run_at})).await;
    assert_eq!(post(&server, "/tasks/claim", json!({"commands": ["due"]})).await.status, 204);
    let claimed = claim(&server, json!({"commands": ["due"], "waitSeconds": 10})).await;
    let late = now().millis() - due;
    assert!((0..1500).contains(&late), "{late} ms late");
    assert_eq!(claimed["id"], task["id"]);
}
