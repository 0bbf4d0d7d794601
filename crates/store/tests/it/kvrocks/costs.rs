//! What a cycle costs the server: commands that its scripts call, each of which takes more than its work.

use super::faults::quiet;
use super::ground::open;
use super::server::Server;
use super::verbs::{claim, create, done, new};
use codeq_queue::TaskStore;
use codeq_store::kvrocks::Backend;

/// What is said when nobody does anything: probes, sweeps, clocks; and what carries a script.
const ASIDE: [&str; 12] = [
    "multi", "exec", "evalsha", "ping", "role", "info", "config", "time", "publish", "scard", "hlen",
    "select",
];

/// Commands since the last time, by name, without those that come with time.
fn calls(server: &Server) -> Vec<(String, u64)> {
    let stats = server.ask("INFO commandstats");
    let called = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    let all: Vec<(String, u64)> = stats.lines().filter_map(called).collect();
    assert_eq!(server.say("CONFIG RESETSTAT"), "+OK");
    all.into_iter().filter(|(name, _)| !ASIDE.contains(&name.split('|').next().unwrap_or_default())).collect()
}

/// Microseconds that all scripts together have taken since the last time.
fn script_time(server: &Server) -> u64 {
    let stats = server.ask("INFO commandstats");
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default();
    let told = line.split("usec=").nth(1).and_then(|rest| rest.split(',').next());
    told.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Tells what somebody would like to know whose change makes this fail.
fn total(server: &Server, what: &str) -> u64 {
    let (time, calls) = (script_time(server), calls(server));
    let total = calls.iter().map(|(_, count)| count).sum();
    println!("{what}: {total} calls, {time} us: {calls:?}");
    total
}

const ROUNDS: u64 = 50;

/// A create made 20 calls, a claim was three scripts, and a submit made 22.
#[tokio::test]
async fn a_transition_makes_few_calls() {
    let server = Server::start(&[]);
    let store = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    super::round_trips::settled(&store).await;
    create(&*store, "render").await.unwrap();
    calls(&server);
    for _ in 0..ROUNDS {
        create(&*store, "render").await.unwrap();
    }
    assert!(total(&server, "create") <= CREATE * ROUNDS + SLACK);
    let mut lent = Vec::new();
    for _ in 0..ROUNDS {
        lent.extend(claim(&*store, "render", 1).await);
    }
    assert!(total(&server, "claim") <= CLAIM * ROUNDS + SLACK);
    for task in &lent {
        store.submit(vec![done(task)]).await.unwrap().remove(0).unwrap();
    }
    assert!(total(&server, "submit") <= SUBMIT * ROUNDS + SLACK);
    for _ in 0..ROUNDS {
        assert_eq!(claim(&*store, "nothing", 1).await.len(), 0);
    }
    assert!(total(&server, "empty claim") <= EMPTY * ROUNDS + SLACK);
    store.create(vec![new("many"); 100]).await.unwrap();
    assert!(total(&server, "100 creates") <= CREATES_OF_100 + SLACK);
}

const CREATE: u64 = 8;
const CLAIM: u64 = 11;
const SUBMIT: u64 = 9;
const EMPTY: u64 = 6;
const CREATES_OF_100: u64 = 9;
/// What the watch of the server may ask meanwhile.
const SLACK: u64 = 20;
