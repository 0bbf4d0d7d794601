//! Whole requests: path, query, headers and body, through routing, auth, limits, parsing, rules and a store.
//!
//! An input is a request without its version: `METHOD target`, lines of headers, an empty line, the body.
//! Demanded is an answer that blames the caller if anybody: never a 5xx, and errors in the documented form.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use codeq_server::config::{self, Config, DEV_TOKEN, Mode};
use codeq_server::http::{Entry, routes};
use codeq_store::memory::{self, MemoryOptions};
use codeq_store::{Rules, SystemClock};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Requests after which the store is thrown away: what they create is kept in memory.
const FRESH: u32 = 20_000;
/// Longest answer that is read.
const ANSWER: usize = 64 << 20;
const NOBODY: &str = "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11";

pub struct Desk {
    runtime: Runtime,
    config: Config,
    entry: RefCell<Entry>,
    used: Cell<u32>,
    /// Where to go on in a list of tasks.
    cursor: String,
    _artifacts: TempDir,
}

impl Desk {
    pub fn open() -> Desk {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime needs only memory");
        let artifacts = tempfile::tempdir().expect("a temporary directory");
        let text =
            format!("persistenceProvider: memory\nlocalArtifactsDir: {}\n", artifacts.path().display());
        let config = config::load_text(&text, Mode::Dev).expect("a plain configuration").config;
        let entry = RefCell::new(begin(&runtime, &config));
        let page = "GET /v1/codeq/admin/tasks?limit=1";
        let request = request(page.as_bytes()).expect("a plain request");
        let cursor = runtime.block_on(async {
            let entry = entry.borrow().clone();
            let listed = to_bytes(entry.serve(request).await.into_body(), ANSWER).await;
            let listed: Value = serde_json::from_slice(&listed.expect("a list")).expect("a list");
            listed["next"].as_str().expect("several pages").to_owned()
        });
        Desk { runtime, config, entry, used: Cell::new(0), cursor, _artifacts: artifacts }
    }

    /// Every route of the table; the files of the corpus add queries and bodies.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let names = [("{id}", NOBODY), ("{name}", "a"), ("{command}", "work"), ("{topicName}", "t")];
        let fill = |path: &str| names.iter().fold(path.to_owned(), |path, (name, is)| path.replace(name, is));
        let every = routes::table().into_iter().map(|route| format!("{} {}", route.method, fill(route.path)));
        let pages = ["admin/tasks", "admin/dlq/work", "admin/webhooks"]
            .into_iter()
            .map(|list| format!("GET /v1/codeq/{list}?limit=2&order=newest&cursor={}", self.cursor));
        every.chain(pages).map(String::into_bytes).collect()
    }

    pub fn read(&self, input: &[u8]) {
        let Some(request) = request(input) else { return };
        if self.used.replace(self.used.get() + 1) >= FRESH {
            self.used.set(0);
            let fresh = begin(&self.runtime, &self.config);
            *self.entry.borrow_mut() = fresh;
        }
        let entry = self.entry.borrow().clone();
        self.runtime.block_on(async { check(entry.serve(request).await).await });
    }
}

/// A server with a few tasks.
fn begin(runtime: &Runtime, config: &Config) -> Entry {
    let options =
        MemoryOptions { rules: Rules::default(), shards: 2, clock: Arc::new(SystemClock), observer: None };
    runtime.block_on(async {
        let store = memory::open(options).expect("a store in memory");
        let entry = codeq_server::routes_over(config, store).expect("a plain configuration");
        for number in 0..6 {
            let body = format!(r#"{{"command":"work","payload":{number},"idempotencyKey":"k{number}"}}"#);
            let create = request(format!("POST /v1/codeq/tasks\n\n{body}").as_bytes());
            let created = entry.clone().serve(create.expect("a plain request")).await;
            assert_eq!(created.status(), StatusCode::ACCEPTED);
        }
        entry
    })
}

/// `None` for what a parser of HTTP would not have let through.
fn request(input: &[u8]) -> Option<Request> {
    let end = input.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = input.split_at(end.unwrap_or(input.len()));
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut first = lines.next()?.splitn(2, |byte| *byte == b' ');
    let method = Method::from_bytes(first.next()?).ok()?;
    let uri = Uri::try_from(first.next()?).ok()?;
    let mut request = Request::new(Body::from(body.get(2..).unwrap_or_default().to_vec()));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {DEV_TOKEN}")).ok()?);
    for line in lines.take(50) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(parts.next()?.trim_ascii()).ok()?;
        headers.append(name, HeaderValue::from_bytes(parts.next()?.trim_ascii()).ok()?);
    }
    Some(request)
}

async fn check(response: Response) {
    let (status, headers) = (response.status(), response.headers().clone());
    assert!(!status.is_server_error(), "{status}: {:?}", to_bytes(response.into_body(), ANSWER).await);
    assert!(headers.contains_key("x-request-id"), "{status} without a request id");
    let kind = headers.get("content-type").map_or(&b""[..], HeaderValue::as_bytes);
    // A stream of events has no end, and a backup comes as slowly as it is asked for.
    let is_long = |start: &&[u8]| kind.starts_with(start);
    if [&b"text/event-stream"[..], b"application/octet-stream"].iter().any(is_long) {
        return;
    }
    let body = to_bytes(response.into_body(), ANSWER).await.expect("an answer has an end");
    if status.is_client_error() {
        let error: Value = serde_json::from_slice(&body).expect("an error is JSON");
        let has = |name: &str| error[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(has("error") && has("code") && has("requestId"), "{status}: {error}");
    }
}
