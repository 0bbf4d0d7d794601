//! What belongs to another tenant does not exist: operations, events, imports.

use super::{ids, refused};
use crate::contract::{fixed, serve_with};
use crate::harness::Server;
use serde_json::{Value, json};

fn two() -> Server {
    let admin =
        |tenant: &str| fixed(tenant, json!({"subject": tenant, "raw": {"tid": tenant, "role": "ADMIN"}}));
    let both = vec![admin("acme"), admin("globex")];
    serve_with(both.clone(), both, json!({}))
}

async fn create(server: &Server, tenant: &str) -> String {
    let made = server.post("/v1/codeq/tasks", tenant, json!({"command": "c", "payload": 1})).await;
    made.json["id"].as_str().unwrap_or_else(|| panic!("{}", made.text)).to_owned()
}

#[tokio::test]
async fn the_operations_and_tasks_of_another_tenant_do_not_exist() {
    let server = two();
    let id = create(&server, "acme").await;
    let admin = "/v1/codeq/admin";
    let filter = json!({"filter": {"command": "c"}});
    // A filter that matches everything touches the caller's own only.
    let dry = json!({"filter": {"command": "c"}, "dryRun": true});
    assert_eq!(server.post(&format!("{admin}/tasks/cancel"), "globex", dry).await.json["matched"], 0);
    let begun = server.post(&format!("{admin}/tasks/cancel"), "globex", filter).await;
    assert_eq!(begun.status, 202, "{}", begun.text);
    let operation = begun.json["id"].as_str().expect("an id");
    for path in
        [format!("operations/{operation}"), format!("tasks/{id}/explain"), format!("tasks/{id}/attempts")]
    {
        let token = if path.starts_with("operations") { "acme" } else { "globex" };
        assert_eq!(server.get(&format!("{admin}/{path}"), token).await.status, 404, "{path}");
    }
    let cancelled = server.post(&format!("{admin}/operations/{operation}/cancel"), "acme", json!({})).await;
    refused(&cancelled, 404, "operation_not_found");
    refused(
        &server.post(&format!("{admin}/tasks/{id}/cancel"), "globex", json!({})).await,
        404,
        "task_not_found",
    );
    assert!(ids(&server.get(&format!("{admin}/tasks"), "globex").await).is_empty());
    let export = server.get(&format!("{admin}/export"), "globex").await.text;
    assert_eq!(export.lines().count(), 1, "nothing but the last line: {export}");
    let task = server.get(&format!("/v1/codeq/tasks/{id}"), "acme").await.json;
    assert_eq!(task["status"], "PENDING", "{task}");
}

/// Someone else's export makes tasks of one's own, never of theirs; an id that is theirs is not told apart
/// from one that is nobody's.
#[tokio::test]
async fn an_import_stays_in_the_tenant_of_the_token() {
    let server = two();
    let id = create(&server, "acme").await;
    let export = server.get("/v1/codeq/admin/export", "acme").await.text;
    let moved = export.replace(&id, "99999999-8888-4777-8666-555555555555");
    let (line, _) = moved.split_once('\n').expect("a line");
    let body = format!("{line}\n").into_bytes();
    let path = "/v1/codeq/admin/import";
    let answer = server.send(reqwest::Method::POST, path, Some("globex"), Some(body)).await;
    assert_eq!(answer.json["created"], 1, "{}", answer.text);
    let made = server.get("/v1/codeq/tasks/99999999-8888-4777-8666-555555555555", "globex").await;
    assert_eq!(made.json["tenantId"], "globex", "{}", made.text);
    let theirs = server.get("/v1/codeq/tasks/99999999-8888-4777-8666-555555555555", "acme").await;
    assert_eq!(theirs.status, 404, "{}", theirs.text);
    let before: Value = server.get(&format!("/v1/codeq/tasks/{id}"), "acme").await.json;
    let theirs = server.send(reqwest::Method::POST, path, Some("globex"), Some(export.into_bytes())).await;
    assert_eq!(
        (&theirs.json["created"], &theirs.json["existing"]),
        (&json!(1), &json!(0)),
        "{}",
        theirs.text
    );
    assert_eq!(server.get(&format!("/v1/codeq/tasks/{id}"), "acme").await.json, before, "it is not touched");
    let twin = server.get(&format!("/v1/codeq/tasks/{id}"), "globex").await;
    assert_eq!(twin.json["tenantId"], "globex", "{}", twin.text);
}
