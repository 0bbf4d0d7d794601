//! The event stream of one replica tells what all of them do.

use super::{Redis, ok};
use crate::events::Stream;
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Until `speaker` knows that somebody listens at `listener`. It is told before a stream begins; this is for
/// the moment that the news takes.
async fn within_earshot(speaker: &Server, listener: &Server) {
    let mut stream = Stream::open(listener, "?command=probe", None).await;
    for _ in 0..100 {
        ok(speaker, "/tasks", json!({"command": "probe", "payload": 1})).await;
        if tokio::time::timeout(Duration::from_millis(200), stream.next()).await.is_ok() {
            return;
        }
    }
    panic!("nothing of one replica is heard at the other");
}

async fn created(server: &Server, command: &str) -> Value {
    ok(server, "/tasks", json!({"command": command, "payload": 1})).await["id"].clone()
}

/// The next event at every stream, which is the same one.
async fn next(streams: &mut [Stream]) -> (String, Value) {
    let mut seen = Vec::new();
    for stream in streams {
        let event = stream.next().await.expect("an event");
        seen.push((event.kind, event.data));
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:#?}");
    seen.remove(0)
}

#[tokio::test]
async fn what_any_replica_does_is_told_everywhere_and_once() {
    let redis = Redis::start().await;
    let (one, two) = (redis.replica(), redis.replica());
    let query = "?command=render";
    let mut streams = [Stream::open(&one, query, None).await, Stream::open(&two, query, None).await];
    within_earshot(&one, &two).await;
    within_earshot(&two, &one).await;
    let id = created(&one, "Render").await;
    let (kind, data) = next(&mut streams).await;
    assert_eq!((kind.as_str(), &data["taskId"], &data["status"]), ("created", &id, &json!("PENDING")));
    assert_eq!((&data["command"], &data["tenantId"]), (&json!("Render"), &json!("dev-tenant")));
    ok(&two, "/tasks/claim", json!({"commands": ["render"]})).await;
    let (kind, data) = next(&mut streams).await;
    assert_eq!((kind.as_str(), &data["attempt"], &data["taskId"]), ("claimed", &json!(1), &id));
    assert_eq!(data["workerId"], json!("p"), "{data}");
    let path = format!("/tasks/{}/result", id.as_str().expect("an id"));
    ok(&one, &path, json!({"status": "FAILED", "error": "broken"})).await;
    let (kind, data) = next(&mut streams).await;
    assert_eq!(
        (kind.as_str(), &data["error"], &data["status"]),
        ("failed", &json!("broken"), &json!("FAILED"))
    );
    ok(&two, "/admin/queues/Render/pause", json!({})).await;
    let (kind, data) = next(&mut streams).await;
    assert_eq!((kind.as_str(), &data["taskId"]), ("paused", &Value::Null));
}

fn tenant(token: &str, tenant: &str) -> Value {
    json!({"type": "static", "config": {"token": token, "subject": "p", "raw": {"role": "ADMIN", "tenantId": tenant}}})
}

#[tokio::test]
async fn a_stream_tells_only_what_its_caller_may_see_and_asked_for() {
    let redis = Redis::start().await;
    let providers = json!({"producerAuthProvider": "multi", "producerAuthConfig":
        {"providers": [tenant(DEV_TOKEN, "dev-tenant"), tenant("stranger", "other")]}});
    let (one, two) = (redis.replica_with(providers.clone()), redis.replica_with(providers));
    let mut foreign = Stream::open_as("stranger", &two, "", None).await;
    let mut chosen = Stream::open(&two, "?command=B&types=created,dead", None).await;
    within_earshot(&one, &two).await;
    created(&one, "a").await;
    let wanted = created(&one, "b").await;
    assert_eq!(chosen.next().await.expect("an event").data["taskId"], wanted);
    let theirs = one.post("/v1/codeq/tasks", "stranger", json!({"command": "b", "payload": 1})).await;
    let event = foreign.next().await.expect("an event");
    assert_eq!((&event.data["taskId"], &event.data["tenantId"]), (&theirs.json["id"], &json!("other")));
}

#[tokio::test]
async fn a_stream_goes_on_at_its_replica_and_says_what_is_lost_elsewhere() {
    let redis = Redis::start().await;
    let (one, two) = (redis.replica(), redis.replica());
    let query = "?types=created&command=render";
    let mut stream = Stream::open(&two, query, None).await;
    within_earshot(&one, &two).await;
    let first = created(&one, "render").await;
    let event = stream.next().await.expect("an event");
    assert_eq!(event.data["taskId"], first);
    drop(stream);
    let second = created(&one, "render").await;
    let mut again = Stream::open(&two, query, Some(&event.id)).await;
    assert_eq!(again.next().await.expect("an event").data["taskId"], second, "it was kept meanwhile");
    let mut elsewhere = Stream::open(&one, query, Some(&event.id)).await;
    assert_eq!(elsewhere.next().await.expect("an event").kind, "lagged");
    assert_eq!(redis.number(&["CLIENT", "KILL", "TYPE", "pubsub"]), 2);
    assert_eq!(
        again.next().await.expect("an event").kind,
        "lagged",
        "something may have been said meanwhile"
    );
    within_earshot(&one, &two).await;
    let third = created(&one, "render").await;
    assert_eq!(again.next().await.expect("an event").data["taskId"], third);
}

#[tokio::test]
async fn events_are_sent_only_while_somebody_listens_elsewhere() {
    let redis = Redis::start().await;
    let (one, two) = (redis.replica(), redis.replica());
    // It ends in any case, and with it the reading.
    let mut spy = Command::new("timeout");
    let port = redis.port.to_string();
    let spy = spy.args(["60", "redis-cli", "-p", port.as_str(), "PSUBSCRIBE", "codeq:ev*"]);
    let spy = spy.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut spy = spy.spawn().expect("redis-cli comes with redis-server");
    let mut lines = BufReader::new(spy.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "1"), "it is subscribed");
    // Nobody listens, and then only a stream at the replica itself does.
    created(&one, "quiet").await;
    let own = Stream::open(&one, "", None).await;
    created(&one, "own").await;
    let _stream = Stream::open(&two, "", None).await;
    within_earshot(&one, &two).await;
    created(&one, "Heard").await;
    let mut said = Vec::new();
    let event = lines.by_ref().find_map(|line| {
        said.push(line.clone());
        line.strip_prefix("e ").filter(|text| text.contains("Heard")).map(str::to_owned)
    });
    let event: Value = serde_json::from_str(&event.expect("an event")).expect("JSON");
    assert_eq!((&event["type"], &event["command"]), (&json!("created"), &json!("Heard")));
    assert_eq!((&event["tenantId"], &event["status"]), (&json!("dev-tenant"), &json!("PENDING")));
    assert!(event["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{event}");
    for command in ["quiet", "own"] {
        assert!(said.iter().any(|line| *line == format!("r {command}:dev-tenant")), "{command}: {said:#?}");
        let is_event = |line: &&String| line.starts_with("e ") && line.contains(command);
        assert_eq!(said.iter().find(is_event), None);
    }
    drop(own);
    spy.kill().expect("it runs");
    spy.wait().expect("it was ours");
}
