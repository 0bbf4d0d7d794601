//! The hostile tenant: everything at once that its rights allow. Each attack rests a little, so that it is the
//! server that is measured and not the attacker.

use super::super::http::client::{Client, string_of};
use super::{HOSTILE, Target, ask};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// An id that names no task.
const NOBODY: &str = "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11";
/// Bodies that are begun and never ended, and their bytes.
const BEGUN: usize = 200;
const BEGUN_BYTES: usize = 1 << 20;
/// Connections that submit large results, and their bytes.
const SUBMITTERS: usize = 4;
const SUBMIT_BYTES: usize = 8 << 20;
/// Claims that wait, and the commands that each names.
const POLLS: usize = 100;
const POLL_COMMANDS: usize = 256;
/// Entries of a list, and keys of an object.
const LIST_ITEMS: usize = 4_000_000;
const OBJECT_KEYS: usize = 400_000;
const REST: Duration = Duration::from_millis(20);

pub fn attack(target: &Target, over: &CancellationToken) -> JoinSet<()> {
    let (mut attack, address) = (JoinSet::new(), target.http());
    let mut spawn = |work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let over = over.clone();
        attack.spawn(async move {
            over.run_until_cancelled(work).await;
        });
    };
    (0..BEGUN).for_each(|number| spawn(Box::pin(begin_bodies(address, number))));
    (0..SUBMITTERS).for_each(|number| spawn(Box::pin(submit(address, number))));
    (0..POLLS).for_each(|number| spawn(Box::pin(poll(address, number))));
    spawn(Box::pin(many_commands(address)));
    spawn(Box::pin(long_lists(address)));
    spawn(Box::pin(many_keys(address)));
    spawn(Box::pin(fair_claims(address)));
    spawn(Box::pin(subscribe(address)));
    spawn(Box::pin(dead_receivers(address)));
    spawn(Box::pin(large_tasks(address)));
    spawn(Box::pin(admin(address)));
    spawn(Box::pin(scrape(address)));
    attack
}

fn token(number: usize) -> &'static str {
    HOSTILE[number % HOSTILE.len()]
}

async fn begin_bodies(address: SocketAddr, number: usize) {
    let head = format!(
        "POST /v1/codeq/tasks HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
        token(number),
        BEGUN_BYTES * 2
    );
    let piece = vec![b' '; BEGUN_BYTES];
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await {
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&piece).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn submit(address: SocketAddr, number: usize) {
    let body = json!({"status": "COMPLETED", "result": {"x": "x".repeat(SUBMIT_BYTES)}});
    let path = format!("/v1/codeq/tasks/{NOBODY}/result");
    let mut client = None;
    loop {
        ask(&mut client, address, &path, token(number), &body).await;
        tokio::time::sleep(REST * 10).await;
    }
}

async fn poll(address: SocketAddr, number: usize) {
    let commands: Vec<String> = (0..POLL_COMMANDS).map(|at| format!("idle-{number}-{at}")).collect();
    let body = json!({"commands": commands, "waitSeconds": 5});
    let mut client = None;
    loop {
        ask(&mut client, address, "/v1/codeq/tasks/claim", token(number), &body).await;
        tokio::time::sleep(REST).await;
    }
}

async fn many_commands(address: SocketAddr) {
    let mut client = None;
    for number in 0_u64.. {
        let tasks: Vec<Value> =
            (0..100).map(|at| json!({"command": format!("many-{number}-{at}"), "payload": 1})).collect();
        ask(&mut client, address, "/v1/codeq/tasks/batch", HOSTILE[0], &json!({"tasks": tasks})).await;
        tokio::time::sleep(REST * 2).await;
    }
}

/// Lists of very many nothings: small as a text, large when they are read.
async fn long_lists(address: SocketAddr) {
    let body = json!({"results": vec![0; LIST_ITEMS]});
    let mut client = None;
    loop {
        ask(&mut client, address, "/v1/codeq/tasks/batch/results", HOSTILE[0], &body).await;
        tokio::time::sleep(REST * 10).await;
    }
}

/// Objects of very many keys, each of which has to be compared with the others.
async fn many_keys(address: SocketAddr) {
    let keys: serde_json::Map<String, Value> =
        (0..OBJECT_KEYS).map(|number| (number.to_string(), Value::Null)).collect();
    let body = json!({"status": "COMPLETED", "result": keys});
    let path = format!("/v1/codeq/tasks/{NOBODY}/result");
    let mut client = None;
    loop {
        ask(&mut client, address, &path, HOSTILE[1], &body).await;
        tokio::time::sleep(REST * 10).await;
    }
}

/// Claims of any command, drawn from very many.
async fn fair_claims(address: SocketAddr) {
    let mut client = None;
    loop {
        let body = json!({"order": "fair", "leaseSeconds": 5});
        ask(&mut client, address, "/v1/codeq/tasks/claim", HOSTILE[0], &body).await;
        tokio::time::sleep(REST).await;
    }
}

async fn subscribe(address: SocketAddr) {
    let mut client = None;
    for number in 0_u64.. {
        let types: Vec<String> = (0..256).map(|at| format!("type-{number}-{at}")).collect();
        let body = json!({
            "callbackUrl": format!("http://10.255.0.1:81/{}", "x".repeat(1900)), "eventTypes": types,
        });
        ask(&mut client, address, "/v1/codeq/workers/subscriptions", HOSTILE[1], &body).await;
        tokio::time::sleep(REST).await;
    }
}

/// Results whose callbacks go where nobody answers.
async fn dead_receivers(address: SocketAddr) {
    let mut client: Option<Client> = None;
    for number in 0_u32.. {
        let [_, b, c, d] = number.to_be_bytes();
        let hook = format!("http://10.{b}.{c}.{}:81/", d.max(1));
        let body = json!({"command": "hook", "payload": 1, "webhook": hook});
        ask(&mut client, address, "/v1/codeq/tasks", HOSTILE[2], &body).await;
        if let Some(open) = &mut client {
            let claim = br#"{"commands":["hook"]}"#;
            let id = match open.post("/v1/codeq/tasks/claim", HOSTILE[2], claim).await {
                Ok(response) => string_of(response.body, "id").map(str::to_owned),
                Err(_) => None,
            };
            let done = json!({"status": "COMPLETED", "result": {"x": "x".repeat(10_000)}});
            let path = format!("/v1/codeq/tasks/{}/result", id.unwrap_or_default());
            ask(&mut client, address, &path, HOSTILE[2], &done).await;
        }
        tokio::time::sleep(REST).await;
    }
}

/// Large payloads that are claimed a hundred at once by somebody who does not read the answer.
async fn large_tasks(address: SocketAddr) {
    let payload = "x".repeat(900_000);
    let mut client = None;
    loop {
        for _ in 0..10 {
            let body = json!({"command": "large", "payload": payload});
            ask(&mut client, address, "/v1/codeq/tasks", HOSTILE[0], &body).await;
            tokio::time::sleep(REST).await;
        }
        let body = r#"{"commands":["large"],"count":100,"leaseSeconds":5}"#;
        let head = format!(
            "POST /v1/codeq/tasks/claim/batch HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            HOSTILE[0],
            body.len()
        );
        if let Ok(mut stream) = TcpStream::connect(address).await {
            let _ = stream.write_all(head.as_bytes()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Whatever makes the store look at much.
async fn admin(address: SocketAddr) {
    let mut client = None;
    loop {
        for (path, body) in [
            ("/v1/codeq/admin/tasks/cleanup", json!({"before": "2099-01-01T00:00:00Z", "limit": 1_000_000})),
            ("/v1/codeq/admin/tasks/cancel", json!({"filter": {"error": "nothing"}, "ratePerSecond": 1})),
            ("/v1/codeq/admin/dlq/none/requeue", json!({"filter": {"error": "nothing"}, "dryRun": true})),
        ] {
            ask(&mut client, address, path, HOSTILE[1], &body).await;
            tokio::time::sleep(REST * 5).await;
        }
    }
}

async fn scrape(address: SocketAddr) {
    loop {
        if let Ok(mut client) = Client::connect(address).await {
            let _ = client.get("/metrics", "").await;
        }
        tokio::time::sleep(REST * 5).await;
    }
}
