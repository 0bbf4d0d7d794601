//! The HTTP contract, route by route, against a real process.
//!
//! Every answer that a helper of this file gives has passed [`lawful`]: what holds for all answers is
//! checked on all of them. Tests of what is kept, and of how soon it is told, run on the embedded store;
//! the others in memory, which starts at once.

mod admin;
mod batches;
mod bodies;
mod claim;
mod create;
mod dead_letters;
mod dependencies;
mod dev;
mod flow;
mod global;
mod idempotency;
mod limits;
mod open_routes;
mod payload;
mod polls;
mod published;
mod rates;
mod reads;
mod reports;
mod restart;
mod rights;
mod schedules;
mod shutdown;
mod startup;
mod submit;
mod submit_batch;
mod subscriptions;
mod tenants;
mod test_clock;
mod ticks;
mod timezone;
mod topics;
mod workers;

use crate::harness::{Answer, DEV_TOKEN, Server};
use codeq_queue::Time;
use reqwest::Method;
use serde_json::{Value, json};

const API: &str = "/v1/codeq";
/// Of the form of an id, but of no task.
const UNKNOWN_ID: &str = "00000000-0000-4000-8000-000000000000";

/// Any request under `/v1/codeq`.
async fn call(server: &Server, method: Method, path: &str, token: &str, body: Option<&str>) -> Answer {
    let body = body.map(|text| text.as_bytes().to_vec());
    let answer = server.send(method, &format!("{API}{path}"), Some(token), body).await;
    lawful(&answer);
    answer
}

async fn post(server: &Server, path: &str, body: Value) -> Answer {
    post_as(server, DEV_TOKEN, path, body).await
}

async fn post_as(server: &Server, token: &str, path: &str, body: Value) -> Answer {
    call(server, Method::POST, path, token, Some(&body.to_string())).await
}

/// For bodies that are not JSON, or whose exact text matters.
async fn post_text(server: &Server, path: &str, body: &str) -> Answer {
    call(server, Method::POST, path, DEV_TOKEN, Some(body)).await
}

async fn get(server: &Server, path: &str) -> Answer {
    get_as(server, DEV_TOKEN, path).await
}

async fn get_as(server: &Server, token: &str, path: &str) -> Answer {
    call(server, Method::GET, path, token, None).await
}

/// A created task.
async fn create(server: &Server, body: Value) -> Value {
    let answer = post(server, "/tasks", body).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.json
}

async fn claim(server: &Server, body: Value) -> Value {
    let answer = post(server, "/tasks/claim", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json
}

/// The id of a task that the development worker runs. `fields` are added to the create.
async fn running(server: &Server, command: &str, fields: Value) -> String {
    let mut body = json!({"command": command, "payload": 1});
    let fields = fields.as_object().expect("fields are an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    let task = create(server, body).await;
    let claimed = claim(server, json!({"commands": [command]})).await;
    assert_eq!(claimed["id"], task["id"]);
    id(&task)
}

fn id(task: &Value) -> String {
    task["id"].as_str().expect("a task has an id").to_owned()
}

async fn task(server: &Server, id: &str) -> Value {
    let answer = get(server, &format!("/tasks/{id}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json
}

/// What holds for every answer of the API.
fn lawful(answer: &Answer) {
    let request_id = answer.header("x-request-id");
    assert!(!request_id.is_empty(), "{}", answer.text);
    if answer.status == 204 {
        assert_eq!((answer.text.as_str(), answer.header("content-type")), ("", ""));
        return;
    }
    assert_eq!(answer.header("content-type"), "application/json; charset=utf-8", "{}", answer.text);
    assert!(is_compact(&answer.text), "{}", answer.text);
}

/// Whether there is no white space outside strings.
fn is_compact(text: &str) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    text.bytes().all(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ => return in_string || !byte.is_ascii_whitespace(),
        }
        true
    })
}

/// The whole answer is this refusal and nothing else.
#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str, text: &str) {
    let request_id = answer.header("x-request-id");
    let body = format!(r#"{{"error":{},"code":"{code}","requestId":"{request_id}"}}"#, json!(text));
    assert_eq!((answer.status, &*answer.text), (status, &*body));
}

/// The names of an object's fields, sorted.
fn fields(object: &Value) -> Vec<&str> {
    object.as_object().unwrap_or_else(|| panic!("no object: {object}")).keys().map(String::as_str).collect()
}

#[track_caller]
fn instant(text: &Value) -> Time {
    let text = text.as_str().unwrap_or_else(|| panic!("no instant: {text}"));
    codeq_server::stamp::parse(text).unwrap_or_else(|| panic!("not RFC 3339: {text}"))
}

fn now() -> Time {
    use codeq_store::Clock;
    codeq_store::SystemClock.now()
}

/// RFC 3339, so many seconds from now.
fn ahead(seconds: i64) -> String {
    Time::from_millis(now().millis() + seconds * 1000).to_utc()
}

/// Whether `instant` is `seconds` after a moment between `before` and now, give or take the second that
/// whole seconds cut off.
#[track_caller]
fn lies_ahead(instant: Time, seconds: i64, before: Time) {
    let (earliest, latest) = (before.millis() + (seconds - 1) * 1000, now().millis() + seconds * 1000);
    assert!((earliest..=latest).contains(&instant.millis()), "{} is not {seconds} s ahead", instant.to_utc());
}

/// A static provider's entry in `multi`.
pub fn fixed(token: &str, config: Value) -> Value {
    let mut config = config;
    config["token"] = json!(token);
    json!({"type": "static", "config": config})
}

/// `codeq serve` with these static tokens on either side, and more settings.
pub fn serve_with(producers: Vec<Value>, workers: Vec<Value>, more: Value) -> Server {
    let mut config = json!({
        "env": "dev",
        "persistenceProvider": "memory",
        "persistenceConfig": {},
        "producerAuthProvider": "multi",
        "producerAuthConfig": {"providers": producers},
        "workerAuthProvider": "multi",
        "workerAuthConfig": {"providers": workers},
    });
    let more = more.as_object().expect("settings are an object").clone();
    config.as_object_mut().expect("an object").extend(more);
    Server::serve(config)
}

/// A development server with more settings.
fn dev_with(more: Value) -> Server {
    let mut config = json!({
        "env": "dev",
        "persistenceProvider": "memory",
        "persistenceConfig": {},
        "producerAuthProvider": "static",
        "producerAuthConfig": {"token": DEV_TOKEN, "raw": {"role": "ADMIN", "tenantId": "dev-tenant"}},
        "allowProducerAsWorker": true,
    });
    let more = more.as_object().expect("settings are an object").clone();
    config.as_object_mut().expect("an object").extend(more);
    Server::serve(config)
}

/// The six scopes of a worker.
fn worker_scopes() -> Value {
    let verbs = ["claim", "heartbeat", "abandon", "nack", "result", "subscribe"];
    json!(verbs.map(|verb| format!("codeq:{verb}")))
}
