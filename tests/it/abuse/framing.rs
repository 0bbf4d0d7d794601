//! Requests at the edges of HTTP/1.1 and beyond them.

use super::wire::Wire;
use super::{assert_serves, once, request};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::json;

const AUTH: &str = "Host: localhost\r\nAuthorization: Bearer dev-token";

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::dev();
    let mut wire = Wire::open(&server).await;
    let mut text = Vec::new();
    for n in 0..50 {
        text.extend(request("POST", "/v1/codeq/tasks", &format!(r#"{{"command":"pipe","payload":{n}}}"#)));
    }
    text.extend(request("POST", "/v1/codeq/tasks/claim/batch", r#"{"commands":["pipe"],"count":100}"#));
    text.extend(request("POST", "/v1/codeq/tasks", "{"));
    text.extend(request("GET", "/livez", ""));
    wire.send(&text).await;
    for n in 0..50 {
        let reply = wire.reply().await.expect("an answer");
        assert_eq!((reply.status, &reply.json()["payload"]), (202, &json!(n.to_string())));
    }
    let claimed = wire.reply().await.expect("an answer").json();
    let tasks = claimed["tasks"].as_array().expect("a list");
    let payloads: Vec<String> =
        tasks.iter().map(|task| task["payload"].as_str().unwrap_or("").into()).collect();
    assert_eq!(payloads, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
    wire.reply().await.expect("an answer").assert_error(400, "invalid_body", "a bad one among good ones");
    assert_eq!(wire.reply().await.expect("an answer").status, 200);
}

#[tokio::test]
async fn http_1_0_is_served() {
    let server = Server::dev();
    let body = r#"{"command":"old","payload":1}"#;
    let head = format!("POST /v1/codeq/tasks HTTP/1.0\r\nAuthorization: Bearer {DEV_TOKEN}");
    let text = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut wire = Wire::open(&server).await;
    wire.send(text.as_bytes()).await;
    assert_eq!(wire.reply().await.expect("an answer").status, 202);
    wire.closed().await;
    let bare = once(&server, b"GET /livez HTTP/1.0\r\n\r\n").await.expect("an answer");
    assert_eq!(bare.status, 200);
}

/// Two readings of where a request ends: never two requests, whoever is right.
#[tokio::test]
async fn a_request_with_two_ends_smuggles_nothing() {
    let server = Server::dev();
    let inner = r#"{"command":"smuggled","payload":1}"#;
    let hidden =
        format!("POST /v1/codeq/tasks HTTP/1.1\r\n{AUTH}\r\nContent-Length: {}\r\n\r\n{inner}", inner.len());
    let long = hidden.len() + 5;
    let framings = [
        format!("Content-Length: {long}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {long}\r\n\r\n0\r\n\r\n"),
        format!("Content-Length: 0\r\nContent-Length: {long}\r\n\r\n"),
        format!("Content-Length: {long}\r\nContent-Length: 0\r\n\r\n"),
        format!("Content-Length: 0, {long}\r\n\r\n"),
        "Content-Length: +0\r\n\r\n".into(),
        "Content-Length: -1\r\n\r\n".into(),
        "Content-Length: 0x0\r\n\r\n".into(),
        "Content-Length: 99999999999999999999\r\n\r\n".into(),
        "Content-Length : 0\r\n\r\n".into(),
        "Transfer-Encoding: identity\r\n\r\n".into(),
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n".into(),
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n".into(),
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n".into(),
        "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(),
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n".into(),
        "Transfer-Encoding: chunked\r\n\r\n-1\r\n".into(),
        "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n".into(),
        "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n".into(),
        "Transfer-Encoding: chunked\r\n\r\n1;a=\"\n\"\r\n \r\n0\r\n\r\n".into(),
    ];
    for framing in framings {
        let mut wire = Wire::open(&server).await;
        wire.send(format!("POST /v1/codeq/tasks HTTP/1.1\r\n{AUTH}\r\n{framing}{hidden}").as_bytes()).await;
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut wire.stream).await;
        while let Some(reply) = wire.reply().await {
            assert!(matches!(reply.status, 202 | 400 | 413 | 431 | 501), "{framing:?}: {reply:?}");
            // A reader that stops at the first end takes the rest as the next request, and so may we;
            // but then the framing has to have had one meaning only.
            assert!(reply.status != 202 || !is_ambiguous(&framing), "{framing:?} smuggled a request");
        }
    }
    assert_serves(&server).await;
}

fn is_ambiguous(framing: &str) -> bool {
    framing != "Content-Length: 0\r\n\r\n"
}

#[tokio::test]
async fn bad_request_lines_and_headers_are_refused() {
    let server = Server::dev();
    let texts: Vec<Vec<u8>> = vec![
        b"\0\0\0\0\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET /livez\r\n\r\n".to_vec(),
        b"GET  /livez HTTP/1.1\r\n\r\n".to_vec(),
        b"GET /li vez HTTP/1.1\r\n\r\n".to_vec(),
        b"GET /livez HTTP/9.9\r\n\r\n".to_vec(),
        b"GET /livez http/1.1\r\n\r\n".to_vec(),
        b"GET /livez\0 HTTP/1.1\r\n\r\n".to_vec(),
        b"G\xffT /livez HTTP/1.1\r\n\r\n".to_vec(),
        b"GET /livez HTTP/1.1\r\nX: a\0b\r\n\r\n".to_vec(),
        b"GET /livez HTTP/1.1\r\nX: a\rb\r\n\r\n".to_vec(),
        b"GET /livez HTTP/1.1\r\nX\0: a\r\n\r\n".to_vec(),
        b"GET /livez HTTP/1.1\r\nX Y: a\r\n\r\n".to_vec(),
        b"GET /livez HTTP/1.1\r\n: a\r\n\r\n".to_vec(),
        b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n".to_vec(),
        b"GET /livez HTTP/1.1\r\n folded: a\r\n\r\n".to_vec(),
        b"GET /livez HTTP/1.1\r\nX: a\r\n b\r\n\r\n".to_vec(),
    ];
    for text in texts {
        let reply = once(&server, &text).await;
        let shown = String::from_utf8_lossy(&text);
        let Some(reply) = reply else { continue };
        assert_eq!(reply.status, 400, "{shown:?}: {reply:?}");
    }
    let bare = once(&server, b"GET /livez HTTP/1.1\nHost: localhost\n\n").await;
    assert!(bare.is_none_or(|reply| matches!(reply.status, 200 | 400)));
    let bytes = once(&server, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: \xff\xfe\r\n\r\n")
        .await
        .expect("an answer");
    assert_eq!(bytes.status, 200);
    let raw = once(&server, b"GET /v1/codeq/tasks/\xc3\xbc HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .expect("an answer");
    assert!(matches!(raw.status, 400 | 401), "{raw:?}");
    assert_serves(&server).await;
}

#[tokio::test]
async fn unusual_methods_and_targets_are_answered() {
    let server = Server::dev();
    let cases = [
        ("GET http://elsewhere/livez HTTP/1.1", 200),
        ("GET http://elsewhere/livez/ HTTP/1.1", 200),
        ("GET http://elsewhere HTTP/1.1", 404),
        ("GET //livez HTTP/1.1", 404),
        ("GET /livez// HTTP/1.1", 404),
        ("GET /livez/ HTTP/1.1", 200),
        ("GET /livez/?x HTTP/1.1", 200),
        ("GET /LIVEZ HTTP/1.1", 404),
        ("GET /%6civez HTTP/1.1", 404),
        ("GET /x/../livez HTTP/1.1", 404),
        ("GET /livez#x HTTP/1.1", 200),
        ("GET ? HTTP/1.1", 404),
        ("GET livez HTTP/1.1", 404),
        ("OPTIONS * HTTP/1.1", 404),
        ("OPTIONS /livez HTTP/1.1", 405),
        ("TRACE /livez HTTP/1.1", 405),
        ("PATCH /livez HTTP/1.1", 405),
        ("DELETE /v1/codeq/tasks HTTP/1.1", 405),
        ("BREW /livez HTTP/1.1", 405),
        ("get /livez HTTP/1.1", 405),
        ("CONNECT elsewhere:443 HTTP/1.1", 404),
        ("CONNECT /livez HTTP/1.1", 405),
        ("POST /v1/codeq/tasks/batch/results/ HTTP/1.1", 401),
        ("GET / HTTP/1.1", 404),
    ];
    for (line, status) in cases {
        let reply = once(&server, format!("{line}\r\nHost: localhost\r\n\r\n").as_bytes()).await;
        // A target that is none may be refused as one.
        let status_of = reply.as_ref().map_or(400, |reply| reply.status);
        let is_strange = line.contains("GET ?") || line.starts_with("CONNECT /") || line.contains('#');
        assert!(status_of == status || is_strange && matches!(status_of, 400 | 404), "{line}: {reply:?}");
        let Some(reply) = reply.filter(|reply| matches!(reply.status, 404 | 405)) else { continue };
        let code = if reply.status == 404 { "route_not_found" } else { "method_not_allowed" };
        reply.assert_error(reply.status, code, line);
        let allow = reply.header("allow");
        assert_eq!(
            allow.is_some_and(|methods| !methods.is_empty()),
            reply.status == 405,
            "{line}: {reply:?}"
        );
    }
    let head = once(&server, b"HEAD /livez HTTP/1.0\r\n\r\n").await;
    assert!(head.is_none_or(|reply| reply.status == 200), "a HEAD has no body");
    assert_serves(&server).await;
}

#[tokio::test]
async fn only_a_proper_request_id_is_echoed() {
    let server = Server::dev();
    let ask = async |id: &str| {
        let text = format!("GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {id}\r\n\r\n");
        let reply = once(&server, text.as_bytes()).await.expect("an answer");
        reply.assert_error(404, "route_not_found", id);
        reply.header("x-request-id").unwrap_or_default().to_owned()
    };
    let longest = "r".repeat(128);
    for proper in ["a", "<script>\"\\'{}", "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11", &longest] {
        assert_eq!(ask(proper).await, proper);
    }
    let too_long = "r".repeat(129);
    for improper in ["", " ", "a b", "a\tb", "\u{fc}", &too_long, "\x7f"] {
        let text = format!("GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {improper}\r\n\r\n");
        let Some(reply) = once(&server, text.as_bytes()).await.filter(|reply| reply.status != 400) else {
            continue;
        };
        let id = reply.header("x-request-id").unwrap_or_default();
        assert!(
            id.len() == 32 && id.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')),
            "{improper:?}: {id}"
        );
    }
}

/// Half a request, then nothing: the connection is the client's loss only.
#[tokio::test]
async fn connections_that_break_off_anywhere_leave_nothing_behind() {
    let server = Server::dev();
    let text = request("POST", "/v1/codeq/tasks", r#"{"command":"broken","payload":{"n":1}}"#);
    for cut in 0..text.len() {
        let mut wire = Wire::open(&server).await;
        wire.send(&text[..cut]).await;
    }
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["broken"]})).await;
    assert_eq!(claimed.status, 204, "{}", claimed.text);
    assert_serves(&server).await;
}
