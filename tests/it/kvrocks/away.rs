//! One of two servers is away: what callers and operators see of it over HTTP, and what becomes of one that lost its data.

use super::{Redis, ok};
use crate::cli::{Cli, write};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

/// Tasks of `far` live on the second server, everything else on the first.
fn over(one: &Redis, two: &Redis) -> Value {
    let backend = |redis: &Redis| json!({"address": format!("127.0.0.1:{}", redis.port)});
    one.config(json!({
        "sharding": {
            "enabled": true, "defaultShard": "one", "commandMappings": {"far": "two"},
            "backends": {"one": backend(one), "two": backend(two)},
        },
    }))
}

async fn until_status(server: &Server, wanted: &str) -> Value {
    let end = Instant::now() + SOON;
    loop {
        let ready = server.get("/readyz", "").await.json;
        if ready["status"] == wanted {
            return ready;
        }
        assert!(Instant::now() < end, "{ready}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn get(server: &Server, path: &str) -> crate::harness::Answer {
    server.get(&format!("/v1/codeq{path}"), DEV_TOKEN).await
}

#[tokio::test]
async fn lists_are_partial_and_health_is_degraded() {
    let (mut one, mut two) = (Redis::start().await, Redis::start().await);
    let server = Server::serve(over(&one, &two));
    for command in ["near", "far", "far"] {
        ok(&server, "/tasks", json!({"command": command, "payload": 1})).await;
    }
    assert!(get(&server, "/admin/tasks").await.headers.get("codeq-partial").is_none());
    server.until_metric("codeq_store_replicas{shard=\"two\"} 0").await;
    two.stop();
    let ready = until_status(&server, "degraded").await;
    assert_eq!(ready["unavailable"], json!(["two"]));
    assert_eq!(server.get("/readyz?strict=1", "").await.status, 503);
    for path in ["/admin/tasks", "/admin/queues", "/admin/queues?view=stats", "/admin/dlq/*/groups"] {
        let answer = get(&server, path).await;
        assert_eq!((answer.status, answer.header("codeq-partial")), (200, "two"), "{path}: {}", answer.text);
    }
    let list = get(&server, "/admin/tasks").await.json;
    assert_eq!((list["items"].as_array().expect("items").len(), &list["partial"]), (1, &json!(["two"])));
    assert_eq!(get(&server, "/admin/export").await.status, 503);
    let page = server.get("/metrics", "").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("codeq_store_up{shard=\"two\"} 0"), "{}", page.text);
    let depth = |command: &str| format!("codeq_queue_depth{{command=\"{command}\"");
    assert!(page.text.contains(&depth("near")) && !page.text.contains(&depth("far")), "{}", page.text);
    // The rest comes from where the list was.
    two.kill_and_start().await;
    until_status(&server, "ok").await;
    let next = list["next"].as_str().expect("there is more").replace('~', "%7E");
    let rest = get(&server, &format!("/admin/tasks?cursor={next}")).await.json;
    assert_eq!(rest["items"].as_array().expect("items").len(), 2, "{rest}");
    assert!(rest["partial"].is_null() && rest["next"].is_null(), "{rest}");
    // Without the default shard everything about tasks goes on.
    one.stop();
    until_status(&server, "degraded").await;
    ok(&server, "/tasks", json!({"command": "far", "payload": 1})).await;
    assert_eq!(server.get("/metrics", "").await.status, 200);
}

#[tokio::test]
async fn a_server_that_lost_its_data_is_accepted_by_an_operator() {
    let (one, two) = (Redis::start().await, Redis::start().await);
    let server = Server::serve(over(&one, &two));
    ok(&server, "/tasks", json!({"command": "far", "payload": 1})).await;
    two.ask(&["FLUSHALL"]);
    until_status(&server, "degraded").await;
    let cli = Cli::new();
    write(&cli.path("c.yaml"), &over(&one, &two).to_string());
    let said = cli.run(&["doctor", "--config", "c.yaml"]);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(told.contains("codeq store accept two --deployment "), "{told}");
    let refused = cli.run(&["store", "accept", "three", "--config", "c.yaml"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("\"three\" is unknown"), "{}", refused.stderr);
    let accepted = cli.run(&["store", "accept", "two", "--config", "c.yaml"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    until_status(&server, "ok").await;
    ok(&server, "/tasks", json!({"command": "far", "payload": 1})).await;
}

/// Processes and servers are started by the bench itself.
#[tokio::test]
async fn processes_and_servers_are_measured() {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_codeq"));
    command.args(["bench", "replicas", "--processes", "2", "--servers", "2", "--seconds", "0.3"]);
    command.args(["--connections", "4", "--queues", "100", "--waiting", "5", "--json"]);
    let output = command.output().await.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let rows = report["rows"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    let wanted =
        ["cycle 1x1", "idle 1x1", "cycle 2x1", "idle 2x1", "cycle 1x2", "idle 1x2", "cycle 2x2", "idle 2x2"];
    assert_eq!(names, wanted);
    for row in rows {
        let is_cycle = row["name"].as_str().is_some_and(|name| name.starts_with("cycle"));
        let number = |field: &str| row[field].as_f64();
        match is_cycle {
            true => assert!(number("per_second") > Some(0.0) && number("server_cpu_us") > Some(0.0), "{row}"),
            false => {
                assert!(number("process_percent").is_some() && number("server_percent").is_some(), "{row}")
            }
        }
    }
}
