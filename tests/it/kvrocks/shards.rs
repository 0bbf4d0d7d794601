//! `codeq migrate-shards` between two shards of one server, as an operator runs it.

use super::{Redis, ok};
use crate::cli::{Cli, Run, write};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};

fn mapped() -> Value {
    json!({"sharding": {"enabled": true, "commandMappings": {"render": "video"}}})
}

/// The command line, with a configuration in which renders go to the shard `video`.
fn cli(redis: &Redis) -> Cli {
    let cli = Cli::new();
    write(&cli.path("c.yaml"), &redis.config(mapped()).to_string());
    cli
}

fn migrate(cli: &Cli, from: &str, to: &str, more: &[&str]) -> Run {
    let fixed = ["migrate-shards", "--config", "c.yaml", "--command", "Render"];
    let ends = ["--from-shard", from, "--to-shard", to];
    let all: Vec<&str> = fixed.iter().chain(&ends).chain(more).copied().collect();
    cli.run(&all)
}

/// Every line is `<place>: <did> <n> tasks`.
fn counted(did: &str, counts: [u64; 5]) -> String {
    let places = ["Pending", "Delayed", "In-Progress", "DLQ", "Total"];
    places.iter().zip(counts).map(|(place, n)| format!("{place}: {did} {n} tasks\n")).collect()
}

#[tokio::test]
async fn a_command_moves_between_two_shards_of_one_server() {
    let redis = Redis::start().await;
    let cli = cli(&redis);
    let mut before = redis.replica();
    // One dies, and is lent while the operator is early: it stays until it ends.
    let dying = json!({"command": "render", "payload": 1, "maxAttempts": 1, "priority": 9});
    let dead = ok(&before, "/tasks", dying).await["id"].as_str().expect("an id").to_owned();
    ok(&before, "/tasks/claim", json!({"commands": ["render"]})).await;
    let early = migrate(&cli, "default", "video", &[]);
    assert_eq!((early.code, early.stderr), (Some(0), counted("Migrated", [0; 5])));
    ok(&before, &format!("/tasks/{dead}/nack"), json!({})).await;
    let mut made = Vec::new();
    for n in 0..5 {
        let task = json!({"command": "Render", "payload": n, "idempotencyKey": n.to_string()});
        made.push(ok(&before, "/tasks", task).await["id"].clone());
    }
    ok(&before, "/tasks", json!({"command": "render", "payload": 1, "delaySeconds": 3600})).await;
    ok(&before, "/tasks", json!({"command": "other", "payload": 1})).await;
    assert!(before.terminate().success());

    let dry = migrate(&cli, "default", "video", &["--dry-run"]);
    let would = format!("[DRY-RUN] No changes will be made\n{}", counted("Would migrate", [5, 1, 0, 1, 7]));
    assert_eq!((dry.code, dry.stderr.as_str(), dry.stdout.as_str()), (Some(0), would.as_str(), ""));
    let dry = migrate(&cli, "default", "video", &["--dry-run", "--json"]);
    let told =
        json!({"pending": 5, "delayed": 1, "held": 0, "inProgress": 0, "dlq": 1, "total": 7, "dryRun": true});
    assert_eq!((dry.code, dry.stderr.as_str()), (Some(0), ""));
    assert_eq!(serde_json::from_str::<Value>(&dry.stdout).expect("JSON"), told);

    let done = migrate(&cli, "default", "video", &["--verify", "--batch-size", "2"]);
    let found = "Source remaining: 0\nDest counts: pending 5, delayed 1, in-progress 0, dlq 1\n";
    let text = format!("{}{found}", counted("Migrated", [5, 1, 0, 1, 7]));
    assert_eq!((done.code, done.stderr), (Some(0), text));
    let again = migrate(&cli, "default", "video", &["--verify", "--json"]);
    let told: Value = serde_json::from_str(&again.stdout).expect("JSON");
    assert_eq!(
        (&told["total"], &told["sourceRemaining"], &told["dryRun"]),
        (&json!(0), &json!(0), &json!(false))
    );
    assert_eq!((again.code, &told["dest"]["total"]), (Some(0), &json!(7)), "it may be repeated");
    assert_eq!(redis.number(&["LLEN", "codeq:q:render:dev-tenant:s:video:pending:0"]), 5);
    assert_eq!(redis.number(&["HLEN", "codeq:tasks"]), 8);

    let after = redis.replica_with(mapped());
    let replay = json!({"command": "render", "payload": 0, "idempotencyKey": "0"});
    assert_eq!(ok(&after, "/tasks", replay).await["id"], made[0]);
    let claimed = ok(&after, "/tasks/claim/batch", json!({"commands": ["render"], "count": 10})).await;
    let lent: Vec<Value> =
        claimed["tasks"].as_array().expect("a list").iter().map(|t| t["id"].clone()).collect();
    assert_eq!(lent, made, "in order");
    for id in &lent {
        let path = format!("/tasks/{}/result", id.as_str().expect("an id"));
        ok(&after, &path, json!({"status": "COMPLETED", "result": {}})).await;
    }
    ok(&after, &format!("/admin/dlq/render/{dead}/requeue"), json!({})).await;
    assert_eq!(redis.ask(&["LRANGE", "codeq:q:render:dev-tenant:s:video:pending:9", "0", "-1"]), [dead]);
    let queue = after.get("/v1/codeq/admin/queues/render", DEV_TOKEN).await.json;
    assert_eq!(
        (&queue["ready"], &queue["delayed"], &queue["dlq"]),
        (&json!(1), &json!(1), &json!(0)),
        "{queue}"
    );
}

#[tokio::test]
async fn a_move_that_makes_no_sense_is_refused() {
    let redis = Redis::start().await;
    let cli = cli(&redis);
    for (from, to, text) in [
        ("nowhere", "video", "source shard \"nowhere\" not found in config backends"),
        ("default", "nowhere", "destination shard \"nowhere\" not found in config backends"),
        ("video", "video", "source and destination are the same shard"),
    ] {
        let refused = migrate(&cli, from, to, &[]);
        assert_eq!((refused.code, refused.stderr), (Some(1), format!("[ERROR] {text}\n")));
    }
    let missing =
        cli.fails(&["migrate-shards", "--config", "c.yaml", "--from-shard", "a", "--to-shard", "b"]);
    assert_eq!(missing, "[ERROR] --command is required");
}

#[tokio::test]
async fn a_spread_shard_moves_to_another_backend_while_a_server_runs() {
    let (one, two) = (Redis::start().await, Redis::start().await);
    let backend = |redis: &Redis| json!({"address": format!("127.0.0.1:{}", redis.port)});
    let sharding = json!({"sharding": {
        "enabled": true, "spread": true, "defaultShard": "one", "spreadOver": ["one"],
        "backends": {"one": backend(&one), "two": backend(&two)},
    }});
    let cli = Cli::new();
    write(&cli.path("c.yaml"), &one.config(sharding.clone()).to_string());
    let server = Server::serve(one.config(sharding));
    let made = ok(&server, "/tasks", json!({"command": "render", "payload": 1})).await;
    let id = made["id"].as_str().expect("an id");
    let shard = format!("p{}", u8::from_str_radix(&id[..2], 16).expect("hex") & 0x3f);
    let errand = ["migrate-shards", "--config", "c.yaml", "--shard", &shard, "--to"];
    let run = |backend: &str, more: &[&str]| {
        let all: Vec<&str> = errand.iter().copied().chain([backend]).chain(more.iter().copied()).collect();
        cli.run(&all)
    };
    let dry: Value = serde_json::from_str(&run("two", &["--dry-run", "--json"]).stdout).expect("JSON");
    assert_eq!((&dry["total"], &dry["dryRun"]), (&json!(1), &json!(true)));
    let done = run("two", &["--verify", "--json"]);
    let told: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(
        (&told["total"], &told["sourceRemaining"], &told["dest"]["total"]),
        (&json!(1), &json!(0), &json!(1))
    );
    assert_eq!((one.number(&["HLEN", "codeq:tasks"]), two.number(&["HLEN", "codeq:tasks"])), (0, 1));
    // The server that was running makes the next one there, and lends both in their order.
    let next = ok(&server, "/tasks", json!({"command": "render", "payload": 2})).await;
    assert_eq!(two.number(&["HLEN", "codeq:tasks"]), 2);
    let claimed = ok(&server, "/tasks/claim/batch", json!({"commands": ["render"], "count": 9})).await;
    let lent: Vec<&Value> =
        claimed["tasks"].as_array().expect("a list").iter().map(|task| &task["id"]).collect();
    assert_eq!(lent, [&made["id"], &next["id"]]);
    let unknown = run("three", &[]);
    assert_eq!(unknown.stderr, "[ERROR] backend \"three\" not found in sharding.backends\n");
    let refused = cli.fails(&["migrate-shards", "--config", "c.yaml", "--shard", "p64", "--to", "two"]);
    assert_eq!(refused, "[ERROR] --shard is p0 to p63, not \"p64\"");
}

/// It asked for the settings of authentication and webhooks, which moving tasks does not need.
#[tokio::test]
async fn a_file_with_shards_alone_is_enough_for_a_move() {
    let redis = Redis::start().await;
    let server = redis.replica();
    ok(&server, "/tasks", json!({"command": "render", "payload": 1})).await;
    let cli = Cli::new();
    let address = redis.config(json!({}))["persistenceConfig"]["addr"].clone();
    let backend = json!({"address": address});
    let shards = json!({"sharding": {
        "enabled": true, "defaultShard": "default", "backends": {"default": backend, "video": backend},
    }});
    write(&cli.path("c.yaml"), &shards.to_string());
    let counted_only = migrate(&cli, "default", "video", &["--dry-run"]);
    let would = format!("[DRY-RUN] No changes will be made\n{}", counted("Would migrate", [1, 0, 0, 0, 1]));
    assert_eq!((counted_only.code, counted_only.stderr), (Some(0), would));
}
