//! Callers without a token, many and large: what they announce is not kept for them, and nobody waits for
//! them.

use super::wire::Wire;
use crate::harness::{DEV_TOKEN, FILES, Server, answer};
use crate::streams;
use crate::streams::talk::Worker;
use serde_json::json;
use std::time::{Duration, Instant};

/// Bytes that the process has in memory.
pub fn resident(server: &Server) -> usize {
    status_bytes(server, "VmRSS:")
}

/// What the system says of the server's memory under this name.
pub fn status_bytes(server: &Server, name: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of it");
    let kilobytes = line.trim().strip_suffix("kB").expect("kilobytes").trim().parse::<usize>();
    kilobytes.expect("a number") * 1024
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("small frames");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The head of a request for a worker's stream.
fn head() -> Vec<u8> {
    let mut head = vec![0x83, 0x86];
    let fields: [(&[u8], &str); 4] = [
        (&[0x04], "/workerpb.WorkerStream/Stream"),
        (&[0x01], "h"),
        (&[0x0f, 0x10], "application/grpc"),
        (b"\x00\x02te", "trailers"),
    ];
    for (name, value) in fields {
        head.extend_from_slice(name);
        head.push(u8::try_from(value.len()).expect("short values"));
        head.extend_from_slice(value.as_bytes());
    }
    head
}

/// A connection with so many streams, each of which begins a message that it says has `bytes` bytes.
async fn half_open(address: &str, streams: u32, bytes: u32) -> Wire {
    let mut wire = Wire::to(address.strip_prefix("http://").expect("plain HTTP")).await;
    let mut text = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    text.extend(frame(4, 0, 0, &[]));
    for number in 0..streams {
        text.extend(frame(1, 4, 2 * number + 1, &head()));
        let [a, b, c, d] = bytes.to_be_bytes();
        text.extend(frame(0, 0, 2 * number + 1, &[0, a, b, c, d]));
    }
    wire.send(&text).await;
    wire
}

/// Every stream that said that its first message would have 16 MiB got these before a byte of them had come:
/// 8,000 streams on two connections were 3.8 GB.
#[tokio::test]
async fn nothing_is_kept_for_what_a_stream_announces_before_its_hello() {
    let server = streams::server();
    let before = resident(&server);
    let mut wires = Vec::new();
    for _ in 0..4 {
        wires.push(half_open(&server.worker_streams, 400, 16 << 20).await);
    }
    let mut worker = Worker::of(&server, "w", "w-1").await;
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes for streams of strangers");
    worker.ready(&["c"], 1).await;
    let created = server.post("/v1/codeq/tasks", "p", json!({"command": "c", "payload": 1})).await;
    assert_eq!(created.status, 202);
    assert_eq!(worker.task().await.command, "c");
}

/// A connection on which nobody is known is read for as much as a Hello may take and no further, however many
/// streams there are on it and whatever they send.
#[tokio::test]
async fn what_strangers_send_without_a_hello_stays_with_the_system() {
    let server = streams::server();
    let before = resident(&server);
    let mut wires = Vec::new();
    for _ in 0..50 {
        // Less than a Hello may have, so that nothing is refused before it is whole.
        let mut wire = half_open(&server.worker_streams, 40, 60_000).await;
        let piece: Vec<u8> = (0..40).flat_map(|number| frame(0, 0, 2 * number + 1, &[0; 15_000])).collect();
        let _ = tokio::time::timeout(Duration::from_millis(50), wire.send(&piece)).await;
        wires.push(wire);
    }
    let grown = resident(&server).saturating_sub(before);
    // 50 connections, 40 streams, 15,000 bytes are 30 MB of bytes alone if they are read.
    assert!(grown < 100 << 20, "{grown} bytes for 50 connections of strangers");
    Worker::of(&server, "w", "w-1").await;
}

/// Connections that do nothing held all seats of a listener, and whoever came had to wait until they were given
/// up: 115 s for `/livez`. Seats were counted for each listener, so that those of two of them were more than there
/// are file handles, and the store had none: creates got 503.
#[tokio::test]
async fn idle_connections_of_strangers_keep_nobody_waiting_and_no_files_from_the_store() {
    let server = Server::serve_in(vec![(FILES, "700".into())], streams::config());
    let mut idle = Vec::new();
    for address in [&server.base, &server.worker_streams, &server.producer_streams] {
        for _ in 0..400 {
            let open = Wire::to(address.strip_prefix("http://").expect("plain HTTP"));
            idle.extend(tokio::time::timeout(Duration::from_secs(2), open).await);
        }
    }
    let started = Instant::now();
    assert_eq!(server.get("/livez", "").await.status, 200);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    for number in 0..50 {
        // A new connection each, as those who come late have.
        let task = json!({"command": "c", "payload": number});
        let request = server.request(reqwest::Method::POST, "/v1/codeq/tasks").bearer_auth("p");
        let created = answer(request.header("Connection", "close").body(task.to_string())).await;
        assert_eq!(created.status, 202, "{}", created.text);
    }
    Worker::of(&server, "w", "w-1").await;
}

/// A page of another site can give itself a name that leads to 127.0.0.1, and ask us in that name for the
/// token that `codeq dev` tells everyone.
#[tokio::test]
async fn a_development_server_answers_to_its_own_names_only() {
    let server = Server::memory();
    for (host, status) in [
        ("localhost", 200),
        ("localhost:8080", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:80", 403),
    ] {
        for path in ["/ui/config.json", "/livez", "/v1/codeq/raft/status"] {
            let text =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {DEV_TOKEN}\r\n\r\n");
            let reply = super::once(&server, text.as_bytes()).await.expect("an answer");
            assert_eq!(reply.status, status, "{host} {path}");
            if status == 403 {
                reply.assert_error(403, "host_not_allowed", host);
                assert!(!reply.body.contains(DEV_TOKEN));
            }
        }
    }
}
