//! Request ids, methods and paths: http.md §1.

use super::{UNKNOWN_ID, create, refused};
use crate::harness::{Answer, DEV_TOKEN, Server, answer};
use reqwest::Method;
use serde_json::json;

async fn send(server: &Server, method: Method, path: &str) -> Answer {
    server.send(method, path, Some(DEV_TOKEN), None).await
}

/// Routes with every kind of answer: method, path, token, status.
fn kinds() -> Vec<(Method, String, &'static str, u16)> {
    vec![
        (Method::GET, "/healthz".into(), "", 200),
        (Method::GET, "/nowhere".into(), "", 404),
        (Method::DELETE, "/healthz".into(), "", 405),
        (Method::GET, format!("/v1/codeq/tasks/{UNKNOWN_ID}"), DEV_TOKEN, 404),
        (Method::GET, format!("/v1/codeq/tasks/{UNKNOWN_ID}"), "wrong", 401),
        (Method::POST, "/v1/codeq/tasks".into(), DEV_TOKEN, 400),
        (Method::POST, "/v1/codeq/tasks/claim".into(), DEV_TOKEN, 204),
    ]
}

#[tokio::test]
async fn a_request_id_is_echoed_on_every_answer() {
    let server = Server::memory();
    let longest = "~".repeat(128);
    for (method, path, token, status) in kinds() {
        for given in ["a", "!-/:@[`{~", &longest] {
            let request = server.request(method.clone(), &path).bearer_auth(token);
            let got = answer(request.header("X-Request-Id", given)).await;
            assert_eq!((got.status, got.header("x-request-id")), (status, given), "{method} {path}");
            if status >= 400 {
                assert_eq!(got.json["requestId"], given, "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn without_a_usable_request_id_32_hex_digits_are_made_up() {
    let server = Server::memory();
    let too_long = "a".repeat(129);
    let mut seen = std::collections::HashSet::new();
    for (method, path, token, _) in kinds() {
        for given in [None, Some(""), Some("a b"), Some("caf\u{e9}"), Some("a\tb"), Some(&*too_long)] {
            let mut request = server.request(method.clone(), &path).bearer_auth(token);
            if let Some(given) = given {
                request = request.header("X-Request-Id", given.as_bytes());
            }
            let made = answer(request).await.header("x-request-id").to_owned();
            let is_hex = made.len() == 32 && made.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
            assert!(is_hex, "{method} {path} {given:?}: {made}");
            assert!(seen.insert(made), "made up twice");
        }
    }
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let server = Server::memory();
    let task = create(&server, json!({"command": "head", "payload": 1})).await;
    let id = task["id"].as_str().expect("an id");
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/docs/docs.css",
        "/docs/docs.js",
        "/v1/codeq/raft/status",
        "/v1/codeq/admin/queues",
        "/v1/codeq/admin/queues/head",
        "/v1/codeq/admin/topics/none",
        "/nowhere",
        &format!("/v1/codeq/tasks/{id}"),
        &format!("/v1/codeq/tasks/{id}/result"),
        &format!("/v1/codeq/tasks/{UNKNOWN_ID}"),
        &format!("/v1/codeq/tasks/{id}/artifacts/x"),
    ] {
        let got = send(&server, Method::GET, path).await;
        let head = send(&server, Method::HEAD, path).await;
        assert_eq!((head.status, &*head.text), (got.status, ""), "{path}");
        assert_eq!(head.header("content-type"), got.header("content-type"), "{path}");
        assert_eq!(head.header("content-length"), got.text.len().to_string(), "{path}");
    }
}

#[tokio::test]
async fn other_methods_are_told_which_there_are() {
    let server = Server::memory();
    let by_id = |rest: &str| format!("/v1/codeq/tasks/{UNKNOWN_ID}{rest}");
    let reads = "GET, HEAD";
    for (path, allowed) in [
        ("/v1/codeq/tasks".into(), "POST"),
        ("/v1/codeq/tasks/batch".into(), "POST"),
        ("/v1/codeq/tasks/claim".into(), "POST"),
        ("/v1/codeq/tasks/claim/batch".into(), "POST"),
        ("/v1/codeq/tasks/batch/results".into(), "POST"),
        (by_id(""), reads),
        (by_id("/heartbeat"), "POST"),
        (by_id("/abandon"), "POST"),
        (by_id("/nack"), "POST"),
        (by_id("/result"), "GET, HEAD, POST"),
        (by_id("/artifacts/a"), reads),
        ("/v1/codeq/workers/subscriptions".into(), "POST"),
        (format!("/v1/codeq/workers/subscriptions/{UNKNOWN_ID}/heartbeat"), "POST"),
        ("/v1/codeq/raft/status".into(), reads),
        ("/v1/codeq/admin/queues".into(), reads),
        ("/v1/codeq/admin/queues/c".into(), reads),
        ("/v1/codeq/admin/tasks/cleanup".into(), "POST"),
        ("/v1/codeq/admin/topics/t".into(), "DELETE, GET, HEAD, PUT"),
        ("/healthz".into(), reads),
        ("/livez".into(), reads),
        ("/readyz".into(), reads),
        ("/openapi.json".into(), reads),
        ("/docs".into(), reads),
    ] {
        for method in [Method::PATCH, Method::OPTIONS, Method::GET, Method::POST, Method::PUT] {
            if allowed.contains(method.as_str()) {
                continue;
            }
            // Without a token: there is nothing here to be allowed to do.
            let got = server.send(method.clone(), &path, None, None).await;
            refused(&got, 405, "method_not_allowed", "method not allowed");
            let mut told: Vec<&str> = got.header("allow").split(',').map(str::trim).collect();
            told.sort_unstable();
            assert_eq!(told.join(", "), allowed, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn unknown_paths_are_not_found_with_or_without_a_token() {
    let server = Server::memory();
    for path in [
        "/v1",
        "/v1/codeq",
        "/v1/codeq/nope",
        "/v1/codeq/Tasks",
        "/v2/codeq/tasks",
        "/v1/codeq/admin",
        "/v1/codeq/admin/topics",
        "/v1/codeq/workers",
        "/docs/other.js",
        "/healthz/more",
        &format!("/v1/codeq/tasks/{UNKNOWN_ID}/artifacts"),
        &format!("/v1/codeq/tasks/{UNKNOWN_ID}/nope"),
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            for token in [None, Some(DEV_TOKEN)] {
                let got = server.send(method.clone(), path, token, None).await;
                refused(&got, 404, "route_not_found", "404 page not found");
                assert_eq!(got.header("content-type"), "application/json; charset=utf-8");
            }
        }
    }
}

#[tokio::test]
async fn one_trailing_slash_is_ignored_and_two_are_not() {
    let server = Server::memory();
    let body = || Some(json!({"command": "slash", "payload": 1}).to_string().into_bytes());
    let created = server.send(Method::POST, "/v1/codeq/tasks/", Some(DEV_TOKEN), body()).await;
    assert_eq!(created.status, 202, "{}", created.text);
    let id = created.json["id"].as_str().expect("an id");
    for (path, status, code) in [
        ("/healthz/".into(), 200, ""),
        ("/healthz/?x=1".into(), 200, ""),
        ("/healthz//".into(), 404, "route_not_found"),
        ("/v1/codeq/raft/status/".into(), 200, ""),
        (format!("/v1/codeq/tasks/{id}/"), 200, ""),
        (format!("/v1/codeq/tasks/{id}//"), 404, "route_not_found"),
        (format!("/v1/codeq/tasks/{id}/result/?waitSeconds=0"), 404, "result_not_found"),
        ("/v1/codeq/admin/queues/?view=stats".into(), 200, ""),
        ("/v1/codeq/tasks//".into(), 404, "route_not_found"),
    ] {
        let got = send(&server, Method::GET, &path).await;
        let code_given = got.json["code"].as_str().unwrap_or_default();
        assert_eq!((got.status, code_given), (status, code), "{path}");
    }
}
