use super::{create, delete, ended, get, ids, kill, post, refused};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

fn operation(answer: &crate::harness::Answer) -> String {
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.json["id"].as_str().expect("an operation has an id").to_owned()
}

#[tokio::test]
async fn dead_letters_are_grouped_by_cause_and_one_group_is_replayed() {
    let server = Server::dev();
    let error = |n: usize| match n % 3 {
        0 => format!("timeout after {n}s at 10.0.0.{n}:443"),
        _ => format!("no such user \"{n}\""),
    };
    kill(&server, "Mail", 30, error).await;
    kill(&server, "other", 1, |_| "timeout after 1s at 10.0.0.1:443".into()).await;
    let told = get(&server, "/dlq/mail/groups").await;
    let groups = told.json["groups"].as_array().expect("groups");
    let shown: Vec<(&Value, &Value)> =
        groups.iter().map(|group| (&group["count"], &group["error"])).collect();
    let users = json!("no such user <text>");
    let timeouts = json!("timeout after <n>s at <addr>");
    assert_eq!(shown, [(&json!(20), &users), (&json!(10), &timeouts)], "{}", told.text);
    assert_eq!(
        (groups[0]["examples"].as_array().map(Vec::len), &told.json["truncated"]),
        (Some(3), &json!(false))
    );
    assert_eq!(get(&server, "/dlq/*/groups").await.json["groups"].as_array().map(Vec::len), Some(3));

    let group = groups[1]["group"].as_str().expect("a group has an id");
    let dry = post(&server, "/dlq/mail/requeue", json!({"group": group, "dryRun": true})).await;
    assert_eq!((dry.status, &*dry.text), (200, r#"{"matched":10}"#));
    let id = operation(&post(&server, "/dlq/mail/requeue", json!({"group": group, "maxAttempts": 2})).await);
    let done = ended(&server, &id).await;
    assert_eq!((&done["state"], &done["kind"]), (&json!("done"), &json!("requeue")), "{done}");
    assert_eq!((&done["matched"], &done["processed"], &done["failed"]), (&json!(10), &json!(10), &json!(0)));
    let about = json!({"command": "mail", "group": group, "place": "dead"});
    assert_eq!((&done["filter"], &done["cause"], &done["by"]), (&about, &timeouts, &json!("producer-dev")));
    let stats = get(&server, "/queues/mail").await.json;
    assert_eq!((&stats["ready"], &stats["dlq"]), (&json!(10), &json!(20)));

    refused(&delete(&server, "/dlq/mail").await, 400, "confirm_required");
    refused(&delete(&server, "/dlq/mail?confirm=true&gruop=x").await, 400, "invalid_filter");
    let id = operation(&delete(&server, "/dlq/*?confirm=true").await);
    assert_eq!(ended(&server, &id).await["processed"], 21);
    let all = get(&server, "/operations").await;
    assert_eq!((all.json["items"].as_array().map(Vec::len), &all.json["next"]), (Some(2), &json!(null)));
    assert_eq!(all.json["items"][0]["id"], id, "newest first");
}

#[tokio::test]
async fn a_filter_cancels_what_lives() {
    let server = Server::memory();
    for n in 0..7 {
        create(&server, json!({"command": if n < 5 { "a" } else { "b" }, "payload": n})).await;
    }
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["a"]})).await;
    refused(&post(&server, "/tasks/cancel", json!({})).await, 400, "invalid_filter");
    refused(&post(&server, "/tasks/cancel", json!({"filter": {"comand": "a"}})).await, 400, "invalid_filter");
    let filter = json!({"filter": {"command": "A"}, "dryRun": true});
    assert_eq!(post(&server, "/tasks/cancel", filter).await.json["matched"], 5);
    let id = operation(&post(&server, "/tasks/cancel", json!({"filter": {"command": "A"}})).await);
    assert_eq!(ended(&server, &id).await["processed"], 5);
    assert_eq!(get(&server, "/queues/b").await.json["ready"], 2);
    assert_eq!(ids(&get(&server, "/tasks?command=a&status=FAILED").await).len(), 5);
    let again = operation(&post(&server, "/tasks/cancel", json!({"filter": {"command": "A"}})).await);
    assert_eq!(ended(&server, &again).await["matched"], 0);
}

#[tokio::test]
async fn an_operation_can_be_stopped() {
    let server = Server::memory();
    kill(&server, "die", 50, |_| "boom".into()).await;
    let id = operation(&post(&server, "/dlq/die/requeue", json!({"ratePerSecond": 10})).await);
    let stopped = post(&server, &format!("/operations/{id}/cancel"), json!({})).await;
    assert_eq!((stopped.status, &stopped.json["state"]), (200, &json!("cancelled")), "{}", stopped.text);
    let requeued = get(&server, "/queues/die").await.json["ready"].as_u64().expect("a count");
    assert!(requeued < 50, "it was to be slow");
    assert_eq!(
        post(&server, &format!("/operations/{id}/cancel"), json!({})).await.json["state"],
        "cancelled"
    );
    refused(&get(&server, "/operations/00").await, 404, "operation_not_found");
}

/// A requeue is killed half-way, twice; the workers that get the tasks nack them to death again. Each task
/// must be lent exactly once by this operation.
#[tokio::test]
async fn a_requeue_that_is_killed_goes_on_and_touches_each_task_once() {
    let mut server = Server::dev();
    let dead: HashSet<String> = kill(&server, "die", 600, |_| "boom".into()).await.into_iter().collect();
    let id = operation(&post(&server, "/dlq/die/requeue", json!({"ratePerSecond": 400})).await);
    let mut lent = Vec::new();
    for enough in [150, 350] {
        while lent.len() < enough {
            take(&server, &mut lent).await;
        }
        server.kill();
        server.start_again();
    }
    assert_eq!(ended(&server, &id).await["state"], "done");
    while take(&server, &mut lent).await {}
    assert_eq!(lent.len(), dead.len(), "each task was lent once");
    assert_eq!(lent.into_iter().collect::<HashSet<_>>(), dead);
    let done = ended(&server, &id).await;
    assert_eq!((&done["matched"], &done["processed"]), (&json!(600), &json!(600)), "{done}");
}

/// Claims some tasks and kills them again; whether there were any.
async fn take(server: &Server, lent: &mut Vec<String>) -> bool {
    let claimed = server.post("/v1/codeq/tasks/claim/batch", DEV_TOKEN, json!({"count": 50})).await;
    let tasks = claimed.json["tasks"].as_array().cloned().unwrap_or_default();
    for task in &tasks {
        let id = task["id"].as_str().expect("a task has an id").to_owned();
        let nack = json!({"reason": "boom"});
        let nacked = server.post(&format!("/v1/codeq/tasks/{id}/nack"), DEV_TOKEN, nack).await;
        assert_eq!(nacked.json["status"], "dlq", "{}", nacked.text);
        lent.push(id);
    }
    if tasks.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    !tasks.is_empty()
}

/// Sixteen slow operations of one tenant were all that could run, and another tenant got 429.
#[tokio::test]
async fn operations_of_one_tenant_leave_room_for_those_of_others() {
    let tokens: Vec<Value> = ["acme", "globex"]
        .map(|tenant| crate::streams::token(tenant, "admin", tenant, &crate::streams::SCOPES, &["*"]))
        .to_vec();
    let server = Server::serve(json!({
        "env": "dev",
        "producerAuthProvider": "multi", "producerAuthConfig": {"providers": tokens.clone()},
        "workerAuthProvider": "multi", "workerAuthConfig": {"providers": tokens},
    }));
    for tenant in ["acme", "globex"] {
        for number in 0..20 {
            let task = json!({"command": "c", "payload": number});
            assert_eq!(server.post("/v1/codeq/tasks", tenant, task).await.status, 202);
        }
    }
    let slow = || json!({"filter": {"command": "c"}, "ratePerSecond": 1});
    let mut started = 0;
    let refused = loop {
        let answer = server.post("/v1/codeq/admin/tasks/cancel", "acme", slow()).await;
        match answer.status {
            202 => started += 1,
            _ => break answer,
        }
        assert!(started < 20, "there is a limit");
    };
    assert_eq!((refused.status, refused.json["code"].as_str()), (429, Some("too_many_operations")));
    assert_eq!(server.post("/v1/codeq/admin/tasks/cancel", "globex", slow()).await.status, 202);
}

/// An operation keeps its filter and writes it with every step; a thousand that had ended were four gigabytes.
#[tokio::test]
async fn a_filter_that_is_larger_than_what_it_could_match_is_refused_everywhere() {
    let server = Server::memory();
    let long = "x".repeat(1025);
    let many: serde_json::Map<String, Value> =
        (0..17).map(|n| (format!("header.h{n}"), json!("v"))).collect();
    for filter in [
        json!({"error": long}),
        json!({"workerId": long}),
        json!({"header.h": "x".repeat(4096)}),
        many.into(),
    ] {
        for (path, body) in [
            ("/tasks/cancel", json!({"filter": filter})),
            ("/dlq/c/requeue", json!({"filter": filter})),
            ("/dlq/c/requeue", json!({"filter": filter, "dryRun": true})),
            ("/failed/c/requeue", json!({"filter": filter})),
        ] {
            refused(&post(&server, path, body).await, 400, "invalid_filter");
        }
    }
    refused(&post(&server, "/dlq/c/requeue", json!({"group": long})).await, 400, "invalid_filter");
    for path in ["/tasks", "/dlq/c", "/failed/c", "/export"] {
        refused(&get(&server, &format!("{path}?error={long}")).await, 400, "invalid_filter");
    }
    refused(&delete(&server, &format!("/dlq/c?confirm=true&error={long}")).await, 400, "invalid_filter");
    assert_eq!(get(&server, "/operations").await.json["items"], json!([]));
}
