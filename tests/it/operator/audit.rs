//! What operators did is written down.

use super::{create, delete, ended, get, ids, kill, post};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};

async fn audit(server: &Server, query: &str) -> Vec<Value> {
    let found = get(server, &format!("/audit{query}")).await;
    assert_eq!(found.status, 200, "{}", found.text);
    found.json["items"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn every_changing_verb_leaves_a_record_that_survives_a_kill() {
    let mut server = Server::dev();
    let task = create(&server, json!({"command": "mail", "payload": 1})).await;
    let dead = kill(&server, "die", 3, |_| "boom".into()).await;
    let before = audit(&server, "").await;
    assert!(before.is_empty(), "producers and workers are not operators: {before:?}");
    post(&server, "/queues/mail/pause", json!({})).await;
    post(&server, "/queues/mail/resume", json!({})).await;
    post(&server, &format!("/tasks/{task}/cancel"), json!({})).await;
    delete(&server, &format!("/dlq/die/{}", dead[0])).await;
    post(&server, "/dlq/die/requeue", json!({"dryRun": true})).await;
    let asked = post(&server, "/dlq/die/requeue", json!({})).await;
    let operation = asked.json["id"].as_str().expect("an operation").to_owned();
    ended(&server, &operation).await;
    post(&server, "/tasks/cleanup", json!({"before": "2099-01-01T00:00:00Z"})).await;
    // What is refused, and what only reads, is not noted.
    post(&server, "/tasks/nothing/cancel", json!({})).await;
    assert_eq!(ids(&get(&server, "/tasks").await).len(), 2);
    server.kill();
    server.start_again();
    let told = audit(&server, "").await;
    let word = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let told: Vec<(String, String, Value)> = told
        .iter()
        .rev()
        .map(|record| (word(record, "verb"), word(record, "target"), record["count"].clone()))
        .collect();
    let row = |verb: &str, target: String, count: Value| (verb.to_owned(), target, count);
    let expected = [
        row("pause", "queues/mail".into(), json!(null)),
        row("resume", "queues/mail".into(), json!(null)),
        row("cancel", format!("tasks/{task}"), json!(null)),
        row("delete", format!("dlq/die/{}", dead[0]), json!(null)),
        row("requeue", format!("dlq/die (operation {operation})"), json!(2)),
        row("cleanup", "tasks".into(), json!(1)),
    ];
    assert_eq!(told, expected);
    let pauses = audit(&server, "?verb=pause&who=producer-dev").await;
    assert_eq!(pauses.len(), 1);
    assert_eq!((&pauses[0]["who"], &pauses[0]["tenant"]), (&json!("producer-dev"), &json!("dev-tenant")));
    assert!(pauses[0]["requestId"].as_str().is_some_and(|id| id.len() == 32), "{}", pauses[0]);
    assert!(audit(&server, "?before=2001-01-01T00:00:00Z").await.is_empty());
}

/// Whoever may put a schedule decides what the clock makes: who did is asked for like any other deed.
#[tokio::test]
async fn changes_of_schedules_are_deeds_and_survive_a_kill() {
    let mut server = Server::dev();
    let schedule = |verb: &str| format!("/v1/codeq/schedules/nightly{verb}");
    let plan = json!({"everySeconds": 3600, "task": {"command": "report", "payload": 1}});
    let put = async |server: &Server, body: &Value| {
        let body = Some(body.to_string().into_bytes());
        let got = server.send(reqwest::Method::PUT, &schedule(""), Some(DEV_TOKEN), body).await;
        assert!(got.status < 300, "{}", got.text);
    };
    put(&server, &plan).await;
    put(&server, &plan).await;
    for (verb, body) in [
        ("/pause", json!({"note": "upgrade"})),
        ("/resume", json!({})),
        ("/trigger", json!({})),
        ("/backfill", json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T02:00:00Z"})),
    ] {
        let got = server.post(&schedule(verb), DEV_TOKEN, body).await;
        assert!(got.status < 300, "{verb}: {}", got.text);
    }
    let got = server.send(reqwest::Method::DELETE, &schedule(""), Some(DEV_TOKEN), None).await;
    assert_eq!(got.status, 204, "{}", got.text);
    // What was refused is no deed, also where the refusal came late, and a producer cannot have it told of another tenant.
    assert_eq!(server.post(&schedule("/pause?tenant=other"), DEV_TOKEN, json!({})).await.status, 404);
    let never = json!({"cron": "0 0 31 2 *", "task": {"command": "report", "payload": 1}});
    let body = Some(never.to_string().into_bytes());
    let got = server.send(reqwest::Method::PUT, &schedule(""), Some(DEV_TOKEN), body).await;
    assert_eq!(got.status, 422, "{}", got.text);
    server.kill();
    server.start_again();
    let told = audit(&server, "").await;
    let verbs: Vec<&str> = told.iter().rev().filter_map(|record| record["verb"].as_str()).collect();
    assert_eq!(verbs, ["put", "pause", "resume", "backfill", "delete"]);
    for record in &told {
        let target = record["target"].as_str().unwrap_or_default();
        assert!(target.starts_with("schedules/nightly"), "{record}");
        assert_eq!((&record["tenant"], &record["who"]), (&json!("dev-tenant"), &json!("producer-dev")));
    }
}

#[tokio::test]
async fn pages_go_on_and_bad_questions_are_refused() {
    let server = Server::memory();
    for _ in 0..3 {
        assert_eq!(post(&server, "/queues/mail/pause", json!({})).await.status, 200);
    }
    let first = get(&server, "/audit?limit=2").await;
    let next = first.json["next"].as_str().expect("there is more").to_owned();
    assert_eq!(audit(&server, &format!("?limit=2&cursor={next}")).await.len(), 1);
    for (query, code) in
        [("cursor=x", "invalid_cursor"), ("after=x", "invalid_filter"), ("before=x", "invalid_filter")]
    {
        super::refused(&get(&server, &format!("/audit?{query}")).await, 400, code);
    }
    let plain = server.get("/v1/codeq/admin/audit?tenant=other", DEV_TOKEN).await;
    super::refused(&plain, 403, "admin_only");
}
