//! Senders that take their time. All at once, because each takes seconds.

use super::assert_serves;
use super::wire::Wire;
use crate::harness::{DEV_TOKEN, Server};
use std::time::{Duration, Instant};

async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Sends one byte after the other until the server closes; how long that took.
async fn trickle(mut wire: Wire, text: &[u8], millis: u64) -> Duration {
    let started = Instant::now();
    let (mut read, mut write) = wire.stream.split();
    let send = async {
        for byte in text {
            if tokio::io::AsyncWriteExt::write_all(&mut write, &[*byte]).await.is_err() {
                break;
            }
            pause(millis).await;
        }
        std::future::pending::<()>().await
    };
    let closed = async {
        let mut buffer = [0; 4096];
        while tokio::io::AsyncReadExt::read(&mut read, &mut buffer).await.is_ok_and(|read| read > 0) {}
    };
    tokio::select! {
        () = send => {}
        () = closed => {}
        () = pause(25_000) => {}
    }
    started.elapsed()
}

async fn head_that_trickles(server: &Server) {
    let text = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(200));
    let took = trickle(Wire::open(server).await, text.as_bytes(), 200).await;
    assert!((4.0..8.0).contains(&took.as_secs_f64()), "a trickling head was cut after {took:?}");
}

async fn silence(server: &Server) {
    let took = trickle(Wire::open(server).await, b"", 0).await;
    assert!((4.0..8.0).contains(&took.as_secs_f64()), "a silent connection was cut after {took:?}");
}

/// The clock of the head starts with its first byte, not with the connection or the answer before.
async fn second_head_that_trickles(server: &Server) {
    let mut wire = Wire::open(server).await;
    wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(wire.reply().await.expect("an answer").status, 200);
    pause(1500).await;
    let text = format!("GET /livez HTTP/1.1\r\nX: {}", "x".repeat(200));
    let took = trickle(wire, text.as_bytes(), 200).await;
    assert!((4.0..8.0).contains(&took.as_secs_f64()), "a second head was cut after {took:?}");
}

/// The beginning of a second head that comes along with the first request; its next byte starts the clock.
async fn half_a_head_behind_a_whole_one(server: &Server) {
    let mut wire = Wire::open(server).await;
    wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTT").await;
    assert_eq!(wire.reply().await.expect("an answer").status, 200);
    let took = trickle(wire, &[b'x'; 200], 200).await;
    assert!((4.0..8.0).contains(&took.as_secs_f64()), "half a head was cut after {took:?}");
}

async fn idle_connection(server: &Server) {
    let mut wire = Wire::open(server).await;
    for _ in 0..2 {
        wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(wire.reply().await.expect("an idle connection is kept").status, 200);
        pause(6500).await;
    }
    wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(wire.reply().await.expect("an idle connection is kept").status, 200);
}

async fn body_that_trickles(server: &Server, framing: &str, text: &[u8]) {
    let mut wire = Wire::open(server).await;
    let head =
        format!("POST /v1/codeq/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {DEV_TOKEN}\r\n");
    wire.send(format!("{head}{framing}\r\n\r\n").as_bytes()).await;
    let took = trickle(wire, text, 1000).await;
    assert!((8.0..15.0).contains(&took.as_secs_f64()), "a trickling body was cut after {took:?}");
}

/// A body that nobody reads must not hold the connection either.
async fn refused_body_that_trickles(server: &Server) {
    let mut wire = Wire::open(server).await;
    wire.send(b"POST /v1/codeq/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n").await;
    let took = trickle(wire, &[b' '; 40], 500).await;
    assert!(took.as_secs_f64() < 15.0, "an unread body was cut after {took:?}");
}

/// Asks for megabytes and takes none of them.
async fn reader_that_does_not_read(server: &Server) {
    let wire = Wire::open(server).await;
    let asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(400);
    let started = Instant::now();
    // The server stops reading too, so what does not fit now may never fit.
    let _ = wire.stream.try_write(&asked);
    while !is_reset(&wire) {
        pause(100).await;
        assert!(
            started.elapsed() < Duration::from_secs(25),
            "an answer that is not taken holds its connection"
        );
    }
    let took = started.elapsed();
    assert!(took > Duration::from_secs(12), "an answer that is not taken was cut after {took:?}");
}

fn is_reset(wire: &Wire) -> bool {
    match wire.stream.try_write(b"\r\n") {
        Ok(_) => false,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// A claim that waits longer than any head may take.
async fn long_poll(server: &Server) {
    let mut wire = Wire::open(server).await;
    let body = r#"{"commands":["slow"],"waitSeconds":7}"#;
    wire.send(&super::request("POST", "/v1/codeq/tasks/claim", body)).await;
    let started = Instant::now();
    assert_eq!(wire.reply().await.expect("a held claim is answered").status, 204);
    let took = started.elapsed().as_secs_f64();
    assert!((6.9..7.6).contains(&took), "{took}");
}

#[tokio::test]
async fn slow_senders_are_cut_off_and_patient_ones_are_not() {
    let server = Server::dev();
    let spaces = [b' '; 60];
    tokio::join!(
        head_that_trickles(&server),
        silence(&server),
        second_head_that_trickles(&server),
        half_a_head_behind_a_whole_one(&server),
        idle_connection(&server),
        body_that_trickles(&server, "Content-Length: 100", &spaces),
        body_that_trickles(
            &server,
            "Transfer-Encoding: chunked",
            b"1\r\n \r\n1\r\n \r\n1\r\n \r\n1\r\n \r\n"
        ),
        body_that_trickles(&server, "Content-Length: 100", b""),
        refused_body_that_trickles(&server),
        reader_that_does_not_read(&server),
        long_poll(&server),
    );
    assert_serves(&server).await;
}
