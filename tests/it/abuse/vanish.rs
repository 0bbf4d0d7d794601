//! Workers that vanish while a task is on its way to them: the task is nobody's for a moment only.

use super::wire::Wire;
use super::{Dice, create, request};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::time::Duration;

const ROUNDS: usize = 400;
const AT_ONCE: usize = 100;
/// Of a hundred rounds, those in which the lease of a vanished worker may have to expire: the system had
/// taken the answer when the worker closed. There is hardly one in a thousand.
const LOST_PERCENT: usize = 2;

/// Returns when the server has read everything that was sent to it.
pub async fn all_read(server: &Server) {
    let port = server.base.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port");
    let local = format!(":{port:04X}");
    let has_unread = || {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
        table.lines().skip(1).any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // Local address, state, and what is queued to be sent and to be read; 0A is the listener, whose
            // queue is of connections.
            fields[1].ends_with(&local) && !fields[4].ends_with(":00000000")
        })
    };
    while has_unread() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns when the server has closed every connection that its callers have.
async fn all_closed(server: &Server) {
    let port = server.base.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port");
    let local = format!(":{port:04X}");
    // 08 is a connection that the other side has closed and we have not.
    let has_half_closed = || {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
        table.lines().skip(1).any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields[1].ends_with(&local) && fields[3] == "08"
        })
    };
    while has_half_closed() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn server() -> Server {
    let token = json!({
        "token": DEV_TOKEN, "subject": "worker", "eventTypes": ["*"], "raw": {"tenantId": "acme", "role": "ADMIN"},
        "scopes": ["codeq:claim", "codeq:heartbeat", "codeq:abandon", "codeq:nack", "codeq:result"],
    });
    Server::serve(json!({
        "env": "dev", "backoffPolicy": "fixed", "backoffBaseSeconds": 1,
        "producerAuthProvider": "static", "producerAuthConfig": token,
        "workerAuthProvider": "static", "workerAuthConfig": token,
    }))
}

/// A claim of one who will vanish, or of one who stays.
fn claim(command: &str, wait: u64, lease: u64) -> Vec<u8> {
    let body = json!({"commands": [command], "waitSeconds": wait, "leaseSeconds": lease}).to_string();
    request("POST", "/v1/codeq/tasks/claim", &body)
}

#[derive(Default, Debug)]
struct Tally {
    /// The answer was in the vanished client's hands.
    delivered: usize,
    /// It was not, and yet the lease had to expire.
    lost: usize,
    refunded: usize,
    untouched: usize,
}

/// A worker that vanishes about when its task is created, and another that comes for it.
async fn round(server: &Server, command: &str, drop_after: Duration) -> Tally {
    let mut worker = Wire::open(server).await;
    worker.send(&claim(command, 20, 1)).await;
    let task = json!({"command": command, "payload": 1, "maxAttempts": 2});
    let vanish = async {
        tokio::time::sleep(drop_after).await;
        worker.vanish()
    };
    let (id, is_delivered) = tokio::join!(create(server, DEV_TOKEN, task), vanish);
    let mut next = Wire::open(server).await;
    next.send(&claim(command, 5, 600)).await;
    let reply = next.reply().await.expect("an answer");
    assert_eq!(reply.status, 200, "{command}: task {id} stays with a client that has vanished");
    tally(&reply.json(), is_delivered)
}

fn tally(task: &Value, is_delivered: bool) -> Tally {
    let (attempts, refunds) = (task["attempts"].as_u64().unwrap_or(0), task["refunds"].as_u64().unwrap_or(0));
    let mut tally = Tally::default();
    match (task["error"].as_str(), is_delivered) {
        (Some("LEASE_EXPIRED"), true) => tally.delivered = 1,
        (Some("LEASE_EXPIRED"), false) => tally.lost = 1,
        _ if attempts == 1 => tally.untouched = 1,
        _ => {
            tally.refunded = 1;
            assert_eq!(attempts - refunds, 1, "a delivery that nobody had was counted: {task}");
        }
    }
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_worker_vanishes_is_claimable_again() {
    let server = server();
    let mut dice = Dice::new();
    let seed = dice.0;
    let mut total = Tally::default();
    for batch in 0..ROUNDS / AT_ONCE {
        let rounds: Vec<_> = (0..AT_ONCE).map(|n| (format!("v-{batch}-{n}"), dice.below(4_000))).collect();
        let rounds = rounds.iter().map(|(name, micros)| round(&server, name, Duration::from_micros(*micros)));
        for tally in join_all(rounds.collect()).await {
            total.delivered += tally.delivered;
            total.lost += tally.lost;
            total.refunded += tally.refunded;
            total.untouched += tally.untouched;
        }
    }
    println!("seed {seed}: {total:?} of {ROUNDS}");
    assert!(total.lost * 100 <= ROUNDS * LOST_PERCENT, "seed {seed}: {total:?}");
    let stats = server.get("/v1/codeq/admin/queues?view=stats", DEV_TOKEN).await;
    let dead: u64 =
        stats.json["queues"].as_array().expect("a list").iter().filter_map(|q| q["dlq"].as_u64()).sum();
    assert_eq!(dead, 0, "seed {seed}: tasks that nobody received ran out of attempts");
}

/// All of them at the same time.
async fn join_all<F: Future<Output = Tally>>(rounds: Vec<F>) -> Vec<Tally> {
    let mut rounds: Vec<_> = rounds.into_iter().map(|round| (Box::pin(round), None)).collect();
    std::future::poll_fn(|context| {
        for (round, tally) in rounds.iter_mut().filter(|(_, tally)| tally.is_none()) {
            if let std::task::Poll::Ready(done) = round.as_mut().poll(context) {
                *tally = Some(done);
            }
        }
        match rounds.iter().all(|(_, tally)| tally.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    rounds.into_iter().filter_map(|(_, tally)| tally).collect()
}

/// Waiters long gone when the tasks come must not be served before those that are there.
#[tokio::test]
async fn a_crowd_that_has_left_takes_nothing() {
    let server = server();
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let mut wire = Wire::open(&server).await;
        wire.send(&claim("left", 20, 600)).await;
        crowd.push(wire);
    }
    all_read(&server).await;
    drop(crowd);
    all_closed(&server).await;
    let tasks: Vec<Value> =
        (0..50).map(|n| json!({"command": "left", "payload": n, "maxAttempts": 1})).collect();
    server.post("/v1/codeq/tasks/batch", DEV_TOKEN, json!({"tasks": tasks})).await;
    let mut next = Wire::open(&server).await;
    for _ in 0..50 {
        next.send(&claim("left", 2, 600)).await;
        let reply = next.reply().await.expect("an answer");
        assert_eq!(reply.status, 200, "a task went to somebody who had left");
        assert_ne!(reply.json()["error"], "LEASE_EXPIRED");
    }
}

/// Claims behind each other on one connection that breaks: those not yet begun take nothing.
#[tokio::test]
async fn pipelined_claims_of_a_broken_connection_take_nothing() {
    let server = server();
    for n in 0..20 {
        let command = format!("queue-{n}");
        let mut wire = Wire::open(&server).await;
        wire.send(&claim("nothing", 20, 1)).await;
        wire.send(&claim(&command, 20, 1).repeat(5)).await;
        let id = create(&server, DEV_TOKEN, json!({"command": command, "payload": 1})).await;
        drop(wire);
        let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": [command]})).await;
        assert_eq!((claimed.status, claimed.json["id"].as_str()), (200, Some(&*id)));
        assert_eq!(claimed.json["attempts"], 1);
    }
}
