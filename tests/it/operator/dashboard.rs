//! The dashboard's files and the history behind its charts.

use crate::harness::{Answer, DEV_TOKEN, Server, answer};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;

async fn open(server: &Server, path: &str) -> Answer {
    server.send(Method::GET, path, None, None).await
}

#[tokio::test]
async fn the_page_and_its_files_come_from_the_binary_under_a_strict_policy() {
    let server = Server::memory();
    let page = open(&server, "/ui").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    for foreign in ["http://", "https://", "src=\"//", "<script>", "<style", " style=", " onclick="] {
        assert!(!page.text.contains(foreign), "{foreign}");
    }
    let quoted = page.text.split('"').filter(|part| part.starts_with("/ui/"));
    let mut files: Vec<String> = quoted.map(str::to_owned).collect();
    files.extend(["dead", "queue", "search", "tail", "task"].map(|view| format!("/ui/views/{view}.js")));
    assert!(files.len() > 10, "{files:?}");
    for path in files.iter().map(String::as_str).chain(["/ui", "/ui/config.json"]) {
        let file = open(&server, path).await;
        assert_eq!((file.status, file.header("x-content-type-options")), (200, "nosniff"), "{path}");
        let policy = file.header("content-security-policy");
        assert!(policy.starts_with("default-src 'self'; "), "{path}: {policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    }
    for path in ["/ui/nothing.js", "/ui/../Cargo.toml", "/ui/views"] {
        assert_eq!(open(&server, path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_file_that_a_browser_has_is_not_sent_again() {
    let server = Server::memory();
    let first = open(&server, "/ui/main.js").await;
    let (etag, cache) = (first.header("etag"), first.header("cache-control"));
    assert_eq!((cache, etag.len()), ("no-cache", 26));
    let request = server.request(Method::GET, "/ui/main.js").header("if-none-match", etag);
    let again = answer(request).await;
    assert_eq!((again.status, again.text.len()), (304, 0));
}

#[tokio::test]
async fn only_browsers_are_sent_from_the_root_to_the_page() {
    let server = Server::memory();
    let browser = server.request(Method::GET, "/").header("accept", "text/html,*/*;q=0.8");
    let sent = answer(browser).await;
    assert_eq!((sent.status, sent.header("location")), (302, "/ui"));
    for (method, accept) in [(Method::GET, "*/*"), (Method::POST, "text/html")] {
        let other = answer(server.request(method, "/").header("accept", accept)).await;
        assert_eq!((other.status, &other.json["code"]), (404, &json!("route_not_found")));
    }
}

#[tokio::test]
async fn a_token_is_told_by_the_development_server_only() {
    let dev = open(&Server::memory(), "/ui/config.json").await;
    assert_eq!((dev.header("cache-control"), &dev.json["devToken"]), ("no-store", &json!(DEV_TOKEN)));
    let side = json!({"token": DEV_TOKEN, "subject": "dev", "eventTypes": ["*"], "raw": {"role": "ADMIN"}});
    let served = Server::serve(json!({
        "env": "dev",
        "producerAuthProvider": "static", "producerAuthConfig": side,
        "workerAuthProvider": "static", "workerAuthConfig": side,
    }));
    let config = open(&served, "/ui/config.json").await;
    assert_eq!((config.status, config.json.get("devToken")), (200, None), "{}", config.text);
}

#[tokio::test]
async fn the_store_tells_how_much_room_it_has() {
    let embedded = Server::dev().get("/v1/codeq/admin/store", DEV_TOKEN).await;
    assert_eq!((embedded.status, &embedded.json["provider"]), (200, &json!("embedded")), "{}", embedded.text);
    let number = |name: &str| embedded.json[name].as_u64().expect("a number");
    assert!(number("dataBytes") > 0);
    assert!((1..=number("diskTotalBytes")).contains(&number("diskFreeBytes")));
    let memory = Server::memory().get("/v1/codeq/admin/store", DEV_TOKEN).await;
    assert_eq!(memory.text, r#"{"provider":"memory"}"#);
}

/// The administrator of one tenant was told how much all tenants have, and how full the disk is.
#[tokio::test]
async fn the_room_of_everyone_is_told_to_operators_only() {
    let side = |scopes: &[&str]| {
        json!({
            "token": DEV_TOKEN, "subject": "admin", "eventTypes": ["*"], "scopes": scopes,
            "raw": {"role": "ADMIN", "tenantId": "acme"},
        })
    };
    for (scopes, is_told) in [(&["codeq:claim"][..], false), (&["codeq:operator"][..], true)] {
        let served = Server::serve(json!({
            "env": "dev",
            "producerAuthProvider": "static", "producerAuthConfig": side(scopes),
            "workerAuthProvider": "static", "workerAuthConfig": side(scopes),
        }));
        let told = served.get("/v1/codeq/admin/store", DEV_TOKEN).await;
        assert_eq!((told.status, &told.json["provider"]), (200, &json!("embedded")), "{}", told.text);
        assert_eq!(told.json.get("diskFreeBytes").is_some(), is_told, "{}", told.text);
    }
}

#[tokio::test]
async fn history_tells_what_happened_and_since_when() {
    let server = Server::memory();
    for _ in 0..3 {
        server.post("/v1/codeq/tasks", DEV_TOKEN, json!({"command": "Charted", "payload": 1})).await;
    }
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["charted"]})).await;
    let id = claimed.json["id"].as_str().expect("a task");
    let done = json!({"status": "COMPLETED", "result": {"ok": true}});
    server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, done).await;
    let path = "/v1/codeq/admin/history?command=CHARTED&minutes=5&points=1440";
    let sampled = async {
        loop {
            let answer = server.get(path, DEV_TOKEN).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            if !answer.json["queues"].as_array().expect("a list").is_empty() {
                return answer.json;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let history = tokio::time::timeout(Duration::from_secs(20), sampled).await.expect("a sample every 5 s");
    let sum = |name: &str| -> u64 {
        history["total"][name].as_array().expect("a list").iter().filter_map(serde_json::Value::as_u64).sum()
    };
    assert_eq!((sum("created"), sum("claimed"), sum("completed"), sum("failed")), (3, 1, 1, 0));
    assert_eq!(history["total"]["ready"].as_array().expect("a list").last(), Some(&json!(2)));
    assert_eq!((&history["queues"][0]["command"], &history["stepSeconds"]), (&json!("Charted"), &json!(5)));
    assert!(history["since"].as_str().expect("an instant") < history["until"].as_str().expect("an instant"));
}
