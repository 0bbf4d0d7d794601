//! Too many headers, and too much of them.

use super::wire::{Reply, Wire};
use super::{assert_serves, once};
use crate::harness::Server;

async fn refused(server: &Server, text: String, statuses: &[u16]) -> Option<Reply> {
    let reply = once(server, text.as_bytes()).await;
    if let Some(reply) = &reply {
        assert!(statuses.contains(&reply.status), "{reply:?}");
    }
    reply
}

#[tokio::test]
async fn floods_of_headers_are_refused_and_nobody_else_notices() {
    let server = Server::dev();
    let mut bystander = Wire::open(&server).await;
    let lines = |count: usize, bytes: usize| {
        (0..count).map(|n| format!("X-{n}: {}\r\n", "x".repeat(bytes))).collect::<String>()
    };
    let head = |lines: String| format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
    let few = once(&server, head(lines(90, 10)).as_bytes()).await.expect("an answer");
    assert_eq!(few.status, 200);
    let many = refused(&server, head(lines(200, 1)), &[431]).await;
    assert_eq!(many.expect("an answer").status, 431);
    for flood in [lines(10_000, 1), lines(1, 1 << 20), lines(64, 16 << 10), "x".repeat(1 << 20)] {
        refused(&server, head(flood), &[400, 431]).await;
    }
    // Without an end it must not be kept either.
    refused(&server, format!("GET /livez HTTP/1.1\r\nX: {}", "x".repeat(8 << 20)), &[431]).await;
    refused(&server, "x".repeat(8 << 20), &[400, 431]).await;
    refused(&server, "\r\n".repeat(1 << 20), &[400, 431]).await;
    bystander.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(bystander.reply().await.expect("an answer").status, 200);
    assert_serves(&server).await;
}

#[tokio::test]
async fn long_paths_and_queries_are_answered() {
    let server = Server::dev();
    for bytes in [1 << 10, 8 << 10, 32 << 10, 60 << 10] {
        let long = "a".repeat(bytes);
        let get = |target: String| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let path = once(&server, get(format!("/{long}")).as_bytes()).await.expect("an answer");
        path.assert_error(404, "route_not_found", "a long path");
        let query = once(&server, get(format!("/livez?{long}")).as_bytes()).await.expect("an answer");
        assert_eq!(query.status, 200);
        let deep = once(&server, get("/a".repeat(bytes / 2)).as_bytes()).await.expect("an answer");
        deep.assert_error(404, "route_not_found", "a deep path");
    }
    for bytes in [64 << 10, 66_000, 128 << 10, 1 << 20] {
        let text = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(bytes));
        refused(&server, text, &[414, 431]).await;
    }
    assert_serves(&server).await;
}
