//! Thousands of claims held at once, ten thousand with `--long`: what they cost, that all are woken, that all are ended.

use super::wire::Wire;
use super::{request, vanish};
use crate::harness::{DEV_TOKEN, Server};
use codeq_store::testing::campaign::sized;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// What a claim may add in the profile of the tests, whose futures are larger than those of a release. There
/// `codeq bench http --held 10000` tells.
const CLAIM_KB: u64 = 26;
/// What the first of them add for all: allocator arenas, buffers of the runtime. Ten thousand do not add more of it.
const FIRST_MB: u64 = 8;

fn rss_mb(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

fn claim() -> Vec<u8> {
    let body = r#"{"commands":["held"],"waitSeconds":30,"leaseSeconds":600}"#;
    request("POST", "/v1/codeq/tasks/claim", body)
}

/// So many connections, each with a claim that the server has read and holds.
async fn open(server: &Server, polls: usize) -> Vec<Wire> {
    let mut wires = Vec::with_capacity(polls);
    for _ in 0..polls {
        let mut wire = Wire::open(server).await;
        wire.send(&claim()).await;
        wires.push(wire);
    }
    vanish::all_read(server).await;
    wires
}

/// Another claim on each of them.
async fn hold(server: &Server, wires: &mut [Wire]) {
    let claim = claim();
    for wire in wires {
        assert!(wire.send(&claim).await, "the server closed a connection");
    }
    vanish::all_read(server).await;
}

async fn create(server: &Server, count: usize) {
    let tasks: Vec<Value> = (0..100).map(|n| json!({"command": "held", "payload": n})).collect();
    for _ in 0..count.div_ceil(100) {
        let created = server.post("/v1/codeq/tasks/batch", DEV_TOKEN, json!({"tasks": tasks})).await;
        assert_eq!(created.status, 200, "{}", created.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_held_claims_are_cheap_and_all_are_woken_or_ended() {
    // All have to be held before the first has waited for 30 seconds, also on a busy machine.
    let polls = sized(4_000, 10_000);
    // The server has as many handles as we have, and one for each of our connections.
    let files = codeq_server::raise_file_limit();
    assert!(files >= polls + 500, "the hard limit of open files is {files}");
    let mut server = Server::dev();
    let before = rss_mb(&server);
    let mut wires = open(&server, polls).await;
    let held = rss_mb(&server);
    let allowed = FIRST_MB + polls as u64 * CLAIM_KB / 1024;
    assert!(held - before < allowed, "{held} MB with {polls} held claims, {before} MB before");

    create(&server, polls).await;
    let mut ids = HashSet::new();
    for wire in &mut wires {
        let reply = wire.reply().await.expect("a held claim is answered");
        assert_eq!(reply.status, 200, "a held claim was not woken");
        ids.insert(reply.json()["id"].as_str().expect("a task").to_owned());
    }
    assert_eq!(ids.len(), polls, "a task was lent twice");

    hold(&server, &mut wires).await;
    let again = rss_mb(&server);
    println!(
        "{polls} held claims: {before} MB before, {held} MB held, {again} MB held again with {polls} tasks"
    );
    let asked = Instant::now();
    let ended = tokio::task::spawn_blocking(move || (server.terminate(), server));
    for wire in &mut wires {
        let reply = wire.reply().await.expect("a held claim is ended, not cut");
        assert_eq!(reply.status, 204);
    }
    let (status, _server) = ended.await.expect("it ended");
    assert_eq!(status.code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(15), "shutting down took {:?}", asked.elapsed());
}
