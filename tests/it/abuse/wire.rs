//! A bare connection, for requests that no client library would send.

use crate::harness::Server;
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server that is silent for so long hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Wire {
    pub stream: TcpStream,
    read: Vec<u8>,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Everything up to the empty line.
    pub head: String,
    pub body: String,
}

impl Wire {
    pub async fn open(server: &Server) -> Wire {
        Wire::to(server.base.strip_prefix("http://").expect("the base is plain HTTP")).await
    }

    pub async fn to(address: &str) -> Wire {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        Wire { stream, read: Vec::new() }
    }

    /// Sends all of it unless the server closes; whether it did not.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        let sent = tokio::time::timeout(PATIENCE, self.stream.write_all(bytes)).await;
        sent.expect("the server reads or closes").is_ok()
    }

    /// The next answer; `None` if the server closes before it is complete.
    pub async fn reply(&mut self) -> Option<Reply> {
        let reply = tokio::time::timeout(PATIENCE, self.read_reply()).await;
        reply.expect("the server answers or closes")
    }

    async fn read_reply(&mut self) -> Option<Reply> {
        let end = self.read_until(|read| find(read, b"\r\n\r\n")).await? + 4;
        let head = String::from_utf8(self.read.drain(..end).collect()).expect("a head is text");
        let status = head.get(9..12).and_then(|digits| digits.parse().ok()).expect("a status line");
        let mut reply = Reply { status, head, body: String::new() };
        if status == 204 || status < 200 {
            return Some(reply);
        }
        let length = reply.header("content-length").and_then(|text| text.parse().ok());
        let length: usize = length.expect("answers tell their length");
        self.read_until(|read| (read.len() >= length).then_some(0)).await?;
        reply.body = String::from_utf8(self.read.drain(..length).collect()).expect("a body is text");
        Some(reply)
    }

    async fn read_until(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
        loop {
            if let Some(at) = found(&self.read) {
                return Some(at);
            }
            if self.stream.read_buf(&mut self.read).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// Reads and forgets until the server closes.
    pub async fn closed(&mut self) {
        let closed = async {
            let mut buffer = [0; 4096];
            while self.stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        };
        tokio::time::timeout(PATIENCE, closed).await.expect("the server closes");
    }

    /// Closes; whether something to read had arrived by then.
    pub fn vanish(self) -> bool {
        // Asked of the kernel itself: what the runtime knows is older.
        let stream = self.stream.into_std().expect("a socket");
        stream.peek(&mut [0]).is_ok_and(|read| read > 0)
    }
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// The body is an error in the documented form with this status and code.
    pub fn assert_error(&self, status: u16, code: &str, what: &str) {
        let json = self.json();
        assert_eq!((self.status, json["code"].as_str()), (status, Some(code)), "{what}: {self:?}");
        assert!(json["error"].as_str().is_some_and(|text| !text.is_empty()), "{what}: {self:?}");
        assert_eq!(json["requestId"].as_str(), self.header("x-request-id"), "{what}: {self:?}");
        assert_eq!(self.header("content-type"), Some("application/json; charset=utf-8"), "{what}");
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}
