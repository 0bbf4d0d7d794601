//! Every route of the table, asked with every kind of token: the answer is the documented one.
//!
//! The routes come from the server's own table; [`cases`] holds a request for each, and a route without one
//! fails the test. For every token [`tokens`] says what each kind of route answers. What is refused, or
//! asked by another tenant, must leave everything as it was.

mod cases;
mod things;
mod tokens;

use super::wire::Wire;
use super::{NOBODY, assert_serves};
use crate::harness::{Answer, DEV_TOKEN, Server, answer};
use cases::{CASES, Case};
use codeq_server::http::Limits;
use codeq_server::http::routes::{BodyLimit, Route, table};
use reqwest::Method;
use things::World;
use tokens::{Expect, Token};

fn case_of(route: &Route) -> &'static Case {
    let found = CASES.iter().find(|case| case.method == route.method.as_str() && case.path == route.path);
    found.unwrap_or_else(|| panic!("{} {} has no case in tests/it/abuse/routes", route.method, route.path))
}

/// The request of a case about the thing of this id.
async fn ask(world: &World, case: &Case, id: &str, authorization: Option<&str>, query: &str) -> Answer {
    let fill = |text: &str| {
        let names = ["{id}", "{topicName}", "{scheduleName}", "{batchId}"];
        names.iter().fold(text.to_owned(), |text, name| text.replace(name, id))
    };
    let path = fill(case.path).replace("{command}", case.command).replace("{name}", "a");
    let path = path.replace("{*asset}", "main.js");
    let joined =
        [case.query, query].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
    let method = Method::from_bytes(case.method.as_bytes()).expect("a method");
    let mut request = world.server.request(method, &format!("{path}?{joined}")).header("X-Role", "ADMIN");
    if let Some(authorization) = authorization {
        request = request.header("Authorization", authorization);
    }
    answer(request.body(fill(case.body))).await
}

#[track_caller]
fn assert_answer(got: &Answer, case: &Case, (status, code): (u16, &str), what: &str) {
    let told = got.json["code"].as_str().unwrap_or_default();
    let told = if got.status >= 400 { told } else { "" };
    // An error where a success was due, or the other way round, is never as good.
    let status = if got.status == case.also && status < 300 { case.also } else { status };
    assert_eq!((got.status, told), (status, code), "{what}: {}", got.text);
}

#[track_caller]
fn assert_refused(got: &Answer, (status, code, text): (u16, &str, &str), what: &str) {
    assert_eq!((got.status, got.json["code"].as_str()), (status, Some(code)), "{what}: {}", got.text);
    assert_eq!(got.json["error"], text, "{what}");
    assert_eq!(got.json["requestId"], got.header("x-request-id"), "{what}");
}

#[test]
fn every_route_has_its_case_and_every_case_its_route() {
    let table = table();
    for route in &table {
        case_of(route);
    }
    for case in CASES {
        let is_there = table.iter().any(|route| route.method == case.method && route.path == case.path);
        assert!(is_there, "{} {} is no route", case.method, case.path);
    }
    assert_eq!(table.len(), CASES.len());
}

#[tokio::test]
async fn every_route_answers_every_token_as_documented() {
    let world = World::open().await;
    let tokens = tokens::all(&world.issuer);
    for route in table() {
        let case = case_of(&route);
        let id = world.make(case.thing).await;
        let before = world.state().await;
        let name = |token: &Token| format!("{} on {} {}", token.name, route.method, route.path);
        for token in &tokens {
            for authorization in token.for_route(route.right()) {
                let what = name(token);
                let got = match token.expect(route.method.as_str(), route.right()) {
                    Expect::Allowed => continue,
                    Expect::Refused(status, code, text) => {
                        let got = ask(&world, case, &id, authorization, "").await;
                        assert_refused(&got, (status, code, &text), &what);
                        got
                    }
                    Expect::Foreign => {
                        let got = ask(&world, case, &id, authorization, "").await;
                        assert_answer(&got, case, case.foreign, &what);
                        got
                    }
                };
                assert!(!got.text.contains("acme"), "{what} tells of another tenant: {}", got.text);
            }
        }
        assert_eq!(world.state().await, before, "{} {} was changed by others", route.method, route.path);
        for token in &tokens {
            let Expect::Allowed = token.expect(route.method.as_str(), route.right()) else { continue };
            let id = world.make(case.thing).await;
            for authorization in token.for_route(route.right()) {
                let got = ask(&world, case, &id, authorization, "").await;
                assert_answer(&got, case, (case.status, ""), &name(token));
                assert_eq!(got.header("codeq-access"), token.access(route.right()), "{}", name(token));
            }
        }
    }
}

#[tokio::test]
async fn only_an_operator_names_another_tenant() {
    let world = World::open().await;
    let tokens = tokens::all(&world.issuer);
    let find = |name: &str| tokens.iter().find(|token| token.name == name).expect("it is in the list");
    let (stranger, operator) = (find("admin of globex"), find("operator of globex"));
    for route in table().iter().filter(|route| route.right() == "admin") {
        let case = case_of(route);
        // The room on the disk is nobody's.
        if route.path == "/v1/codeq/admin/store" {
            continue;
        }
        let id = world.make(case.thing).await;
        for tenant in ["acme", "*", "", "GLOBEX", "globex,acme"] {
            let query = format!("tenant={tenant}");
            let got = ask(&world, case, &id, stranger.for_route("admin")[0], &query).await;
            let what = format!("{} {}?{query}", route.method, route.path);
            assert_refused(&got, (403, "admin_only", "unauthorized. Admin only"), &what);
        }
        let got = ask(&world, case, &id, operator.for_route("admin")[0], "tenant=acme").await;
        let what = format!("operator on {} {}", route.method, route.path);
        assert_answer(&got, case, (case.status, ""), &what);
    }
}

/// Every route, asked with bodies of every size: what is too large is refused before it is sent, and nobody
/// without a token has a body read, however much of it comes.
#[tokio::test]
async fn every_route_answers_every_size_before_it_has_come() {
    let server = Server::memory();
    let limits = Limits { body: 4 << 20, submit: 96 << 20 };
    for route in table().iter().filter(|route| route.method != Method::GET && route.right() != "none") {
        let path = route
            .path
            .replace("{id}", NOBODY)
            .replace("{command}", "c")
            .replace("{topicName}", "t")
            .replace("{scheduleName}", "s")
            .replace("{batchId}", "b");
        let limit = route.limit.bytes(&limits);
        let ask = async |authorization: &str, announced: usize, sent: usize| {
            let mut wire = Wire::open(&server).await;
            let head = format!(
                "{} {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Length: {announced}\r\n\r\n",
                route.method
            );
            wire.send(head.as_bytes()).await;
            wire.send(&vec![b' '; sent]).await;
            wire.reply().await.expect("an answer before the body is there")
        };
        let known = format!("Authorization: Bearer {DEV_TOKEN}\r\n");
        if route.limit != BodyLimit::Import {
            for authorization in ["", &known] {
                ask(authorization, limit + 1, 0).await.assert_error(413, "body_too_large", route.path);
            }
        }
        for sent in [0, 1, 64 << 10, 200 << 10] {
            let refused = ask("", limit, sent).await;
            assert_eq!(refused.status, 401, "{} {sent} bytes: {refused:?}", route.path);
        }
    }
    assert_serves(&server).await;
}
