//! What callers do: whole cycles over HTTP, queues that hold a task and nothing due, claims that wait.

use super::super::http::client::{Client, string_of};
use super::super::meter::{histogram, record};
use super::processes::TOKEN;
use anyhow::bail;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Queues that one connection works on in turn, so that every server has its share.
const QUEUES_EACH: usize = 8;
/// Tasks of one batch.
const BATCH: usize = 100;
/// How long a claim waits before it asks again.
const WAIT_SECONDS: u64 = 30;

const CREATE: &str = "/v1/codeq/tasks";
const CLAIM: &str = "/v1/codeq/tasks/claim";

/// How long each cycle took.
pub async fn cycles(
    processes: &[SocketAddr],
    connections: usize,
    time: Duration,
) -> anyhow::Result<Histogram<u64>> {
    let end = Instant::now() + time;
    let mut lanes = JoinSet::new();
    for number in 0..connections {
        lanes.spawn(lane(processes[number % processes.len()], number, end));
    }
    let mut all = histogram();
    while let Some(lane) = lanes.join_next().await {
        all.add(lane??)?;
    }
    Ok(all)
}

async fn lane(address: SocketAddr, number: usize, end: Instant) -> anyhow::Result<Histogram<u64>> {
    let mut client = Client::connect(address).await?;
    let mut latencies = histogram();
    let bodies: Vec<(String, String)> = (0..QUEUES_EACH)
        .map(|queue| {
            let command = format!("cycle-{number}-{queue}");
            let create = json!({"command": command, "payload": {"n": number}}).to_string();
            (create, json!({"commands": [command]}).to_string())
        })
        .collect();
    for (create, claim) in bodies.iter().cycle() {
        let at = Instant::now();
        if at > end {
            break;
        }
        cycle(&mut client, create, claim).await?;
        record(&mut latencies, at.elapsed());
    }
    Ok(latencies)
}

async fn cycle(client: &mut Client, create: &str, claim: &str) -> anyhow::Result<()> {
    expect(client.post(CREATE, TOKEN, create.as_bytes()).await?.status, 202, "a create")?;
    let claimed = client.post(CLAIM, TOKEN, claim.as_bytes()).await?;
    expect(claimed.status, 200, "a claim")?;
    let Some(id) = string_of(claimed.body, "id").map(str::to_owned) else { bail!("a claim names no task") };
    let done: &[u8] = br#"{"status":"COMPLETED","result":{"ok":true}}"#;
    expect(client.post(&format!("{CREATE}/{id}/result"), TOKEN, done).await?.status, 200, "a result")
}

fn expect(status: u16, wanted: u16, what: &str) -> anyhow::Result<()> {
    match status == wanted {
        true => Ok(()),
        false => bail!("{what} was answered {status}"),
    }
}

/// Makes queues with one ready task each.
pub async fn fill(process: SocketAddr, queues: usize) -> anyhow::Result<()> {
    let mut client = Client::connect(process).await?;
    let numbers: Vec<usize> = (0..queues).collect();
    for part in numbers.chunks(BATCH) {
        let task = |number: &usize| json!({"command": format!("idle-{number}"), "payload": 1});
        let tasks: Vec<Value> = part.iter().map(task).collect();
        let body = json!({"tasks": tasks}).to_string();
        expect(client.post("/v1/codeq/tasks/batch", TOKEN, body.as_bytes()).await?.status, 200, "a batch")?;
    }
    Ok(())
}

/// So many claims at every process, each on an empty queue of its own, until the set is dropped.
pub async fn wait(processes: &[SocketAddr], each: usize) -> anyhow::Result<JoinSet<()>> {
    let mut waiting = JoinSet::new();
    for (place, process) in processes.iter().enumerate() {
        for number in 0..each {
            let mut client = Client::connect(*process).await?;
            let command = format!("empty-{place}-{number}");
            let claim = json!({"commands": [command], "waitSeconds": WAIT_SECONDS}).to_string();
            waiting.spawn(async move { while client.post(CLAIM, TOKEN, claim.as_bytes()).await.is_ok() {} });
        }
    }
    Ok(waiting)
}
