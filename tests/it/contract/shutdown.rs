//! The end of a server: http.md §1.

use super::{API, create, get, id};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a request that the server will hold, on a connection that it already serves.
async fn hold(server: &Server, line: &str, body: &str) -> TcpStream {
    let address = server.base.strip_prefix("http://").expect("plain HTTP");
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("the server reads");
    let mut answer = Vec::new();
    while !answer.ends_with(br#"{"status":"ok"}"#) {
        assert!(stream.read_buf(&mut answer).await.expect("the server answers") > 0, "closed");
    }
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {DEV_TOKEN}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    // While this is made durable the other is read.
    create(server, json!({"command": "meanwhile", "payload": 1})).await;
    stream
}

/// All that comes until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server closes in good order");
    answer
}

#[tokio::test]
async fn held_polls_are_answered_empty_at_once_and_the_process_ends_well() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::dev();
        let task = id(&create(&server, json!({"command": "c", "payload": 1})).await);
        let body = json!({"commands": ["none"], "waitSeconds": 30}).to_string();
        let claim = hold(&server, &format!("POST {API}/tasks/claim"), &body).await;
        let read = hold(&server, &format!("GET {API}/tasks/{task}/result?waitSeconds=60"), "").await;
        let started = Instant::now();
        server.signal(signal);
        let (claim, read) = (rest(claim).await, rest(read).await);
        assert!(claim.starts_with("HTTP/1.1 204 "), "{signal}: {claim}");
        assert!(read.starts_with("HTTP/1.1 404 "), "{signal}: {read}");
        assert!(
            read.contains(r#"{"error":"result not found","code":"result_not_found","#),
            "{signal}: {read}"
        );
        assert_eq!(server.wait().code(), Some(0), "{signal}");
        assert!(started.elapsed() < Duration::from_secs(20), "{signal}: {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn idle_connections_do_not_hold_the_server_up() {
    let mut server = Server::dev();
    get(&server, "/raft/status").await;
    let address = server.base.strip_prefix("http://").expect("plain HTTP").to_owned();
    let _silent = TcpStream::connect(&address).await.expect("the server listens");
    let started = Instant::now();
    assert_eq!(server.terminate().code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(TcpStream::connect(&address).await.is_err(), "nobody listens any more");
}
