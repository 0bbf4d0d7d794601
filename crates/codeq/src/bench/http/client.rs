//! A small HTTP/1.1 client for benches: one connection, one request at a time, as little work per request
//! as a client can do. The load shares the machine with the server, so what it spends is not measured.

use anyhow::{Context, bail};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Client {
    stream: TcpStream,
    /// What has been read and not been used.
    buffer: Vec<u8>,
    request: Vec<u8>,
    host: SocketAddr,
}

/// Status, head and body, in the client's buffer.
pub struct Response<'a> {
    pub status: u16,
    head: &'a [u8],
    pub body: &'a [u8],
}

impl Response<'_> {
    pub fn header(&self, wanted: &str) -> Option<&str> {
        let lines = std::str::from_utf8(self.head).ok()?.lines();
        let mut headers = lines.filter_map(|line| line.split_once(':'));
        headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    }
}

impl Client {
    pub async fn connect(host: SocketAddr) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(host).await.with_context(|| format!("cannot connect to {host}"))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, buffer: Vec::with_capacity(4096), request: Vec::with_capacity(2048), host })
    }

    pub async fn post(&mut self, path: &str, token: &str, body: &[u8]) -> anyhow::Result<Response<'_>> {
        self.ask("POST", path, token, body).await
    }

    pub async fn get(&mut self, path: &str, token: &str) -> anyhow::Result<Response<'_>> {
        self.ask("GET", path, token, b"").await
    }

    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &[u8],
    ) -> anyhow::Result<Response<'_>> {
        use std::io::Write;
        self.request.clear();
        write!(
            self.request,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.host,
            body.len(),
        )?;
        self.request.extend_from_slice(body);
        self.stream.write_all(&self.request).await?;
        self.read().await
    }

    async fn read(&mut self) -> anyhow::Result<Response<'_>> {
        self.buffer.clear();
        let head = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill().await?;
        };
        let (status, length) = parse_head(&self.buffer[..head])?;
        while self.buffer.len() < head + length {
            self.fill().await?;
        }
        Ok(Response { status, head: &self.buffer[..head], body: &self.buffer[head..head + length] })
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => bail!("the server closed the connection"),
            _ => Ok(()),
        }
    }
}

fn parse_head(head: &[u8]) -> anyhow::Result<(u16, usize)> {
    let head = std::str::from_utf8(head).context("the head is not text")?;
    let status = head.get(9..12).and_then(|status| status.parse().ok()).context("no status")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Ok((status, length.unwrap_or(0)))
}

/// The first string value of a key in a compact JSON text.
pub fn string_of<'a>(body: &'a [u8], key: &str) -> Option<&'a str> {
    let body = std::str::from_utf8(body).ok()?;
    let from = body.find(&format!("\"{key}\":\""))? + key.len() + 4;
    let length = body[from..].find('"')?;
    Some(&body[from..from + length])
}
