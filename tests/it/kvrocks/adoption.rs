//! Data of the original server, as its users find it.

use super::{Redis, ok};
use crate::harness::DEV_TOKEN;
use serde_json::{Value, json};

fn id(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// A waiting task as the original server wrote it.
fn keep(redis: &Redis, n: u32, command: &str, tenant: Option<&str>) {
    let mut record = json!({
        "id": id(n), "command": command, "payload": "{}", "priority": 2, "status": "PENDING",
        "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
    });
    let queue = match tenant {
        Some(tenant) => {
            record["tenantId"] = tenant.into();
            format!("codeq:q:{}:{tenant}:pending:2", command.to_lowercase())
        }
        None => format!("codeq:q:{}:pending:2", command.to_lowercase()),
    };
    redis.ask(&["HSET", "codeq:tasks", &id(n), &record.to_string()]);
    redis.ask(&["LPUSH", &queue, &id(n)]);
}

/// Set after the first start it had no effect, and nothing said so.
#[tokio::test]
async fn a_tenant_that_is_named_too_late_is_told() {
    let redis = Redis::start().await;
    keep(&redis, 1, "plain", None);
    let mut first = redis.replica();
    assert!(first.terminate().success());
    assert_eq!(redis.number(&["GET", "codeq:untenanted"]), 1);
    let address = redis.config(json!({}))["persistenceConfig"]["addr"].clone();
    let named = json!({"persistenceConfig": {"addr": address, "untenantedTenant": "dev-tenant"}});
    let second = redis.replica_with(named);
    let told = "untenantedTenant was set too late: records without a tenant stay untouched";
    assert_eq!(second.until_said(told).await["records"], "1");
    let found = second.get(&format!("/v1/codeq/tasks/{}", id(1)), DEV_TOKEN).await;
    assert_eq!(found.status, 404, "{}", found.text);
}

/// A claim cannot name such a command, and need not.
#[tokio::test]
async fn an_adopted_task_of_a_strange_command_is_lent_to_a_claim_of_any() {
    let redis = Redis::start().await;
    keep(&redis, 1, "send mail/now", Some("dev-tenant"));
    let server = redis.replica();
    let named = json!({"commands": ["send mail/now"]});
    let refused = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, named).await;
    assert_eq!((refused.status, &refused.json["code"]), (400, &json!("invalid_command")));
    let claimed = ok(&server, "/tasks/claim", json!({})).await;
    assert_eq!((&claimed["id"], &claimed["command"]), (&json!(id(1)), &json!("send mail/now")));
    let done = json!({"status": "COMPLETED", "result": {"ok": true}});
    ok(&server, &format!("/tasks/{}/result", id(1)), done).await;
}

/// What the original server kept as files stays where it was; the link is shown and not followed.
#[tokio::test]
async fn a_link_of_an_adopted_result_is_kept_as_it_was() {
    let redis = Redis::start().await;
    keep(&redis, 1, "plain", Some("dev-tenant"));
    let mut server = redis.replica();
    let claimed = ok(&server, "/tasks/claim", json!({})).await;
    assert_eq!(claimed["id"], id(1));
    let url = "file:///var/lib/codeq/artifacts/a.txt";
    let done = json!({"status": "COMPLETED", "result": {"ok": true}, "artifacts": [{"name": "a.txt", "url": "https://x/a"}]});
    ok(&server, &format!("/tasks/{}/result", id(1)), done).await;
    assert!(server.terminate().success());
    let record = redis.ask(&["HGET", "codeq:results", &id(1)]).concat();
    assert!(record.contains("https://x/a"), "{record}");
    redis.ask(&["HSET", "codeq:results", &id(1), &record.replace("https://x/a", url)]);
    let server = redis.replica();
    let result: Value = server.get(&format!("/v1/codeq/tasks/{}/result", id(1)), DEV_TOKEN).await.json;
    assert_eq!(result["result"]["artifacts"][0]["url"], url, "{result}");
    let path = format!("/v1/codeq/tasks/{}/artifacts/a.txt", id(1));
    let file = server.get(&path, DEV_TOKEN).await;
    assert_eq!((file.status, &file.json["code"]), (404, &json!("artifact_not_found")));
}
