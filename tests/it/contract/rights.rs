//! Headers that bring no token, and producers that stand in for workers: auth.md §1, §4. Every kind of token on
//! every route is asked in `abuse/routes`.

use super::{UNKNOWN_ID, fixed, lawful, refused, serve_with, worker_scopes};
use crate::harness::{Answer, DEV_TOKEN, Server, answer};
use codeq_server::http::routes::{Endpoint, Route, table};
use serde_json::{Value, json};

/// The path of a route with something in the place of its parameters.
fn path(route: &Route) -> String {
    let names = [
        ("{id}", UNKNOWN_ID),
        ("{name}", "a"),
        ("{command}", "c"),
        ("{topicName}", "t"),
        ("{*asset}", "main.js"),
    ];
    names.iter().fold(route.path.to_owned(), |path, (name, value)| path.replace(name, value))
}

async fn ask(server: &Server, route: &Route, authorization: Option<&str>) -> Answer {
    let mut request = server.request(route.method.clone(), &path(route)).header("X-Role", "ADMIN");
    if let Some(authorization) = authorization {
        request = request.header("Authorization", authorization);
    }
    let got = answer(request).await;
    // Exports, events and backups are no documents.
    let streams = ["application/x-ndjson", "text/event-stream; charset=utf-8", "application/octet-stream"];
    if !matches!(route.endpoint, Endpoint::Open(_)) && !streams.contains(&got.header("content-type")) {
        lawful(&got);
    }
    got
}

fn is_allowed(got: &Answer) -> bool {
    !matches!(got.status, 401 | 403)
}

#[tokio::test]
async fn every_route_but_the_open_ones_wants_a_token() {
    let server = Server::memory();
    for route in table() {
        let right = route.right();
        for (header, code, text) in [
            (None, "missing_authorization", "missing Authorization header"),
            (Some(""), "missing_authorization", "missing Authorization header"),
            (Some("   "), "missing_authorization", "missing Authorization header"),
            (Some("Bearer"), "invalid_authorization", "invalid Authorization format"),
            (Some("Basic ZGV2OmRldg=="), "invalid_authorization", "invalid Authorization format"),
            (Some("dev-token"), "invalid_authorization", "invalid Authorization format"),
            (Some("Bearer wrong"), "invalid_token", "invalid token"),
            (Some("Bearer dev-token2"), "invalid_token", "invalid token"),
        ] {
            let got = ask(&server, &route, header).await;
            match right {
                "none" => assert_eq!(got.status, 200, "{}", route.path),
                "any" => refused(&got, 401, "invalid_token", "invalid token"),
                _ => refused(&got, 401, code, text),
            }
        }
        for scheme in ["Bearer dev-token", "bearer dev-token", "BEARER dev-token"] {
            let got = ask(&server, &route, Some(scheme)).await;
            assert!(is_allowed(&got), "{} {}: {}", route.method, route.path, got.text);
        }
    }
}

#[tokio::test]
async fn a_producer_may_stand_in_for_a_worker_if_the_server_says_so() {
    let server = super::dev_with(json!({}));
    for route in table().iter().filter(|route| route.right() != "operator") {
        let got = ask(&server, route, Some(&format!("Bearer {DEV_TOKEN}"))).await;
        assert!(is_allowed(&got), "{}: {}", route.path, got.text);
    }
}

#[tokio::test]
async fn a_worker_claims_its_own_commands_in_the_order_of_its_token() {
    let raw = json!({"tenantId": "dev-tenant"});
    let worker = |token: &str, events: Value| {
        fixed(token, json!({"scopes": worker_scopes(), "eventTypes": events, "raw": raw}))
    };
    let producers = vec![fixed(DEV_TOKEN, json!({"raw": raw})), fixed("unused", json!({"raw": raw}))];
    let workers = vec![worker("some", json!(["B", "a"])), worker("all", json!(["x", "*"]))];
    let server = serve_with(producers, workers, json!({}));
    for command in ["c", "a", "b"] {
        super::create(&server, json!({"command": command, "payload": 1, "priority": 9})).await;
    }
    for path in ["/tasks/claim", "/tasks/claim/batch"] {
        for commands in [json!(["c"]), json!(["a", "c"]), json!(["*"]), json!(["a", "*"])] {
            let got = super::post_as(&server, "some", path, json!({"commands": commands, "count": 1})).await;
            refused(&got, 403, "event_type_not_allowed", "event type not allowed");
        }
        let got = super::post_as(&server, "some", path, json!({"commands": ["a b", "c"], "count": 1})).await;
        refused(&got, 400, "invalid_command", "invalid command");
    }
    for (token, body, command) in [("some", json!({}), "b"), ("some", json!({"commands": ["A"]}), "a")] {
        let got = super::post_as(&server, token, "/tasks/claim", body).await;
        assert_eq!(got.json["command"], command, "{}", got.text);
    }
    assert_eq!(super::post_as(&server, "some", "/tasks/claim", json!({})).await.status, 204);
    let got = super::post_as(&server, "all", "/tasks/claim", json!({"commands": ["*"]})).await;
    assert_eq!(got.json["command"], "c", "{}", got.text);
}
