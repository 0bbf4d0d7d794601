use super::{create, get, ids, kill, refused};
use crate::contract::{fixed, serve_with};
use crate::harness::Server;
use serde_json::json;
use std::collections::HashSet;

#[tokio::test]
async fn tasks_are_found_by_what_is_known_of_them() {
    let server = Server::dev();
    let body = json!({"command": "Render", "payload": {"n": 1}, "headers": {"region": "eu"},
        "idempotencyKey": "k"});
    let first = create(&server, body).await;
    let second = create(&server, json!({"command": "mail", "payload": 2, "delaySeconds": 60})).await;
    let dead = kill(&server, "die", 1, |_| "Timeout after 30s".into()).await.remove(0);
    let all = get(&server, "/tasks").await;
    assert_eq!(ids(&all), [dead.clone(), second.clone(), first.clone()], "newest first");
    assert_eq!(all.json["next"], json!(null));
    assert!(all.json["items"][0].get("payload").is_none(), "{}", all.text);
    assert_eq!(
        get(&server, "/tasks?payload=true&command=render").await.json["items"][0]["payload"],
        r#"{"n":1}"#
    );
    for (query, found) in [
        ("order=oldest", vec![&first, &second, &dead]),
        ("command=render", vec![&first]),
        ("status=PENDING&order=oldest", vec![&first, &second]),
        ("place=delayed", vec![&second]),
        ("place=dead", vec![&dead]),
        ("error=timeout", vec![&dead]),
        ("error=refused", vec![]),
        ("idempotencyKey=k", vec![&first]),
        ("header.region=eu", vec![&first]),
        ("header.region=us", vec![]),
        ("createdAfter=2100-01-01T00:00:00Z", vec![]),
        ("createdBefore=2100-01-01T00:00:00Z&limit=1", vec![&dead]),
        ("status=&command=", vec![&dead, &second, &first]),
    ] {
        let page = get(&server, &format!("/tasks?{query}")).await;
        assert_eq!(ids(&page).iter().collect::<Vec<_>>(), found, "{query}");
    }
    let letters = get(&server, "/dlq/DIE").await;
    assert_eq!((ids(&letters), &letters.json["items"][0]["payload"]), (vec![dead], &json!("0")));
    assert!(ids(&get(&server, "/dlq/render").await).is_empty());
}

#[tokio::test]
async fn a_question_that_makes_no_sense_is_refused() {
    let server = Server::memory();
    for query in ["statsu=FAILED", "status=GONE", "place=x", "createdAfter=yesterday", "order=random"] {
        refused(&get(&server, &format!("/tasks?{query}")).await, 400, "invalid_filter");
    }
    for cursor in
        ["%00", "o1", "n", "n1.2", "n-1", "nfffffffffffffffff", "n%2B1", "n1%0A", "nffffffffffffffff."]
    {
        refused(&get(&server, &format!("/tasks?cursor={cursor}")).await, 400, "invalid_cursor");
    }
    for path in ["/tasks/x/explain", "/tasks/00000000-0000-4000-8000-000000000000/attempts"] {
        refused(&get(&server, path).await, 404, "task_not_found");
    }
}

#[tokio::test]
async fn an_operator_sees_every_tenant() {
    let token = |token: &str, tenant: &str, scope: &str| {
        let raw = json!({"tid": tenant});
        fixed(token, json!({"subject": token, "scopes": [scope], "raw": raw}))
    };
    let tokens = vec![token("one", "acme", "codeq:admin"), token("op", "ops", "codeq:operator")];
    let server = serve_with(tokens.clone(), tokens, json!({}));
    let made = server.post("/v1/codeq/tasks", "one", json!({"command": "c", "payload": 1})).await;
    assert_eq!(made.status, 202, "{}", made.text);
    for (path, count) in [("?tenant=*", 1), ("?tenant=acme", 1), ("", 0)] {
        let page = server.get(&format!("/v1/codeq/admin/tasks{path}"), "op").await;
        assert_eq!((page.status, ids(&page).len()), (200, count), "{path}: {}", page.text);
    }
    // Whoever is no operator stays at home, and takes no backup of everyone.
    for path in ["tasks?tenant=*", "tasks?tenant=ops", "backup"] {
        refused(&server.get(&format!("/v1/codeq/admin/{path}"), "one").await, 403, "admin_only");
    }
    let id = made.json["id"].as_str().expect("a task has an id");
    let path = format!("/v1/codeq/admin/tasks/{id}/explain?tenant=");
    assert_eq!(server.get(&format!("{path}acme"), "op").await.status, 200);
    refused(&server.get(&format!("{path}*"), "op").await, 400, "invalid_filter");
    assert_eq!(server.get(&format!("{path}acme"), "one").await.status, 200, "their own tenant may be named");
}

#[tokio::test]
async fn pages_hold_every_task_once_while_work_goes_on() {
    let server = Server::dev();
    let mut made = HashSet::new();
    for n in 0..250 {
        made.insert(create(&server, json!({"command": format!("c{}", n % 5), "payload": n})).await);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&server, &format!("/tasks?order=oldest&limit=20&cursor={cursor}")).await;
        seen.extend(ids(&page));
        let claim = json!({"count": 10});
        let claimed = server.post("/v1/codeq/tasks/claim/batch", "dev-token", claim).await;
        for task in claimed.json["tasks"].as_array().into_iter().flatten() {
            let path = format!("/v1/codeq/tasks/{}/result", task["id"].as_str().expect("an id"));
            let result = json!({"status": "COMPLETED", "result": {}});
            assert_eq!(server.post(&path, "dev-token", result).await.status, 200);
        }
        match page.json["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen.len(), made.len());
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), made);
}

#[tokio::test]
async fn attempts_are_told_with_their_ends() {
    let server = Server::memory();
    let id = create(&server, json!({"command": "c", "payload": 1})).await;
    let claim = json!({"commands": ["c"]});
    server.post("/v1/codeq/tasks/claim", "dev-token", claim.clone()).await;
    let nack = json!({"reason": "not yet", "delaySeconds": 0});
    server.post(&format!("/v1/codeq/tasks/{id}/abandon"), "dev-token", nack).await;
    server.post("/v1/codeq/tasks/claim", "dev-token", claim).await;
    let told = get(&server, &format!("/tasks/{id}/attempts")).await;
    let items = told.json["items"].as_array().expect("attempts");
    assert_eq!(
        (items.len(), &items[0]["outcome"], &items[0]["attempt"]),
        (2, &json!("abandoned"), &json!(1))
    );
    assert!(items[1].get("outcome").is_none() && items[1].get("endedAt").is_none(), "{}", told.text);
    assert!(items[1]["workerId"].is_string() && items[1]["claimedAt"].is_string());
}
