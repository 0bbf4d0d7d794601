//! Who may do what, on every route: auth.md §1, §3, §4.

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

/// Tokens that each lack something. `everything` lacks nothing.
fn imperfect() -> Server {
    let raw = json!({"tenantId": "acme"});
    let worker = |token: &str, scopes: Value, events: Value, raw: &Value| {
        fixed(token, json!({"subject": token, "scopes": scopes, "eventTypes": events, "raw": raw}))
    };
    let producers = vec![
        fixed("plain", json!({"scopes": ["codeq:claim", "openid"], "raw": {"tid": "acme", "role": "USER"}})),
        fixed("by-role", json!({"raw": {"tid": "acme", "role": "admin"}})),
        fixed("by-scope", json!({"scopes": ["codeq:admin"], "raw": {"tid": "acme"}})),
        fixed("no-tenant", json!({"raw": {"tid": "Acme", "role": "ADMIN"}})),
    ];
    let workers = vec![
        worker("no-events", worker_scopes(), json!([" "]), &raw),
        worker("no-scopes", json!([]), json!(["*"]), &raw),
        worker("other-scope", json!(["codeq:admin"]), json!(["*"]), &raw),
        worker("odd-tenant", worker_scopes(), json!(["*"]), &json!({"tid": "acme", "tenantId": "other"})),
    ];
    serve_with(producers, workers, json!({}))
}

#[tokio::test]
async fn a_token_that_lacks_something_is_told_what() {
    let server = imperfect();
    let nobody = format!("multi auth: token rejected by every provider: {}", ["invalid token"; 4].join("\n"));
    let nobody = Some((401, "invalid_token", &*nobody));
    let tenant = Some((403, "invalid_tenant", "invalid tenant claims"));
    let admin_only = Some((403, "admin_only", "unauthorized. Admin only"));
    let no_events = Some((401, "missing_event_types", "missing eventTypes"));
    let no_scopes = Some((401, "missing_scope", "missing scope"));
    let other_scope = Some((403, "missing_scope", "missing scope"));
    let unknown = Some((401, "invalid_token", "invalid token"));
    // Of each token: producer, admin, worker and any routes.
    let rows = [
        ("plain", [None, admin_only, nobody, None]),
        ("by-role", [None, None, nobody, None]),
        ("by-scope", [None, None, nobody, None]),
        ("no-tenant", [tenant, tenant, nobody, tenant]),
        ("no-events", [nobody, nobody, no_events, unknown]),
        ("no-scopes", [nobody, nobody, no_scopes, None]),
        ("other-scope", [nobody, nobody, other_scope, None]),
        ("odd-tenant", [nobody, nobody, tenant, tenant]),
    ];
    for route in table() {
        let column = match &route.endpoint {
            Endpoint::Open(_) => continue,
            Endpoint::Producer(_) => 0,
            Endpoint::Admin(_) => 1,
            // Only the scope makes an operator; operator::listing has a token with it.
            Endpoint::Operator(_) => continue,
            Endpoint::Worker(..) => 2,
            Endpoint::Any(_) => 3,
        };
        for (token, answers) in &rows {
            let got = ask(&server, &route, Some(&format!("Bearer {token}"))).await;
            match answers[column] {
                Some((status, code, text)) => refused(&got, status, code, text),
                None => assert!(is_allowed(&got), "{token} {}: {}", route.path, got.text),
            }
        }
    }
}

#[tokio::test]
async fn every_worker_route_wants_its_own_scope() {
    let raw = json!({"tenantId": "acme"});
    let worker =
        |token: &str, scopes: Value| fixed(token, json!({"scopes": scopes, "eventTypes": ["*"], "raw": raw}));
    let producers = || vec![fixed("p", json!({"raw": raw})), fixed("q", json!({"raw": raw}))];
    let verbs = ["claim", "heartbeat", "abandon", "nack", "result", "subscribe"];
    for pair in verbs.chunks(2) {
        let workers = pair.iter().map(|verb| worker(verb, json!([format!("codeq:{verb}")]))).collect();
        let server = serve_with(producers(), workers, json!({}));
        for route in table() {
            let Endpoint::Worker(scope, _) = &route.endpoint else { continue };
            for verb in pair {
                let got = ask(&server, &route, Some(&format!("Bearer {verb}"))).await;
                match scope.word() == format!("codeq:{verb}") {
                    true => assert!(is_allowed(&got), "{verb} {}: {}", route.path, got.text),
                    false => refused(&got, 403, "missing_scope", "missing scope"),
                }
            }
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
