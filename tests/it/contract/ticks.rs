//! A storm of kills around ticks: each tick has one task, whenever the process died. `CODEQ_TICK_ROUNDS` says how
//! many kills.

use super::{call, get, instant, post};
use crate::harness::{DEV_TOKEN, Server};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const ROUNDS: u32 = 5;
const SCHEDULES: usize = 20;

/// All tasks, as lists show them.
async fn tasks(server: &Server) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(server, &format!("/admin/tasks?limit=500&order=oldest&cursor={cursor}")).await.json;
        all.extend(page["items"].as_array().expect("a page").clone());
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return all,
        }
    }
}

#[tokio::test]
async fn each_tick_has_one_task_whenever_the_process_is_killed() {
    let rounds = std::env::var("CODEQ_TICK_ROUNDS").ok().map(|text| text.parse().expect("a number"));
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut server = Server::dev();
    for n in 0..SCHEDULES {
        let schedule = json!({
            "everySeconds": 1, "overlap": "allow", "catchUp": "all",
            "task": {"command": format!("tick-{}", n % 3), "payload": n},
        });
        let path = format!("/schedules/s{n}");
        let put = call(&server, Method::PUT, &path, DEV_TOKEN, Some(&schedule.to_string())).await;
        assert_eq!(put.status, 201, "{}", put.text);
    }
    for _ in 0..rounds.unwrap_or(ROUNDS) {
        tokio::time::sleep(Duration::from_millis(random.random_range(50..1200))).await;
        server.kill();
        server.start_again();
    }
    let mut ends = BTreeMap::new();
    for n in 0..SCHEDULES {
        let paused = post(&server, &format!("/schedules/s{n}/pause"), json!({})).await.json;
        assert_eq!((&paused["missed"], &paused["skipped"]), (&json!(0), &json!(0)), "seed {seed}: {paused}");
        ends.insert(format!("s{n}"), paused);
    }
    let mut ticks: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for task in tasks(&server).await {
        let text = |name: &str| task["headers"][name].as_str().expect("a header").to_owned();
        let at = instant(&task["headers"]["codeq-scheduled-for"]).millis() / 1000;
        ticks.entry(text("codeq-schedule")).or_default().push(at);
    }
    assert_eq!(ticks.len(), SCHEDULES, "seed {seed}");
    for (name, mut found) in ticks {
        found.sort_unstable();
        let first = found[0];
        let expected: Vec<i64> = (first..).take(found.len()).collect();
        assert_eq!(found, expected, "seed {seed}, {name}: each second once");
        let last = instant(&ends[&name]["lastAt"]).millis() / 1000;
        assert_eq!(found.last(), Some(&last), "seed {seed}, {name}");
    }
}
