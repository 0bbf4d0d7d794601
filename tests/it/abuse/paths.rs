//! Paths and headers that mean one thing to one reader and another to the next: none of them opens a door.

use super::wire::{Reply, Wire};
use super::{NOBODY, assert_serves};
use crate::harness::{DEV_TOKEN, Server};
use codeq_server::http::routes::{Route, table};
use serde_json::json;

fn plain(route: &Route) -> String {
    let names = [
        ("{id}", NOBODY),
        ("{name}", "a"),
        ("{command}", "c"),
        ("{topicName}", "t"),
        ("{*asset}", "main.js"),
    ];
    names.iter().fold(route.path.to_owned(), |path, (name, value)| path.replace(name, value))
}

/// The same path as somebody might hope that a proxy and a server read it differently.
fn tricks(path: &str) -> Vec<String> {
    let (head, last) = path.rsplit_once('/').unwrap_or(("", path));
    let encoded: String = last.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let slashes = path.replacen('/', "%2f", 2).replacen("%2f", "/", 1);
    vec![
        format!("/{path}"),
        format!("//h{path}"),
        path.replace('/', "//"),
        format!("{path}//"),
        format!("{path}/."),
        format!("{path}/.."),
        format!("{path}/%2e"),
        format!("{path}/%2e%2e/"),
        format!("/.{path}"),
        format!("/x/..{path}"),
        format!("/livez/..{path}"),
        format!("/livez/%2e%2e{path}"),
        format!("/livez%2f..{path}"),
        format!("/livez;{path}"),
        format!("/ui/..{path}"),
        format!("/ui/%2e%2e{path}"),
        format!("/ui/..%2f..{path}"),
        format!("/docs/%252e%252e{path}"),
        format!("/ui/%c0%ae%c0%ae{path}"),
        format!("{path};x=/livez"),
        format!("{path}%00"),
        format!("{path}%00/livez"),
        format!("{path}%20"),
        format!("{path}%2f"),
        format!("{path}%0a"),
        format!("{path}%23/livez"),
        format!("{path}%3f"),
        format!("{path}.json"),
        format!("{head}/{encoded}"),
        format!("{head}\\{last}"),
        slashes,
        path.to_ascii_uppercase(),
        format!("{path}/{}", "a/".repeat(2000)),
        format!("{path}?/livez"),
        format!("http://h{path}"),
        format!("http://h/livez/..{path}"),
    ]
}

/// Sends one request on a connection that is opened anew when the server has closed it.
async fn ask(server: &Server, wire: &mut Wire, method: &str, target: &str, headers: &str) -> Option<Reply> {
    let text = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: 0\r\n\r\n");
    wire.send(text.as_bytes()).await;
    let reply = wire.reply().await;
    let is_closed = reply.as_ref().is_none_or(|reply| {
        reply.header("connection").is_some_and(|word| word.eq_ignore_ascii_case("close"))
    });
    if is_closed {
        *wire = Wire::open(server).await;
    }
    reply
}

#[tokio::test]
async fn no_spelling_of_a_path_gets_past_the_gate() {
    let server = Server::memory();
    let mut wire = Wire::open(&server).await;
    for route in table().iter().filter(|route| route.right() != "none") {
        for target in tricks(&plain(route)) {
            let method = route.method.as_str();
            let Some(reply) = ask(&server, &mut wire, method, &target, "").await else { continue };
            let what = format!("{method} {target:.120}");
            assert!(matches!(reply.status, 400 | 401 | 404 | 405 | 414), "{what}: {reply:?}");
            if reply.status != 400 && reply.status != 414 {
                assert!(reply.json()["code"].is_string(), "{what}: {reply:?}");
            }
        }
    }
    assert_serves(&server).await;
}

/// With a token the same paths name what they name, or nothing; nothing breaks.
#[tokio::test]
async fn no_spelling_of_a_path_breaks_anything() {
    let server = Server::memory();
    let token = format!("Authorization: Bearer {DEV_TOKEN}\r\n");
    let mut wire = Wire::open(&server).await;
    for route in table() {
        // Answers without a length are asked for elsewhere.
        let is_stream = ["/events", "/export", "/backup"].iter().any(|end| route.path.ends_with(end));
        for target in tricks(&plain(&route)).iter().filter(|_| !is_stream) {
            let method = route.method.as_str();
            let Some(reply) = ask(&server, &mut wire, method, target, &token).await else { continue };
            assert!(reply.status < 500, "{method} {target:.120}: {reply:?}");
        }
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn the_dashboard_serves_its_own_files_and_no_others() {
    let server = Server::memory();
    let mut wire = Wire::open(&server).await;
    for target in [
        "/ui/../Cargo.toml",
        "/ui/../../../../etc/passwd",
        "/ui/%2e%2e/%2e%2e/etc/passwd",
        "/ui/..%2f..%2fetc%2fpasswd",
        "/ui/....//....//etc/passwd",
        "/ui//etc/passwd",
        "/ui/%2fetc%2fpasswd",
        "/ui/main.js%00.css",
        "/ui/main.js/..",
        "/ui/\\..\\..\\etc\\passwd",
        "/ui/%5c..%5cetc",
        "/ui/.",
        "/ui/..",
        "/ui/%ff",
    ] {
        let reply = ask(&server, &mut wire, "GET", target, "").await;
        let Some(reply) = reply else { continue };
        assert!(!reply.body.contains("root:") && !reply.body.contains("[package]"), "{target}: {reply:?}");
        assert!(matches!(reply.status, 200 | 400 | 404), "{target}: {reply:?}");
    }
}

/// Headers that some servers obey.
#[tokio::test]
async fn headers_that_claim_more_than_the_token_are_not_read() {
    let server = Server::memory();
    let policy = json!({"priorityTiers": [1], "maxAttempts": 1, "deadLetterTopicRef": "d"});
    let topic = "/v1/codeq/admin/topics/kept";
    let put = server.send(reqwest::Method::PUT, topic, Some(DEV_TOKEN), Some(policy.to_string().into()));
    assert_eq!(put.await.status, 201);
    let mut wire = Wire::open(&server).await;
    let claims = [
        "X-Role: ADMIN",
        "X-Forwarded-User: admin",
        "X-Tenant-Id: dev-tenant",
        "X-Original-URL: /livez",
        "X-Rewrite-URL: /livez",
        "X-Forwarded-Prefix: /livez",
        "Forwarded: for=127.0.0.1;host=h;proto=https",
        "X-Forwarded-For: 127.0.0.1",
        "Proxy-Authorization: Bearer dev-token",
        "X-Authorization: Bearer dev-token",
        "Cookie: token=dev-token",
        "Authorization: Token dev-token",
        "Authorization: Bearer dev-token, Bearer dev-token",
    ];
    for claim in claims {
        let reply = ask(&server, &mut wire, "GET", topic, &format!("{claim}\r\n")).await.expect("an answer");
        assert_eq!(reply.status, 401, "{claim}: {reply:?}");
    }
    let token = format!("Authorization: Bearer {DEV_TOKEN}\r\n");
    for verb in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        let target = format!("{topic}?deletionPolicy=Delete&_method=DELETE");
        let headers = format!("{token}{verb}: DELETE\r\n");
        assert_eq!(ask(&server, &mut wire, "GET", &target, &headers).await.expect("an answer").status, 200);
    }
    assert_eq!(ask(&server, &mut wire, "GET", topic, &token).await.expect("an answer").status, 200);
}

/// The first of two `Authorization` headers was taken and the other one ignored: a proxy in front that
/// looks at the last one would have judged another token than the server. Now there is no token in it.
#[tokio::test]
async fn two_authorizations_are_none() {
    let server = Server::memory();
    let mut wire = Wire::open(&server).await;
    let good = format!("Authorization: Bearer {DEV_TOKEN}\r\n");
    let bad = "Authorization: Bearer nobody\r\n";
    for headers in [format!("{good}{bad}"), format!("{bad}{good}"), format!("{good}{good}")] {
        let reply = ask(&server, &mut wire, "GET", "/v1/codeq/admin/queues", &headers).await;
        reply.expect("an answer").assert_error(401, "invalid_authorization", &headers);
        let reply = ask(&server, &mut wire, "GET", "/v1/codeq/raft/status", &headers).await;
        reply.expect("an answer").assert_error(401, "invalid_token", &headers);
    }
    let reply = ask(&server, &mut wire, "GET", "/v1/codeq/admin/queues", &good).await;
    assert_eq!(reply.expect("an answer").status, 200);
}

#[tokio::test]
async fn odd_headers_are_read_or_refused_and_never_echoed_as_lines() {
    let server = Server::memory();
    let token = format!("Authorization: Bearer {DEV_TOKEN}\r\n");
    let mut wire = Wire::open(&server).await;
    let odd = [
        "X-Request-Id: a\u{e9}b",
        "X-Request-Id: %0d%0aSet-Cookie: x=1",
        "X-Request-Id: \"<script>\"",
        "traceparent: 00-zz-zz-zz",
        "traceparent: ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate: =,=,=",
        "baggage: ;;;==",
        "Idempotency-Key: \"unended",
        "Last-Event-ID: 99999999999999999999999-99999999999",
        "Expect: 100-continue",
        "Accept: ../../etc/passwd",
        "Content-Type: \u{0}",
        "Range: bytes=0-18446744073709551615",
        "If-Modified-Since: never",
        "Upgrade: h2c",
    ];
    for header in odd {
        let headers = format!("{token}{header}\r\n");
        let Some(reply) = ask(&server, &mut wire, "GET", "/v1/codeq/admin/queues", &headers).await else {
            continue;
        };
        assert!(matches!(reply.status, 100 | 200 | 400 | 417), "{header:?}: {reply:?}");
        assert_eq!(reply.header("set-cookie"), None, "{header:?}: {reply:?}");
        if reply.status == 100 {
            wire = Wire::open(&server).await;
        }
    }
    assert_serves(&server).await;
}
