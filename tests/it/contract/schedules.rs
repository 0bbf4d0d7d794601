//! Schedules: flow.md §3.

use super::{call, fields, get, instant, post, refused};
use crate::harness::{Answer, DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

async fn put(server: &Server, name: &str, schedule: &Value) -> Answer {
    call(server, Method::PUT, &format!("/schedules/{name}"), DEV_TOKEN, Some(&schedule.to_string())).await
}

async fn delete(server: &Server, name: &str) -> Answer {
    call(server, Method::DELETE, &format!("/schedules/{name}"), DEV_TOKEN, None).await
}

/// Far from its next tick.
fn yearly() -> Value {
    json!({
        "cron": "30 2 29 2 *", "timezone": "Europe/Berlin",
        "task": {"command": "report", "payload": {"n": 1}, "priority": 3},
    })
}

fn with(field: &str, value: Value) -> Value {
    let mut schedule = yearly();
    schedule[field] = value;
    schedule
}

#[track_caller]
fn wrong(answer: &Answer, text: &str) {
    let (code, error) = (&answer.json["code"], &answer.json["error"]);
    assert_eq!((answer.status, code, error), (422, &json!("invalid_schedule"), &json!(text)));
    let field = text.strip_prefix("invalid ").and_then(|rest| rest.split_once(':')).map(|(field, _)| field);
    assert_eq!(answer.json["field"].as_str(), field, "{}", answer.text);
}

/// Asks until the answer is as wished.
async fn until(server: &Server, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let got = get(server, path).await;
        if is_so(&got.json) {
            return got.json;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{path}: {}", got.text);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_put_creates_changes_or_leaves_a_schedule() {
    let server = Server::memory();
    let created = put(&server, "nightly", &yearly()).await;
    let at = created.json["createdAt"].clone();
    let expected = json!({
        "name": "nightly", "tenantId": "dev-tenant", "cron": "30 2 29 2 *", "timezone": "Europe/Berlin",
        "task": {"command": "report", "payload": {"n": 1}, "priority": 3},
        "overlap": "skip", "catchUp": "one", "catchUpWindowSeconds": 86400, "paused": false,
        "nextAt": "2028-02-29T01:30:00Z", "missed": 0, "skipped": 0, "createdAt": at, "updatedAt": at,
    });
    assert_eq!((created.status, &created.json), (201, &expected), "{}", created.text);
    let same = put(&server, "nightly", &with("overlap", json!("skip"))).await;
    assert_eq!((same.status, &same.text), (200, &created.text), "nothing changed");
    let full = json!({
        "everySeconds": 3600, "anchor": "2026-01-01T00:30:00Z", "overlap": "cancel", "catchUp": "all",
        "catchUpWindowSeconds": 60, "jitterSeconds": 5, "startAt": "2026-01-01T00:00:00Z",
        "endAt": "2099-01-01T00:00:00Z", "paused": true, "task": {"command": "REPORT", "payload": 1},
    });
    let changed = put(&server, "nightly", &full).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    for (field, value) in full.as_object().unwrap() {
        assert_eq!(&changed.json[field], value, "{field}");
    }
    assert_eq!(changed.json["timezone"], "UTC");
    assert!(!fields(&changed.json).contains(&"nextAt"), "{}", changed.text);
    let read = get(&server, "/schedules/nightly").await;
    assert_eq!((read.status, read.text), (200, changed.text));
    let fixed = put(&server, "nightly", &with("task", json!({"command": "other", "payload": 1}))).await;
    refused(
        &fixed,
        409,
        "schedule_command_fixed",
        "the command of a schedule cannot change; delete it first",
    );
    assert_eq!(delete(&server, "nightly").await.status, 204);
    refused(&delete(&server, "nightly").await, 404, "schedule_not_found", "schedule not found");
    refused(&get(&server, "/schedules/nightly").await, 404, "schedule_not_found", "schedule not found");
    let other = put(&server, "nightly", &with("task", json!({"command": "other", "payload": 1}))).await;
    assert_eq!(other.status, 201);
}

#[tokio::test]
async fn every_field_refuses_what_it_cannot_mean() {
    let server = Server::memory();
    for (schedule, field, text) in [
        (with("cron", json!("61 * * * *")), "cron", "minute: \"61\" is not between 0 and 59"),
        (with("cron", json!("0 0 30 2 *")), "cron", "the plan never fires"),
        (with("cron", json!(null)), "cron", "cron or everySeconds is required"),
        (with("everySeconds", json!(5)), "everySeconds", "cron and everySeconds exclude each other"),
        (with("anchor", json!("2026-01-01T00:00:00Z")), "anchor", "an anchor belongs to everySeconds"),
        (with("anchor", json!("yesterday")), "anchor", "use RFC3339"),
        (with("timezone", json!("Mars/Base")), "timezone", "Mars/Base is no IANA time zone"),
        (with("overlap", json!("queue")), "overlap", "must be one of skip, allow, cancel"),
        (with("catchUp", json!("some")), "catchUp", "must be one of none, one, all"),
        (with("catchUpWindowSeconds", json!(0)), "catchUpWindowSeconds", "must be between 1 and 31622400"),
        (with("jitterSeconds", json!(-1)), "jitterSeconds", "must be between 0 and 86400"),
        (with("startAt", json!("soon")), "startAt", "use RFC3339"),
        (with("endAt", json!("late")), "endAt", "use RFC3339"),
        (with("endAt", json!("2020-01-01T00:00:00Z")), "cron", "the plan never fires"),
        (with("task", json!(null)), "task", "a task is required"),
        (with("task", json!([])), "task", "must be the body of a create"),
        (with("task", json!({"command": "c"})), "task", "command and payload are required"),
        (with("task", json!({"payload": 1})), "task", "command and payload are required"),
    ] {
        let got = put(&server, "n", &schedule).await;
        wrong(&got, &format!("invalid {field}: {text}"));
    }
    let values = [
        ("runAt", json!("2030-01-01T00:00:00Z")),
        ("idempotencyKey", json!("k")),
        ("unique", json!({"key": "k"})),
        ("after", json!(["x"])),
        ("batchId", json!("b")),
    ];
    for (name, value) in values {
        let got = put(&server, "n", &with("task", json!({"command": "c", "payload": 1, name: value}))).await;
        let text = format!("invalid task.{name}: a schedule's task cannot have it");
        wrong(&got, &text);
    }
    let got = put(&server, "n", &with("task", json!({"command": "a b", "payload": 1}))).await;
    refused(&got, 400, "invalid_command", "invalid command");
    refused(&put(&server, "n", &with("everySeconds", json!("5"))).await, 400, "invalid_body", "invalid body");
    let name = put(&server, "a%20b", &yearly()).await;
    assert_eq!((name.status, &name.json["field"]), (422, &json!("name")), "{}", name.text);
    refused(&get(&server, "/schedules/n").await, 404, "schedule_not_found", "schedule not found");
    refused(&get(&server, "/schedules?cursor=a%2Fb").await, 400, "invalid_cursor", "invalid cursor");
}

#[tokio::test]
async fn schedules_tick_are_paused_and_triggered() {
    let server = Server::memory();
    let every =
        json!({"everySeconds": 1, "overlap": "allow", "task": {"command": "tick", "payload": {"a": 1}}});
    put(&server, "fast", &every).await;
    let claimed = post(&server, "/tasks/claim", json!({"commands": ["tick"], "waitSeconds": 10})).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    let headers = &claimed.json["headers"];
    assert_eq!((&headers["codeq-schedule"], &claimed.json["payload"]), (&json!("fast"), &json!("{\"a\":1}")));
    let late = instant(&claimed.json["createdAt"]).since(instant(&headers["codeq-scheduled-for"]));
    assert!(late < Duration::from_secs(5), "{late:?}");
    let paused = post(&server, "/schedules/fast/pause", json!({"note": "upgrade"})).await;
    assert_eq!((&paused.json["paused"], &paused.json["note"]), (&json!(true), &json!("upgrade")));
    assert_eq!(paused.json["nextAt"], Value::Null);
    assert!(paused.json["lastTaskId"].is_string() && paused.json["lastAt"].is_string(), "{}", paused.text);
    let triggered = post(&server, "/schedules/fast/trigger", json!({})).await;
    assert_eq!((triggered.status, &triggered.json["status"]), (202, &json!("PENDING")));
    let resumed = post(&server, "/schedules/fast/resume", json!({})).await;
    assert_eq!((&resumed.json["paused"], resumed.json["note"].is_null()), (&json!(false), true));
    for verb in ["pause", "resume", "trigger"] {
        let none = post(&server, &format!("/schedules/none/{verb}"), json!({})).await;
        refused(&none, 404, "schedule_not_found", "schedule not found");
    }
    let long = post(&server, "/schedules/fast/pause", json!({"note": "x".repeat(513)})).await;
    wrong(&long, "invalid note: must be at most 512 bytes long");
    let metrics = server.get("/metrics", DEV_TOKEN).await.text;
    assert!(metrics.contains("codeq_schedule_ticks_total{outcome=\"fired\"}"), "{metrics}");
    assert!(metrics.contains("codeq_schedule_ticks_total{outcome=\"triggered\"} 1"));
}

#[tokio::test]
async fn the_next_ticks_are_told_and_past_ones_made() {
    let server = Server::memory();
    put(&server, "nightly", &yearly()).await;
    let next = get(&server, "/schedules/nightly/next?count=2").await;
    assert_eq!(next.json, json!({"items": ["2028-02-29T01:30:00Z", "2032-02-29T01:30:00Z"]}));
    assert_eq!(get(&server, "/schedules/nightly/next").await.json["items"].as_array().unwrap().len(), 10);
    for count in ["0", "1001", "x"] {
        let got = get(&server, &format!("/schedules/nightly/next?count={count}")).await;
        wrong(&got, "invalid count: must be between 1 and 1000");
    }
    let hourly = json!({"cron": "@hourly", "task": {"command": "h", "payload": 1}, "paused": true});
    put(&server, "hourly", &hourly).await;
    let range = json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-31T00:00:00Z"});
    let begun = post(&server, "/schedules/hourly/backfill", range).await;
    assert_eq!(
        (begun.status, &begun.json["kind"], &begun.json["matched"]),
        (202, &json!("backfill"), &json!(720))
    );
    let path = format!("/admin/operations/{}", begun.json["id"].as_str().unwrap());
    let done = until(&server, &path, |operation| operation["state"] == "done").await;
    assert_eq!((&done["processed"], &done["failed"]), (&json!(720), &json!(0)));
    let stats = get(&server, "/admin/queues/h").await.json;
    assert_eq!(stats["ready"], 720, "{stats}");
    for (body, text) in [
        (json!({"to": "2026-01-01T00:00:00Z"}), "invalid from: is required"),
        (json!({"from": "2026-01-01T00:00:00Z"}), "invalid to: is required"),
        (json!({"from": "x", "to": "2026-01-01T00:00:00Z"}), "invalid from: use RFC3339"),
        (
            json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}),
            "invalid to: must be after from",
        ),
        (
            json!({"from": "2020-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}),
            "invalid to: more than 10000 ticks",
        ),
    ] {
        wrong(&post(&server, "/schedules/hourly/backfill", body).await, text);
    }
}

#[tokio::test]
async fn schedules_are_listed_by_name_in_pages() {
    let server = Server::memory();
    for name in ["c", "a", "b"] {
        put(&server, name, &yearly()).await;
    }
    let first = get(&server, "/schedules?limit=2").await.json;
    let names = |page: &Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().into()).collect()
    };
    assert_eq!((names(&first), &first["next"]), (vec!["a".into(), "b".into()], &json!("b")));
    let second = get(&server, "/schedules?limit=2&cursor=b").await.json;
    assert_eq!((names(&second), &second["next"]), (vec!["c".into()], &Value::Null));
}
