//! Routes that need no token, and the status route: http.md §4.14.

use super::{get, lawful};
use crate::harness::{Answer, Server};
use reqwest::Method;
use serde_json::Value;

async fn open(server: &Server, path: &str) -> Answer {
    server.send(Method::GET, path, None, None).await
}

#[tokio::test]
async fn health_is_told_to_everybody() {
    let server = Server::memory();
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = open(&server, path).await;
        lawful(&answer);
        assert_eq!((answer.status, &*answer.text), (200, r#"{"status":"ok"}"#), "{path}");
    }
}

#[tokio::test]
async fn there_is_no_cluster() {
    let server = Server::memory();
    let status = get(&server, "/raft/status").await;
    assert_eq!((status.status, &*status.text), (200, r#"{"enabled":false,"numGroups":0}"#));
}

#[tokio::test]
async fn the_description_is_served_as_it_is_published() {
    let server = Server::memory();
    let answer = open(&server, "/openapi.json").await;
    assert_eq!((answer.status, &*answer.text), (200, codeq_api::OPENAPI));
    assert_eq!(answer.header("content-type"), "application/json; charset=utf-8");
    let version = answer.json["openapi"].as_str().unwrap_or_default();
    assert!(version.starts_with("3.1"), "{version}");
}

#[tokio::test]
async fn the_page_takes_nothing_from_another_host() {
    let server = Server::memory();
    for (path, kind) in [
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/docs.css", "text/css; charset=utf-8"),
        ("/docs/docs.js", "text/javascript; charset=utf-8"),
    ] {
        let answer = open(&server, path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, kind), "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        let policy = answer.header("content-security-policy");
        for rule in
            ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.split("; ").any(|one| one == rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert!(!answer.text.is_empty() && answer.json == Value::Null);
    }
    let page = open(&server, "/docs").await.text;
    for foreign in ["http://", "https://", "src=\"//", "<script>", " style=", " onclick="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}
