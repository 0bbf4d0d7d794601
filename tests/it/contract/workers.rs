//! Who works: the header `Codeq-Worker`, and the list of workers.

use super::{create, get, id, refused};
use crate::harness::{Answer, DEV_TOKEN, Server, answer};
use reqwest::Method;
use serde_json::{Value, json};

/// A request of the worker of this name.
async fn by(server: &Server, name: &str, path: &str, body: Value) -> Answer {
    let request = server.request(Method::POST, &format!("/v1/codeq{path}"));
    let request = request.header("Authorization", format!("Bearer {DEV_TOKEN}"));
    answer(request.header("Codeq-Worker", name).body(body.to_string())).await
}

async fn listed(server: &Server) -> Vec<Value> {
    let answer = get(server, "/admin/workers").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json["items"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn leases_belong_to_the_named_worker() {
    let server = Server::memory();
    for (verb, body) in [
        ("heartbeat", json!({})),
        ("nack", json!({})),
        ("abandon", json!({})),
        ("result", json!({"status": "COMPLETED", "result": {}})),
    ] {
        create(&server, json!({"command": "c", "payload": 1, "maxAttempts": 9})).await;
        let claimed = by(&server, "w-1", "/tasks/claim", json!({"commands": ["c"]})).await;
        assert_eq!(claimed.json["workerId"], "w-1");
        let path = format!("/tasks/{}/{verb}", id(&claimed.json));
        refused(&by(&server, "w-2", &path, body.clone()).await, 403, "not_owner", "not-owner");
        let nameless = server.post(&format!("/v1/codeq{path}"), DEV_TOKEN, body.clone()).await;
        refused(&nameless, 403, "not_owner", "not-owner");
        assert_eq!(by(&server, "w-1", &path, body).await.status, 200, "{verb}");
    }
    create(&server, json!({"command": "batch", "payload": 1})).await;
    let ask = json!({"commands": ["batch"], "count": 5});
    let claimed = by(&server, "w-1", "/tasks/claim/batch", ask).await;
    let task = id(&claimed.json["tasks"][0]);
    let results = json!({"results": [{"taskId": task, "status": "COMPLETED", "result": {}}]});
    let other = by(&server, "w-2", "/tasks/batch/results", results.clone()).await;
    assert_eq!(other.json["results"][0]["code"], "not_owner");
    let own = by(&server, "w-1", "/tasks/batch/results", results).await;
    assert!(own.json["results"][0]["result"].is_object(), "{}", own.text);
}

#[tokio::test]
async fn names_and_descriptions_that_cannot_be_are_refused() {
    let server = Server::memory();
    let text = "invalid Codeq-Worker (1 to 128 visible ASCII characters)";
    let long = "x".repeat(129);
    for bad in ["", "a b", &long] {
        for path in ["/tasks/claim", "/tasks/claim/batch", "/tasks/none/heartbeat", "/tasks/batch/results"] {
            let got = by(&server, bad, path, json!({"count": 1, "results": []})).await;
            refused(&got, 400, "invalid_worker", text);
        }
    }
    let longest = "~".repeat(128);
    assert_eq!(by(&server, &longest, "/tasks/claim", json!({})).await.status, 204);
    let text = "invalid worker (at most 512 bytes: host, pid, sdk, version, slots)";
    for bad in
        [json!("w"), json!([1]), json!({"host": 1}), json!({"slots": "x"}), json!({"x": "y".repeat(512)})]
    {
        let got = by(&server, "w", "/tasks/claim", json!({"worker": bad})).await;
        refused(&got, 400, "invalid_worker", text);
    }
}

#[tokio::test]
async fn the_list_tells_who_works_and_what_on() {
    let server = Server::memory();
    assert_eq!(listed(&server).await, Vec::<Value>::new());
    let info = json!({"host": "h", "pid": 7, "sdk": "python", "version": "1.2", "slots": 4, "more": true});
    let mut ids = Vec::new();
    for _ in 0..22 {
        create(&server, json!({"command": "c", "payload": 1})).await;
        let body = json!({"commands": ["c"], "worker": info});
        ids.push(id(&by(&server, "w-1", "/tasks/claim", body).await.json));
    }
    let seen = listed(&server).await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    let mut one = seen[0].clone();
    assert_eq!(one["running"].as_array().map(Vec::len), Some(20));
    one["running"] = json!([]);
    let expected = json!({
        "worker": "w-1", "sub": "worker-dev", "tenantId": "dev-tenant", "protocol": "http", "commands": ["c"],
        "host": "h", "pid": 7, "sdk": "python", "version": "1.2", "slots": 4, "running": [],
        "runningCount": 22, "lastSeenAt": one["lastSeenAt"],
    });
    assert_eq!(one, expected);
    for (at, task) in ids.iter().enumerate() {
        let (verb, body) = match at % 3 {
            0 => ("result", json!({"status": "COMPLETED", "result": {}})),
            1 => ("nack", json!({})),
            _ => ("abandon", json!({})),
        };
        assert_eq!(by(&server, "w-1", &format!("/tasks/{task}/{verb}"), body).await.status, 200);
    }
    assert_eq!(listed(&server).await[0]["runningCount"], 0);
    // Without the header the worker is its token.
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["none"]})).await;
    let names: Vec<Value> = listed(&server).await.iter().map(|seen| seen["worker"].clone()).collect();
    assert_eq!(names, ["w-1", "worker-dev"]);
}
