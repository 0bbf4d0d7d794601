//! The event stream, read as `curl -N` would.

use crate::harness::{DEV_TOKEN, Server};
use reqwest::Response;
use serde_json::{Value, json};
use std::time::Duration;

/// A stream being read.
pub struct Stream {
    response: Response,
    text: String,
}

#[derive(Debug)]
pub struct Event {
    pub id: String,
    pub kind: String,
    pub data: Value,
}

impl Stream {
    pub async fn open(server: &Server, query: &str, last_id: Option<&str>) -> Stream {
        Stream::open_as(DEV_TOKEN, server, query, last_id).await
    }

    pub async fn open_as(token: &str, server: &Server, query: &str, last_id: Option<&str>) -> Stream {
        let path = format!("/v1/codeq/events{query}");
        let mut request = server.request(reqwest::Method::GET, &path).bearer_auth(token);
        if let Some(id) = last_id {
            request = request.header("Last-Event-ID", id);
        }
        let response = request.send().await.expect("the server answers");
        assert_eq!(response.status(), 200);
        let mut stream = Stream { response, text: String::new() };
        // The first line tells that the server listens on our behalf.
        while !stream.text.contains("\n\n") {
            assert!(stream.more().await, "the stream begins");
        }
        stream.text.clear();
        stream
    }

    async fn more(&mut self) -> bool {
        let chunk = tokio::time::timeout(Duration::from_secs(20), self.response.chunk()).await;
        match chunk.expect("events come in time").expect("the stream is well") {
            Some(bytes) => self.text.push_str(std::str::from_utf8(&bytes).expect("UTF-8")),
            None => return false,
        }
        true
    }

    /// `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let lines = block.lines();
                    lines.filter_map(|line| line.strip_prefix(name)).next().unwrap_or_default().to_owned()
                };
                let (id, kind, data) = (field("id: "), field("event: "), field("data: "));
                self.text = rest.to_owned();
                if !kind.is_empty() {
                    return Some(Event { id, kind, data: serde_json::from_str(&data).expect("JSON") });
                }
            } else if !self.more().await {
                return None;
            }
        }
    }
}

async fn create(server: &Server, command: &str) -> String {
    let made = server.post("/v1/codeq/tasks", DEV_TOKEN, json!({"command": command, "payload": 1})).await;
    made.json["id"].as_str().expect("a task").to_owned()
}

#[tokio::test]
async fn the_life_of_a_task_is_told_in_order() {
    let server = Server::dev();
    let mut stream = Stream::open(&server, "", None).await;
    let id = create(&server, "Render").await;
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({})).await;
    let path = format!("/v1/codeq/tasks/{id}");
    server.post(&format!("{path}/nack"), DEV_TOKEN, json!({"reason": "later", "delaySeconds": 1})).await;
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"waitSeconds": 10})).await;
    server.post(&format!("{path}/result"), DEV_TOKEN, json!({"status": "COMPLETED", "result": {}})).await;
    server.post("/v1/codeq/admin/queues/Render/pause", DEV_TOKEN, json!({})).await;
    let mut kinds = Vec::new();
    while kinds.last().map(String::as_str) != Some("paused") {
        let event = stream.next().await.expect("another event");
        assert_eq!(
            (&event.data["type"], &event.data["tenantId"]),
            (&json!(event.kind), &json!("dev-tenant"))
        );
        assert_eq!(event.data["command"], "Render");
        let attempt = event.data["attempt"].as_u64();
        match event.kind.as_str() {
            "created" => assert_eq!((&event.data["taskId"], attempt), (&json!(id), None)),
            "requeued" => assert_eq!((&event.data["error"], attempt), (&json!("later"), Some(1))),
            "completed" => assert_eq!((&event.data["status"], attempt), (&json!("COMPLETED"), Some(2))),
            _ => {}
        }
        kinds.push(event.kind);
    }
    assert_eq!(kinds, ["created", "claimed", "requeued", "promoted", "claimed", "completed", "paused"]);
}

#[tokio::test]
async fn a_stream_goes_on_behind_the_last_event_or_says_what_is_lost() {
    let mut server = Server::dev();
    let mut stream = Stream::open(&server, "?types=created", None).await;
    let first = create(&server, "a").await;
    let event = stream.next().await.expect("an event");
    assert_eq!(event.data["taskId"], json!(first));
    drop(stream);
    let second = create(&server, "a").await;
    let mut stream = Stream::open(&server, "", Some(&event.id)).await;
    assert_eq!(stream.next().await.expect("an event").data["taskId"], json!(second));
    server.kill();
    server.start_again();
    let mut stream = Stream::open(&server, "", Some(&event.id)).await;
    assert_eq!(stream.next().await.expect("an event").kind, "lagged");
    let third = create(&server, "a").await;
    assert_eq!(stream.next().await.expect("an event").data["taskId"], json!(third));
    server.signal("TERM");
    while stream.next().await.is_some() {}
    assert!(server.wait().success(), "a shutdown ends the stream");
}

#[tokio::test]
async fn a_stream_tells_how_far_a_task_is_and_what_may_go_on() {
    let server = Server::memory();
    let id = create(&server, "a").await;
    let held = json!({"command": "b", "payload": 1, "after": [id]});
    let held = server.post("/v1/codeq/tasks", DEV_TOKEN, held).await;
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["a"]})).await;
    let mut told = Stream::open(&server, "?types=progress,released", None).await;
    let task = format!("/v1/codeq/tasks/{id}");
    let beat = json!({"progress": {"percent": 40}});
    assert_eq!(server.post(&format!("{task}/heartbeat"), DEV_TOKEN, beat).await.status, 200);
    let progress = told.next().await.expect("an event");
    let expected = (&json!(id), &json!({"percent": 40}), &json!("IN_PROGRESS"), &json!(1));
    let data = &progress.data;
    assert_eq!(progress.kind, "progress");
    assert_eq!((&data["taskId"], &data["progress"], &data["status"], &data["attempt"]), expected);
    let result = json!({"status": "COMPLETED", "result": {"n": 1}});
    assert_eq!(server.post(&format!("{task}/result"), DEV_TOKEN, result).await.status, 200);
    let released = told.next().await.expect("an event");
    assert_eq!(released.kind, "released");
    assert_eq!((&released.data["taskId"], &released.data["status"]), (&held.json["id"], &json!("PENDING")));
}

#[tokio::test]
async fn a_stream_tells_only_what_was_asked_for() {
    let server = Server::memory();
    let mut all = Stream::open(&server, "", None).await;
    let wanted = create(&server, "a").await;
    // A create may be answered before its event is told: what comes next comes after it.
    assert_eq!(all.next().await.expect("an event").kind, "created");
    let mut by_task = Stream::open(&server, &format!("?taskId={wanted}"), None).await;
    let mut by_command = Stream::open(&server, "?command=B&types=created,dead", None).await;
    server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["a"]})).await;
    create(&server, "a").await;
    let other = create(&server, "b").await;
    assert_eq!(by_task.next().await.expect("an event").kind, "claimed");
    assert_eq!(by_command.next().await.expect("an event").data["taskId"], json!(other));
    for (query, status) in [("?types=gone", 400), ("?taskId=x", 404)] {
        assert_eq!(
            server.get(&format!("/v1/codeq/events{query}"), DEV_TOKEN).await.status,
            status,
            "{query}"
        );
    }
}
