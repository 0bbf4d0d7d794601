//! An HTTP server that answers what a test tells it to, and remembers what it was asked.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// With its query.
    pub path: String,
    pub authorization: String,
    pub headers: Vec<String>,
    pub body: String,
}

impl Asked {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

type Answers = dyn Fn(&Asked) -> (u16, String) + Send + Sync;

pub struct StandIn {
    pub base: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl StandIn {
    /// Answers every request by `answers` for as long as the process lives.
    pub fn start(answers: impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static) -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("it listens"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answers, log): (Arc<Answers>, _) = (Arc::new(answers), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, log) = (answers.clone(), log.clone());
                std::thread::spawn(move || answer(stream, &*answers, &log));
            }
        });
        StandIn { base, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no one panics holding it").clone()
    }
}

fn answer(stream: TcpStream, answers: &Answers, log: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
    let Some(asked) = read(&mut reader) else { return };
    let (status, body) = answers(&asked);
    log.lock().expect("no one panics holding it").push(asked);
    let mut stream = stream;
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Told\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let _ = stream.write_all((head + &body).as_bytes());
}

fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => break,
            header => headers.push(header.to_owned()),
        }
    }
    let find = |name: &str| {
        let found = headers.iter().filter_map(|header| header.split_once(": "));
        found.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let mut body = vec![0; find("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let authorization = find("authorization").unwrap_or_default();
    Some(Asked { method, path, authorization, headers, body: String::from_utf8(body).ok()? })
}
