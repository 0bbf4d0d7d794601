//! Bodies that are not what they should be: malformed, cut short, deep, huge.

use super::wire::Wire;
use super::{NOBODY, assert_serves, once, request, strangers};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::json;

/// Every route that reads a body, and the text of its complaint about a malformed one.
pub fn readers() -> Vec<(&'static str, String, &'static str)> {
    let by_id = |verb: &str| format!("/v1/codeq/tasks/{NOBODY}/{verb}");
    vec![
        ("POST", "/v1/codeq/tasks".into(), "invalid body"),
        ("POST", "/v1/codeq/tasks/batch".into(), "invalid body"),
        ("POST", "/v1/codeq/tasks/claim".into(), "invalid body"),
        ("POST", "/v1/codeq/tasks/claim/batch".into(), "invalid body"),
        ("POST", by_id("heartbeat"), "invalid body"),
        ("POST", by_id("abandon"), "invalid body"),
        ("POST", by_id("nack"), "invalid body"),
        ("POST", by_id("result"), "invalid request body"),
        ("POST", "/v1/codeq/tasks/batch/results".into(), "invalid body"),
        ("POST", "/v1/codeq/workers/subscriptions".into(), "invalid body"),
        ("POST", "/v1/codeq/admin/tasks/cleanup".into(), "invalid body"),
        ("PUT", "/v1/codeq/admin/topics/orders".into(), "invalid request body: "),
    ]
}

fn malformed() -> Vec<String> {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
    let payload = |value: String| format!(r#"{{"command":"c","payload":{value},"status":"COMPLETED"}}"#);
    let short =
        ["{", "{\"command\":", "[1,2", "nul", "[]", "1", "\"x\"", "true", "{} {}", "{}x", "{\"a\":1}}"];
    let other =
        ["{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "{'a':1}", "{\"a\":\"\n\"}", "\u{feff}{}", "\0"];
    let mut all: Vec<String> = short.iter().chain(&other).map(|text| text.to_string()).collect();
    all.extend([deep("[", "]"), deep("{\"a\":", "}"), "[".repeat(10_000), "{\"a\":".repeat(10_000)]);
    all.extend([payload(deep("[", "]")), payload(deep("{\"a\":", "}")), payload("[".repeat(10_000))]);
    all
}

#[tokio::test]
async fn malformed_and_deep_bodies_are_refused_on_every_route() {
    let server = Server::dev();
    let mut wire = Wire::open(&server).await;
    for (method, path, text) in readers() {
        for body in malformed() {
            wire.send(&request(method, &path, &body)).await;
            let reply = wire.reply().await.expect("a refusal keeps the connection");
            let what = format!("{method} {path} {:.60}", body);
            reply.assert_error(400, "invalid_body", &what);
            let told = reply.json()["error"].as_str().unwrap_or_default().to_owned();
            assert!(told == text || text.ends_with(": ") && told.starts_with(text), "{what}: {told}");
        }
    }
    let renew = format!("/v1/codeq/workers/subscriptions/{NOBODY}/heartbeat");
    for body in malformed() {
        wire.send(&request("POST", &renew, &body)).await;
        let reply = wire.reply().await.expect("an answer");
        reply.assert_error(404, "subscription_not_found", "a renewal reads a malformed body as none");
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn a_body_that_is_not_utf8_is_refused() {
    let server = Server::dev();
    for (method, path, _) in readers() {
        let body = b"{\"command\":\"\xff\xfe\",\"payload\":1}".to_vec();
        let method = method.parse().expect("a method");
        let refused = server.send(method, &path, Some(DEV_TOKEN), Some(body)).await;
        assert_eq!((refused.status, refused.json["code"].as_str()), (400, Some("invalid_body")), "{path}");
    }
}

#[tokio::test]
async fn a_payload_may_nest_to_the_limit_and_not_one_level_deeper() {
    let server = Server::dev();
    let task = |levels: usize| {
        let payload = "[".repeat(levels) + &"]".repeat(levels);
        format!(r#"{{"command":"deep","payload":{payload}}}"#).into_bytes()
    };
    let send =
        |levels| server.send(reqwest::Method::POST, "/v1/codeq/tasks", Some(DEV_TOKEN), Some(task(levels)));
    assert_eq!(send(127).await.status, 202);
    assert_eq!(send(128).await.status, 400);
}

/// What arrived may look complete; it is not, and must not be acted on.
#[tokio::test]
async fn a_body_cut_short_changes_nothing() {
    let server = Server::dev();
    let body = r#"{"command":"cut","payload":1}"#;
    let head =
        format!("POST /v1/codeq/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {DEV_TOKEN}\r\n");
    let sized = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len() + 1);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len());
    for text in [sized, chunked] {
        let mut half_closed = Wire::open(&server).await;
        half_closed.send(text.as_bytes()).await;
        let mut gone = Wire::open(&server).await;
        gone.send(text.as_bytes()).await;
        drop(gone);
        tokio::io::AsyncWriteExt::shutdown(&mut half_closed.stream).await.expect("it was open");
        if let Some(reply) = half_closed.reply().await {
            reply.assert_error(400, "invalid_body", "cut short");
        }
    }
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["cut"]})).await;
    assert_eq!(claimed.status, 204, "{}", claimed.text);
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_refused_before_it_comes() {
    let server = Server::dev();
    for (method, path, _) in readers() {
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {DEV_TOKEN}\r\n");
        let reply = once(&server, format!("{head}Content-Length: 1073741824\r\n\r\n{{").as_bytes()).await;
        reply.expect("an answer").assert_error(413, "body_too_large", &path);
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn a_chunked_body_is_counted_as_it_comes() {
    let server = Server::dev();
    for (path, limit) in [("/v1/codeq/tasks", 4 << 20), ("/v1/codeq/admin/topics/orders", 1 << 20)] {
        let method = if path.contains("topics") { "PUT" } else { "POST" };
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {DEV_TOKEN}");
        let mut wire = Wire::open(&server).await;
        wire.send(format!("{head}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes()).await;
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        for _ in 0..limit / 0x10000 + 1 {
            wire.send(chunk.as_bytes()).await;
        }
        wire.reply().await.expect("an answer").assert_error(413, "body_too_large", path);
    }
    assert_serves(&server).await;
}

/// A client that sends all before it reads has to find the refusal, not a reset connection.
#[tokio::test]
async fn a_body_a_little_too_large_is_refused_and_the_sender_gets_to_know() {
    let server = Server::dev();
    for size in [(4 << 20) + 1, 5 << 20, 8 << 20] {
        let body = vec![b' '; size];
        let refused =
            server.send(reqwest::Method::POST, "/v1/codeq/tasks", Some(DEV_TOKEN), Some(body)).await;
        assert_eq!((refused.status, refused.json["code"].as_str()), (413, Some("body_too_large")));
    }
    let fits = vec![b' '; 4 << 20];
    let read = server.send(reqwest::Method::POST, "/v1/codeq/tasks", Some(DEV_TOKEN), Some(fits)).await;
    assert_eq!(read.status, 400);
}

#[tokio::test]
async fn a_submit_may_have_96_mib_and_not_a_byte_more() {
    let server = Server::dev();
    let path = format!("/v1/codeq/tasks/{NOBODY}/result");
    let mut body = br#"{"status":"COMPLETED","result":{}}"#.to_vec();
    body.resize(96 << 20, b' ');
    let read = server.send(reqwest::Method::POST, &path, Some(DEV_TOKEN), Some(body)).await;
    assert_eq!((read.status, read.json["code"].as_str()), (404, Some("task_not_found")), "{}", read.text);
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {DEV_TOKEN}\r\n");
    let text = format!("{head}Content-Length: {}\r\n\r\n", (96 << 20) + 1);
    let refused = once(&server, text.as_bytes()).await.expect("an answer");
    refused.assert_error(413, "body_too_large", "one byte more");
    assert_serves(&server).await;
}

/// The most memory that the server has ever had.
fn highest(server: &Server) -> usize {
    strangers::status_bytes(server, "VmHWM:")
}

/// A list of nothings became sixteen bytes for each, and the keys of an object twenty-five and their text: one body of 96 MB
/// took a gigabyte.
#[tokio::test]
async fn long_lists_and_many_keys_take_little_more_than_their_text() {
    const BODY_BYTES: usize = 24 << 20;
    let server = Server::dev();
    let list = |name: &str, entry: &str| {
        let entries = vec![entry; BODY_BYTES / (entry.len() + 1)].join(",");
        format!("{{\"status\":\"COMPLETED\",\"{name}\":[{entries}]}}")
    };
    let keys: Vec<String> = (0..BODY_BYTES / 10).map(|n| format!("\"{n:06x}\":0")).collect();
    let result = format!("/v1/codeq/tasks/{NOBODY}/result");
    let results = "/v1/codeq/tasks/batch/results";
    for (path, body, text) in [
        (results, list("results", "0"), "batch size exceeds maximum of 100"),
        (results, list("results", "{}"), "batch size exceeds maximum of 100"),
        (&result, list("artifacts", "{}"), "invalid request body"),
        (results, format!("{{{}}}", keys.join(",")), "invalid body"),
    ] {
        let before = strangers::resident(&server);
        let reply = once(&server, &request("POST", path, &body)).await.expect("an answer");
        assert_eq!(reply.json()["error"], text, "{path} {:.40}", body);
        let grown = highest(&server).saturating_sub(before);
        assert!(grown < 150 << 20, "{} MB for {:.40}", grown >> 20, body);
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn a_payload_has_its_own_limit() {
    let server = Server::dev();
    let task = |bytes: usize| json!({"command": "big", "payload": "x".repeat(bytes - 2)});
    assert_eq!(server.post("/v1/codeq/tasks", DEV_TOKEN, task(1 << 20)).await.status, 202);
    let refused = server.post("/v1/codeq/tasks", DEV_TOKEN, task((1 << 20) + 1)).await;
    assert_eq!((refused.status, refused.json["code"].as_str()), (413, Some("payload_too_large")));
    let batch = json!({"tasks": [task((1 << 20) + 1), task(10)]});
    let mixed = server.post("/v1/codeq/tasks/batch", DEV_TOKEN, batch).await;
    assert_eq!((mixed.status, &mixed.json["results"][0]["code"]), (200, &json!("payload_too_large")));
    assert!(mixed.json["results"][1]["task"]["id"].is_string());
}
