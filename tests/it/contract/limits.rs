//! How large bodies may be: http.md §1.

use super::{API, UNKNOWN_ID, dev_with, lawful, refused, running};
use crate::harness::{Answer, DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// `text` and so many spaces after it that the whole has `bytes`.
fn padded(text: &str, bytes: usize) -> String {
    format!("{text}{}", " ".repeat(bytes - text.len()))
}

async fn send(server: &Server, method: Method, path: &str, body: String) -> Answer {
    let path = format!("{API}{path}");
    let answer = server.send(method, &path, Some(DEV_TOKEN), Some(body.into_bytes())).await;
    lawful(&answer);
    answer
}

const POLICY: &str = r#"{"priorityTiers":[1],"maxAttempts":1,"deadLetterTopicRef":"d"}"#;
const MIB: usize = 1024 * 1024;

/// Every route with a body: method, path, a body that is accepted, the status of that.
fn routes(task: &str) -> Vec<(Method, String, &'static str, u16)> {
    let post = Method::POST;
    vec![
        (post.clone(), "/tasks".into(), r#"{"command":"c","payload":1}"#, 202),
        (post.clone(), "/tasks/batch".into(), r#"{"tasks":[{"command":"c"}]}"#, 200),
        (post.clone(), "/tasks/claim".into(), r#"{"commands":["none"]}"#, 204),
        (post.clone(), "/tasks/claim/batch".into(), r#"{"commands":["none"],"count":1}"#, 204),
        (post.clone(), format!("/tasks/{task}/heartbeat"), "{}", 200),
        (post.clone(), format!("/tasks/{UNKNOWN_ID}/abandon"), "{}", 404),
        (post.clone(), format!("/tasks/{UNKNOWN_ID}/nack"), "{}", 404),
        (post.clone(), "/workers/subscriptions".into(), r#"{"callbackUrl":"http://h/"}"#, 200),
        (post.clone(), format!("/workers/subscriptions/{UNKNOWN_ID}/heartbeat"), "{}", 404),
        (post, "/admin/tasks/cleanup".into(), "{}", 200),
    ]
}

#[tokio::test]
async fn a_body_may_have_as_many_bytes_as_configured() {
    let limits = json!({"maxBodyBytes": 2000, "maxPayloadBytes": 100, "maxSubmitBytes": 3000});
    let server = dev_with(json!({"limits": limits}));
    let task = running(&server, "lent", json!({})).await;
    for (method, path, body, status) in routes(&task) {
        let most = send(&server, method.clone(), &path, padded(body, 2000)).await;
        assert_eq!(most.status, status, "{path}: {}", most.text);
        let more = send(&server, method, &path, padded(body, 2001)).await;
        refused(&more, 413, "body_too_large", "request body too large");
    }
    let batch = format!(r#"{{"results":[{{"taskId":"{UNKNOWN_ID}","status":"FAILED","error":"e"}}]}}"#);
    let result = r#"{"status":"COMPLETED","result":{}}"#;
    for (path, body) in [("/tasks/batch/results".into(), &*batch), (format!("/tasks/{task}/result"), result)]
    {
        let more = send(&server, Method::POST, &path, padded(body, 3001)).await;
        refused(&more, 413, "body_too_large", "request body too large");
        let most = send(&server, Method::POST, &path, padded(body, 3000)).await;
        assert_eq!(most.status, 200, "{path}: {}", most.text);
    }
}

#[tokio::test]
async fn without_configuration_the_limits_are_those_of_the_contract() {
    let server = Server::memory();
    let task = running(&server, "lent", json!({})).await;
    let create = r#"{"command":"c","payload":1}"#;
    let topic = "/admin/topics/t";
    let result = r#"{"status":"COMPLETED","result":{}}"#;
    assert_eq!(send(&server, Method::POST, "/tasks", padded(create, 4 * MIB)).await.status, 202);
    assert_eq!(send(&server, Method::PUT, topic, padded(POLICY, MIB)).await.status, 201);
    for (method, path, body) in
        [(Method::POST, "/tasks", padded(create, 4 * MIB + 1)), (Method::PUT, topic, padded(POLICY, MIB + 1))]
    {
        refused(&send(&server, method, path, body).await, 413, "body_too_large", "request body too large");
    }
    let path = format!("/tasks/{task}/result");
    assert_eq!(send(&server, Method::POST, &path, padded(result, 5 * MIB)).await.status, 200);
    let declared = declare(&server, &format!("POST {API}{path}"), 96 * MIB + 1).await;
    assert!(declared.starts_with("HTTP/1.1 413 "), "{declared}");
}

#[tokio::test]
async fn a_payload_may_have_a_mebibyte_of_text() {
    let server = Server::memory();
    let body = |bytes: usize| format!(r#"{{"command":"c","payload":"{}"}}"#, "x".repeat(bytes - 2));
    assert_eq!(send(&server, Method::POST, "/tasks", body(MIB)).await.status, 202);
    let more = send(&server, Method::POST, "/tasks", body(MIB + 1)).await;
    refused(&more, 413, "payload_too_large", "payload too large");
    // What counts is the text that was sent, not what it stands for.
    let escaped = |bytes: usize| format!(r#"{{"command":"c","payload":"{}"}}"#, "\\u0078".repeat(bytes / 6));
    let more = send(&server, Method::POST, "/tasks", escaped(MIB + 6)).await;
    refused(&more, 413, "payload_too_large", "payload too large");
    let spaced = format!(r#"{{"command":"c","payload":[1{}]}}"#, " ".repeat(MIB));
    let more = send(&server, Method::POST, "/tasks", spaced).await;
    refused(&more, 413, "payload_too_large", "payload too large");
}

/// Sends a head that declares so many bytes of body, but no body and no token.
async fn declare(server: &Server, line: &str, bytes: usize) -> String {
    exchange(
        server,
        format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n").as_bytes(),
    )
    .await
}

/// The answer up to the end of the connection, or of its first packets.
async fn exchange(server: &Server, request: &[u8]) -> String {
    let address = server.base.strip_prefix("http://").expect("plain HTTP");
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(request).await.expect("the server reads");
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("\r\n\r\n") {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.expect("the server answers");
        assert!(count > 0, "closed without an answer");
        answer.extend_from_slice(&part[..count]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_declared_length_is_refused_before_anything_is_read_and_before_the_token() {
    let server = Server::memory();
    for (line, most) in [
        (format!("POST {API}/tasks"), 4 * MIB),
        (format!("POST {API}/tasks/claim"), 4 * MIB),
        (format!("PUT {API}/admin/topics/t"), MIB),
        (format!("POST {API}/tasks/batch/results"), 96 * MIB),
        (format!("GET {API}/raft/status"), 4 * MIB),
    ] {
        let answer = declare(&server, &line, most + 1).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{line}: {answer}");
        let answer = declare(&server, &line, most).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{line}: {answer}");
    }
}

#[tokio::test]
async fn a_body_without_a_declared_length_is_counted_as_it_comes() {
    let server = dev_with(json!({"limits": {"maxBodyBytes": 2000, "maxPayloadBytes": 100}}));
    for (size, status) in [(1900, 202), (2100, 413)] {
        let body = padded(r#"{"command":"c","payload":1}"#, size);
        let (first, second) = body.split_at(1000);
        let request = format!(
            "POST {API}/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {DEV_TOKEN}\r\n\
             Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
            first.len(),
            second.len(),
        );
        let answer = exchange(&server, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

/// A client that was still sending used to be cut off before it could read why.
#[tokio::test]
async fn a_client_that_is_still_sending_gets_its_refusal() {
    let server = Server::memory();
    for (path, token, status) in [
        ("/v1/codeq/tasks", DEV_TOKEN, 413),
        ("/v1/codeq/tasks/claim", DEV_TOKEN, 413),
        ("/v1/codeq/tasks/batch/results", "wrong", 401),
        ("/v1/codeq/nope", DEV_TOKEN, 404),
        ("/healthz", DEV_TOKEN, 405),
    ] {
        for _ in 0..5 {
            let body = vec![b' '; 24 * MIB];
            let got = server.send(Method::POST, path, Some(token), Some(body)).await;
            assert_eq!(got.status, status, "{path}");
        }
    }
    let expect = format!("POST {API}/tasks HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n");
    let answer = exchange(&server, format!("{expect}Content-Length: {}\r\n\r\n", 5 * MIB).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "nobody is told to go on: {answer}");
}
