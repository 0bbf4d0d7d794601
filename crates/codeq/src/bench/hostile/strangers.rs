//! Strangers: connections that are silent, heads that trickle, bodies without a token, streams without a Hello
//! that announce much.

use super::Target;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Streams that each connection for streams opens.
const STREAMS: u32 = 20;

pub fn attack(target: &Target, connections: usize, over: &CancellationToken) -> anyhow::Result<JoinSet<()>> {
    let mut attack = JoinSet::new();
    let (http, streams) = (target.http(), target.worker()?);
    for number in 0..connections {
        let over = over.clone();
        attack.spawn(async move {
            over.run_until_cancelled(come_again(number, http, streams)).await;
        });
    }
    Ok(attack)
}

async fn come_again(number: usize, http: SocketAddr, streams: SocketAddr) {
    // Not all in one instant.
    tokio::time::sleep(Duration::from_micros(number as u64 * 200)).await;
    loop {
        let _ = stay(number, http, streams).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn stay(number: usize, http: SocketAddr, streams: SocketAddr) -> std::io::Result<()> {
    match number % 4 {
        0 => {
            let stream = TcpStream::connect(http).await?;
            stream.readable().await
        }
        1 => {
            let mut stream = TcpStream::connect(http).await?;
            stream.write_all(format!("GET /livez HTTP/1.1\r\nX: {}", "x".repeat(30_000)).as_bytes()).await?;
            for _ in 0..20 {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        }
        2 => {
            let mut stream = TcpStream::connect(http).await?;
            let head = "POST /v1/codeq/tasks HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&[b' '; 100_000]).await?;
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(())
        }
        _ => {
            let mut stream = TcpStream::connect(streams).await?;
            stream.write_all(&half_open(STREAMS)).await?;
            tokio::time::sleep(Duration::from_secs(8)).await;
            Ok(())
        }
    }
}

/// So many streams of a worker, each of which begins a first message of 16 MiB or of just what a Hello may have.
fn half_open(streams: u32) -> Vec<u8> {
    let mut text = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut text, 4, 0, 0, &[]);
    let path = b"/workerpb.WorkerStream/Stream";
    let mut head = vec![0x83, 0x86, 0x04, 29];
    head.extend_from_slice(path);
    head.extend_from_slice(b"\x01\x01h\x0f\x10\x10application/grpc\x00\x02te\x08trailers");
    for number in 0..streams {
        let announced: u32 = if number % 2 == 0 { 16 << 20 } else { 60_000 };
        let [a, b, c, d] = announced.to_be_bytes();
        frame(&mut text, 1, 4, 2 * number + 1, &head);
        frame(&mut text, 0, 0, 2 * number + 1, &[0, a, b, c, d]);
    }
    text
}

fn frame(text: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    text.extend(length);
    text.extend([kind, flags]);
    text.extend(stream.to_be_bytes());
    text.extend_from_slice(payload);
}
