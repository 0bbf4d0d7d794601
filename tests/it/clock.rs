//! Servers whose wall clock is set, forward and back, while they work: nothing is lost, and what is due goes on.
//!
//! The wall clock of a process is set with libfaketime, which scripts/test.sh installs; the monotonic clock and other
//! processes are left alone.

use crate::harness::{DEV_TOKEN, Server};
use crate::kvrocks::Redis;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const HOUR: i64 = 3600;
const STEPS: [i64; 4] = [HOUR, 48 * HOUR, 10 * 365 * 24 * HOUR, -HOUR];
/// How long the clock is wrong.
const WRONG: Duration = Duration::from_secs(5);
/// How soon due work goes on when it is right again.
const SOON: Duration = Duration::from_secs(5);

/// What an answer may take on a busy machine.
const ANSWER: Duration = Duration::from_secs(1);

/// The wall clock of the processes that are started with its environment.
struct Wall {
    directory: TempDir,
}

fn library() -> String {
    let of = |machine: &str| PathBuf::from(format!("/usr/lib/{machine}/faketime/libfaketimeMT.so.1"));
    let known = ["x86_64-linux-gnu", "aarch64-linux-gnu"].map(of);
    let found = known.into_iter().find(|path| path.exists());
    found.expect("scripts/test.sh installs faketime").to_str().expect("a plain name").to_owned()
}

impl Wall {
    fn new() -> Wall {
        let wall = Wall { directory: tempfile::tempdir().expect("a temporary directory") };
        wall.set(0);
        wall
    }

    /// The environment of a server that goes by this clock.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let file = self.directory.path().join("offset").to_str().expect("a plain name").to_owned();
        vec![
            ("LD_PRELOAD", library()),
            ("FAKETIME_TIMESTAMP_FILE", file),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    /// So many seconds from the true time. The file is replaced whole: it is read at every look at the clock.
    fn set(&self, seconds: i64) {
        let (draft, file) = (self.directory.path().join("draft"), self.directory.path().join("offset"));
        std::fs::write(&draft, format!("{seconds:+}\n")).expect("the directory is ours");
        std::fs::rename(draft, file).expect("the directory is ours");
    }
}

fn config() -> Value {
    let raw = json!({"role": "ADMIN", "tenantId": "dev-tenant"});
    let scopes = ["claim", "heartbeat", "abandon", "nack", "result"].map(|verb| format!("codeq:{verb}"));
    json!({
        "env": "dev",
        // Or a task whose lease ran out may wait longer than the test does.
        "backoffPolicy": "fixed",
        "backoffBaseSeconds": 1,
        "producerAuthProvider": "static",
        "producerAuthConfig": {"token": DEV_TOKEN, "raw": raw},
        "workerAuthProvider": "static",
        "workerAuthConfig": {"token": "worker", "raw": raw, "scopes": scopes, "eventTypes": ["*"]},
    })
}

async fn create(server: &Server, task: Value) -> Value {
    let made = server.post("/v1/codeq/tasks", DEV_TOKEN, task).await;
    assert!(matches!(made.status, 200 | 202), "{}", made.text);
    made.json
}

async fn claim(server: &Server, command: &str, wait: u64) -> Option<Value> {
    let body = json!({"commands": [command], "waitSeconds": wait, "leaseSeconds": 3});
    let claimed = server.post("/v1/codeq/tasks/claim", "worker", body).await;
    match claimed.status {
        200 => Some(claimed.json),
        204 => None,
        status => panic!("{status}: {}", claimed.text),
    }
}

fn id(task: &Value) -> String {
    task["id"].as_str().expect("an id").to_owned()
}

/// What must be there when the clock is right again.
struct Stored {
    finished: String,
    ready: String,
    delayed: String,
    lent: String,
}

impl Stored {
    async fn make(server: &Server) -> Stored {
        let finished =
            id(&create(server, json!({"command": "done", "payload": 1, "idempotencyKey": "k"})).await);
        let lent = claim(server, "done", 5).await.expect("a task");
        assert_eq!(id(&lent), finished);
        let result = json!({"status": "COMPLETED", "result": {"kept": true}});
        let told = server.post(&format!("/v1/codeq/tasks/{finished}/result"), "worker", result).await;
        assert_eq!(told.status, 200, "{}", told.text);
        let ready = id(&create(server, json!({"command": "ready", "payload": 1})).await);
        let delayed =
            id(&create(server, json!({"command": "delayed", "payload": 1, "delaySeconds": 7})).await);
        create(server, json!({"command": "lent", "payload": 1})).await;
        let lent = id(&claim(server, "lent", 5).await.expect("a task"));
        Stored { finished, ready, delayed, lent }
    }

    /// Nothing is gone, as this server sees it.
    async fn is_there(&self, server: &Server, when: &str) {
        let result = server.get(&format!("/v1/codeq/tasks/{}/result", self.finished), DEV_TOKEN).await;
        assert_eq!(result.status, 200, "{when}: {}", result.text);
        let again = create(server, json!({"command": "done", "payload": 1, "idempotencyKey": "k"})).await;
        assert_eq!(id(&again), self.finished, "{when}: the key is lost");
        for task in [&self.ready, &self.delayed, &self.lent] {
            let found = server.get(&format!("/v1/codeq/tasks/{task}"), DEV_TOKEN).await;
            assert_eq!(found.status, 200, "{when}: {}", found.text);
        }
    }

    /// What fell due meanwhile is to be had, soon.
    async fn goes_on(&self, server: &Server, when: &str) {
        let returned = Instant::now();
        let wait = SOON.as_secs();
        let claims = tokio::join!(
            claim(server, "delayed", wait),
            claim(server, "lent", wait),
            claim(server, "ready", wait)
        );
        assert!(returned.elapsed() <= SOON + ANSWER, "{when}: {:?}", returned.elapsed());
        for (lent, expected) in [(claims.0, &self.delayed), (claims.1, &self.lent), (claims.2, &self.ready)] {
            let lent = lent.unwrap_or_else(|| panic!("{when}: {expected} stands still"));
            assert_eq!(id(&lent), *expected, "{when}");
        }
    }
}

/// One clock is wrong for a while. The other server, if there is one, has a clock that is right.
async fn lives_through(stepped: &Server, wall: &Wall, other: Option<&Server>, step: i64) {
    let stored = Stored::make(stepped).await;
    let when = format!("a step of {step} s");
    wall.set(step);
    let wrong = Instant::now();
    while wrong.elapsed() < WRONG {
        for server in other.into_iter().chain([stepped]) {
            let task = create(server, json!({"command": "meanwhile", "payload": 1})).await;
            let lent = claim(server, "meanwhile", 5).await.expect("work goes on meanwhile");
            assert_eq!(id(&lent), id(&task), "{when}");
            let result = json!({"status": "COMPLETED", "result": {"n": 1}});
            let told = server.post(&format!("/v1/codeq/tasks/{}/result", id(&lent)), "worker", result).await;
            assert_eq!(told.status, 200, "{when}: {}", told.text);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    for server in other.into_iter().chain([stepped]) {
        stored.is_there(server, &format!("{when}, while it lasts")).await;
    }
    wall.set(0);
    stored.goes_on(other.unwrap_or(stepped), &when).await;
    for server in other.into_iter().chain([stepped]) {
        stored.is_there(server, &format!("{when}, afterwards")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_store_loses_nothing_when_the_wall_clock_is_set() {
    let lives = STEPS.map(|step| {
        tokio::spawn(async move {
            let wall = Wall::new();
            let server = Server::serve_in(wall.environment(), config());
            lives_through(&server, &wall, None, step).await;
        })
    });
    for life in lives {
        life.await.expect("nothing is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_lose_nothing_when_the_wall_clock_of_one_is_set() {
    let lives = STEPS.map(|step| {
        tokio::spawn(async move {
            let redis = Redis::start().await;
            let wall = Wall::new();
            let config = || {
                let mut whole = redis.config(json!({}));
                let more = config();
                whole
                    .as_object_mut()
                    .expect("an object")
                    .extend(more.as_object().expect("an object").clone());
                whole
            };
            let stepped = Server::serve_in(wall.environment(), config());
            let other = Server::serve(config());
            lives_through(&stepped, &wall, Some(&other), step).await;
        })
    });
    for life in lives {
        life.await.expect("nothing is lost");
    }
}

/// The difference is told where operators look, while it lasts.
#[tokio::test]
async fn a_clock_that_was_set_is_told() {
    let wall = Wall::new();
    let server = Server::serve_in(wall.environment(), config());
    assert_eq!(server.get("/readyz", "").await.json, json!({"status": "ok"}));
    wall.set(2 * HOUR);
    server.until_said("the wall clock was set; it is followed gradually").await;
    let ready = server.get("/readyz", "").await;
    let ahead = ready.json["clockAheadSeconds"].as_i64().expect("a number");
    assert_eq!((ready.status, ready.json["status"].as_str()), (200, Some("ok")));
    assert!((HOUR..=2 * HOUR).contains(&ahead), "{ahead}");
    let page = server.get("/metrics", "").await.text;
    let line = page.lines().find(|line| line.starts_with("codeq_clock_ahead_seconds ")).expect("the metric");
    let told: f64 = line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    assert!(told > HOUR as f64 && told <= 2.0 * HOUR as f64, "{line}");
}
