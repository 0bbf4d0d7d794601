//! A small HTTP server that remembers what it was sent.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// The answer that never comes.
pub const SILENCE: u16 = 0;

#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
    pub json: Value,
    pub at: Instant,
    /// What it was answered.
    pub status: u16,
}

/// The status for what has come, given all that came before.
type Rule = dyn Fn(&Received, &[Received]) -> u16 + Send + Sync;

pub struct Receiver {
    pub url: String,
    received: Arc<Mutex<Vec<Received>>>,
    arrived: Arc<Notify>,
}

impl Receiver {
    pub async fn start(rule: impl Fn(&Received, &[Received]) -> u16 + Send + Sync + 'static) -> Receiver {
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a free port");
        let url = format!("http://127.0.0.1:{}/hook", listener.local_addr().expect("bound").port());
        let receiver = Receiver { url, received: Arc::default(), arrived: Arc::default() };
        let (received, arrived) = (receiver.received.clone(), receiver.arrived.clone());
        let rule: Arc<Rule> = Arc::new(rule);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, received.clone(), arrived.clone(), rule.clone()));
            }
        });
        receiver
    }

    pub async fn ok() -> Receiver {
        Receiver::start(|_, _| 204).await
    }

    pub fn at(&self, path: &str) -> String {
        self.url.replace("/hook", path)
    }

    pub fn all(&self) -> Vec<Received> {
        self.received.lock().expect("no one panics holding it").clone()
    }

    /// Everything, as soon as it is enough.
    pub async fn until(&self, is_enough: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        let waiting = async {
            loop {
                let arrived = self.arrived.notified();
                if is_enough(&self.received.lock().expect("no one panics holding it")) {
                    return self.all();
                }
                arrived.await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("not enough came: {} messages", self.all().len()))
    }

    pub async fn count(&self, count: usize) -> Vec<Received> {
        self.until(|all| all.len() >= count).await
    }
}

async fn serve(
    mut stream: TcpStream,
    received: Arc<Mutex<Vec<Received>>>,
    arrived: Arc<Notify>,
    rule: Arc<Rule>,
) {
    let mut buffer = Vec::new();
    while let Some(mut message) = read(&mut stream, &mut buffer).await {
        let status = {
            let mut all = received.lock().expect("no one panics holding it");
            message.status = rule(&message, &all);
            all.push(message.clone());
            message.status
        };
        arrived.notify_waiters();
        if status == SILENCE {
            let _ = stream.read(&mut [0; 1]).await;
            return;
        }
        let body = if status == 204 { String::new() } else { format!("said {status}") };
        let answer = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Received> {
    loop {
        if let Some((message, length)) = parse(buffer) {
            buffer.drain(..length);
            return Some(message);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

fn parse(buffer: &[u8]) -> Option<(Received, usize)> {
    let head_end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&buffer[..head_end]).expect("heads are text");
    let mut lines = head.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length")?.parse().expect("a number");
    let end = head_end + 4 + length;
    let body = String::from_utf8(buffer.get(head_end + 4..end)?.to_vec()).expect("bodies are text");
    let json = serde_json::from_str(&body).expect("bodies are JSON");
    Some((Received { path, headers, body, json, at: Instant::now(), status: SILENCE }, end))
}
