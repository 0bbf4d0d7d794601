//! Storms of kills, of two replicas and of the Redis server behind them: limits hold, and each tick has one task.
//! `CODEQ_STORM_ROUNDS` says how many kills.

use super::Redis;
use crate::harness::{DEV_TOKEN, Server};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

const ROUNDS: usize = 3;
const LIMIT: i64 = 7;
const WORKERS: usize = 64;
const RUNNING: &str = "codeq:q:crop:dev-tenant:inprog";

fn rounds() -> usize {
    let given = std::env::var("CODEQ_STORM_ROUNDS").ok();
    given.map_or(ROUNDS, |text| text.parse().expect("a number"))
}

async fn put(server: &Server, path: &str, body: Value) {
    let path = format!("/v1/codeq{path}");
    let put = server.send(Method::PUT, &path, Some(DEV_TOKEN), Some(body.to_string().into_bytes())).await;
    assert!((200..=201).contains(&put.status), "{}", put.text);
}

/// One replica after the other, and in between the server that they share.
async fn kill_one(round: usize, replicas: &mut [Server; 2], redis: &mut Redis) {
    match round % 3 {
        2 => redis.kill_and_start().await,
        killed => {
            replicas[killed].kill();
            replicas[killed].start_again();
        }
    }
}

/// Where the replicas are, and what the workers have done.
struct Crew {
    bases: RwLock<[String; 2]>,
    client: reqwest::Client,
    reports: AtomicUsize,
    is_over: AtomicBool,
}

impl Crew {
    /// The answer of one of the replicas; `None` if it is away, as it often is.
    async fn ask(&self, turn: usize, path: &str, body: Value) -> Option<Value> {
        let base = self.bases.read().expect("no one panics holding them")[turn % 2].clone();
        let request = self.client.post(format!("{base}/v1/codeq/tasks{path}")).bearer_auth(DEV_TOKEN);
        let answer = request.timeout(Duration::from_secs(10)).body(body.to_string()).send().await.ok()?;
        let is_full = answer.status().as_u16() == 200 || answer.status().as_u16() == 202;
        serde_json::from_str(&answer.text().await.ok()?).ok().filter(|_| is_full)
    }

    /// Takes tasks and ends each attempt in another way; some leases run out.
    async fn work(self: Arc<Self>, number: usize) {
        let mut turn = number;
        while !self.is_over.load(Ordering::Acquire) {
            turn += 1;
            let expires = turn.is_multiple_of(7);
            // What a killed replica has given to nobody comes back soon.
            let lease = if expires { 1 } else { 5 };
            let wish = json!({"commands": ["crop"], "waitSeconds": 1, "leaseSeconds": lease});
            let Some(task) = self.ask(turn, "/claim", wish).await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            if expires {
                continue;
            }
            let id = task["id"].as_str().expect("an id");
            let (verb, body) = match turn % 5 {
                0 => ("nack", json!({"delaySeconds": 1})),
                1 => ("nack", json!({"delaySeconds": 1, "refund": true})),
                2 => ("cancel", json!({})),
                _ => ("result", json!({"status": "COMPLETED", "result": {}})),
            };
            let done = self.ask(turn, &format!("/{id}/{verb}"), body).await;
            self.reports.fetch_add(usize::from(done.is_some()), Ordering::AcqRel);
        }
    }

    async fn produce(self: Arc<Self>) {
        let lanes = json!(["", "a", "b", "c"]);
        for turn in 0.. {
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            let task =
                |n: usize| json!({"command": "crop", "payload": n, "lane": lanes[n % 4], "maxAttempts": 100});
            let tasks: Vec<Value> = (0..40).map(task).collect();
            self.ask(turn, "/batch", json!({"tasks": tasks})).await;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    }
}

/// How many run, as the server that holds them says; `None` while it is away.
fn running(redis: &Redis) -> Option<i64> {
    redis.ask(&["SCARD", RUNNING]).first()?.parse().ok()
}

async fn watch(redis: &Redis, time: Duration) {
    let watching = async {
        loop {
            let now = running(redis).unwrap_or(0);
            assert!(now <= LIMIT, "{now} run");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let _: Result<(), _> = tokio::time::timeout(time, watching).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds_though_replicas_and_redis_are_killed() {
    let mut redis = Redis::start().await;
    let more = || json!({"sweepIntervalSeconds": 1});
    let mut replicas = [redis.replica_with(more()), redis.replica_with(more())];
    put(&replicas[0], "/admin/queues/crop/policy", json!({"concurrency": LIMIT})).await;
    let bases = |replicas: &[Server; 2]| replicas.each_ref().map(|server| server.base.clone());
    let crew = Arc::new(Crew {
        bases: RwLock::new(bases(&replicas)),
        client: reqwest::Client::builder().no_proxy().build().expect("a plain client"),
        reports: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    });
    let mut at_work = vec![tokio::spawn(crew.clone().produce())];
    at_work.extend((0..WORKERS).map(|number| tokio::spawn(crew.clone().work(number))));
    for round in 0..rounds() {
        watch(&redis, Duration::from_secs(1)).await;
        kill_one(round, &mut replicas, &mut redis).await;
        *crew.bases.write().expect("no one panics holding them") = bases(&replicas);
    }
    let before = crew.reports.load(Ordering::Acquire);
    let goes_on = async {
        while crew.reports.load(Ordering::Acquire) < before + 50 {
            watch(&redis, Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), goes_on).await.expect("no slot is lost");
    crew.is_over.store(true, Ordering::Release);
    for worker in at_work {
        worker.await.expect("no worker panics");
    }
}

fn second(text: &Value) -> i64 {
    let at = text.as_str().and_then(codeq_server::stamp::parse);
    at.unwrap_or_else(|| panic!("{text} is RFC 3339")).millis() / 1000
}

/// The ticks of the tasks of each schedule, in seconds.
async fn ticks(server: &Server) -> BTreeMap<String, Vec<i64>> {
    let (mut found, mut cursor): (BTreeMap<String, Vec<i64>>, _) = (BTreeMap::new(), String::new());
    loop {
        let path = format!("/v1/codeq/admin/tasks?limit=500&order=oldest&cursor={cursor}");
        let page = server.get(&path, DEV_TOKEN).await.json;
        for task in page["items"].as_array().expect("a page") {
            let header = |name: &str| task["headers"][name].as_str().expect("a header").to_owned();
            let at = second(&task["headers"]["codeq-scheduled-for"]);
            found.entry(header("codeq-schedule")).or_default().push(at);
        }
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return found,
        }
    }
}

/// Pauses a schedule, asking again while the replica has not found the server that was started again.
async fn pause(replica: &Server, path: &str) -> Value {
    let paused = async {
        loop {
            let answer = replica.post(path, DEV_TOKEN, json!({})).await;
            match answer.status {
                200 => return answer.json,
                503 => tokio::time::sleep(Duration::from_millis(20)).await,
                _ => panic!("{path}: {} {}", answer.status, answer.text),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), paused).await.expect("the server is found again")
}

#[tokio::test]
async fn each_tick_has_one_task_though_replicas_and_redis_are_killed() {
    const SCHEDULES: usize = 10;
    let mut redis = Redis::start().await;
    let more = || json!({"sweepIntervalSeconds": 1});
    let mut replicas = [redis.replica_with(more()), redis.replica_with(more())];
    for n in 0..SCHEDULES {
        let task = json!({"command": format!("tick-{}", n % 3), "payload": n});
        let plan = json!({"everySeconds": 1, "overlap": "allow", "catchUp": "all", "task": task});
        put(&replicas[0], &format!("/schedules/s{n}"), plan).await;
    }
    for round in 0..rounds() {
        tokio::time::sleep(Duration::from_millis(700)).await;
        kill_one(round, &mut replicas, &mut redis).await;
    }
    let mut ends = BTreeMap::new();
    for n in 0..SCHEDULES {
        let paused = pause(&replicas[1], &format!("/v1/codeq/schedules/s{n}/pause")).await;
        assert_eq!((&paused["missed"], &paused["skipped"]), (&json!(0), &json!(0)), "{paused}");
        ends.insert(format!("s{n}"), paused);
    }
    let found = ticks(&replicas[0]).await;
    for (name, paused) in &ends {
        let mut found = found.get(name).cloned().unwrap_or_default();
        found.sort_unstable();
        let Some(last) = paused["lastAt"].as_str() else {
            assert!(found.is_empty(), "{name} has not ticked: {found:?}");
            continue;
        };
        let last = second(&json!(last));
        let expected: Vec<i64> = (found[0]..=last).collect();
        assert_eq!(found, expected, "{name}: each second once");
    }
}
