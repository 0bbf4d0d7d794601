//! What is said in the log, in error answers, in metrics and in traces: never a token, a secret of the
//! configuration, a payload, a result or an error text of a worker.

use super::issuer::{ISSUER, Issuer, claims, worker_claims};
use super::keys::Keys;
use super::wire::Wire;
use crate::observability::collector::Collector;
use crate::observability::tracing;
use crate::streams::talk::{Producer, Worker, create};
use codeq_api::grpc::producer::CreateTask;
use serde_json::json;
use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Logged {
    child: Child,
    directory: tempfile::TempDir,
    address: String,
    /// Every answer that was an error, head and body.
    errors: RefCell<Vec<String>>,
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Logged {
    async fn start(jwks: &str, collector: &str, format: &str) -> Logged {
        let directory = tempfile::tempdir().expect("a directory");
        let side = |audience: &str| json!({"jwksUrl": jwks, "issuer": ISSUER, "audience": audience});
        let mut config = json!({
            "port": 0, "bindAddress": "127.0.0.1", "env": "dev", "logLevel": "debug", "logFormat": format,
            "webhookHmacSecret": "hmac-SENTINEL", "redisPassword": "redis-SENTINEL",
            "identityServiceApiKey": "api-SENTINEL", "artifacts": {"s3": {"secretAccessKey": "s3-SENTINEL"}},
            "workerStreamAddr": "127.0.0.1:0", "producerStreamAddr": "127.0.0.1:0",
            "persistenceConfig": {"path": directory.path().join("data")},
            "producerAuthProvider": "jwks", "producerAuthConfig": side("codeq-producer"),
            "workerAuthProvider": "multi", "workerAuthConfig": {"providers": [
                {"type": "jwks", "config": side("codeq-worker")},
                {"type": "static", "config": {"token": "static-SENTINEL"}},
            ]},
        });
        for (name, value) in tracing(collector).as_object().expect("settings") {
            config[name] = value.clone();
        }
        let file = directory.path().join("config.yaml");
        std::fs::write(&file, config.to_string()).expect("our directory");
        let output = |name: &str| File::create(directory.path().join(name)).expect("our directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_codeq"));
        command.env_clear().arg("serve").arg("--config").arg(&file).stdin(Stdio::null());
        let child = command.stdout(output("out")).stderr(output("err")).spawn().expect("the binary starts");
        let address = told(&directory.path().join("out"), "listening").await;
        Logged { child, directory, address, errors: RefCell::default() }
    }

    async fn streams(&self, side: &str) -> String {
        let line = format!("{side} streaming gRPC enabled");
        format!("http://{}", told(&self.directory.path().join("out"), &line).await)
    }

    fn said(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.directory.path().join(name)).expect("our file");
        read("out") + &read("err")
    }

    async fn ask(&self, method: &str, target: &str, token: &str, body: &str) -> super::wire::Reply {
        let mut wire = Wire::to(&self.address).await;
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n");
        let more = "Idempotency-Key: key-SENTINEL\r\nCookie: SENTINEL\r\nX-Request-Id: my-request";
        wire.send(format!("{head}{more}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await;
        let reply = wire.reply().await.expect("an answer");
        if reply.status >= 400 {
            self.errors.borrow_mut().push(format!("{method} {target}: {}{}", reply.head, reply.body));
        }
        reply
    }
}

/// The address in the line that tells it, in either format.
async fn told(log: &Path, words: &str) -> String {
    let started = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let line = text.lines().find(|line| line.contains(words) && line.contains("127.0.0.1:"));
        if let Some((_, rest)) = line.and_then(|line| line.split_once("127.0.0.1:")) {
            let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
            return format!("127.0.0.1:{port}");
        }
        assert!(started.elapsed() < Duration::from_secs(10), "the server does not start: {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every kind of request, good and bad, with a word in it that must not be found again.
async fn talk(server: &Logged, issuer: &Issuer) -> Vec<String> {
    let producer = issuer.token("k1", &claims(json!({"email": "mail-SENTINEL@example.com"})));
    let worker = issuer.token("k1", &worker_claims());
    let stranger = Issuer::generate().token("k1", &claims(json!({"iss": "SENTINEL"})));
    let task = r#"{"command":"work","payload":{"x":"SENTINEL"},"headers":{"h":"SENTINEL"},"webhook":"http://127.0.0.1:9/SENTINEL"}"#;
    let mut id = String::new();
    for _ in 0..3 {
        let created = server.ask("POST", "/v1/codeq/tasks", &producer, task).await;
        id = created.json()["id"].as_str().expect("a task").to_owned();
    }
    assert_eq!(server.ask("POST", "/v1/codeq/tasks/claim", &worker, "").await.status, 200);
    let submit = r#"{"status":"FAILED","error":"error-SENTINEL","result":{"r":"SENTINEL"},"artifacts":[{"name":"SENTINEL","url":"http://h/SENTINEL"}]}"#;
    let result = format!("/v1/codeq/tasks/{id}/result");
    assert_eq!(server.ask("POST", &result, &worker, submit).await.status, 200);
    assert_eq!(server.ask("GET", &result, &producer, "").await.status, 200);
    let bad = [
        ("POST", "/v1/codeq/tasks", "{\"payload\":\"SENTINEL"),
        ("POST", "/v1/codeq/tasks/claim", "SENTINEL"),
    ];
    for (method, target, body) in bad {
        for token in [&producer, &worker, &stranger, &"SENTINEL".to_owned(), &"static-SENTINEL".to_owned()] {
            server.ask(method, target, token, body).await;
        }
    }
    for target in [
        "/SENTINEL",
        "/v1/codeq/tasks/SENTINEL?token=SENTINEL",
        "/v1/codeq/admin/topics/SENTINEL",
        "/v1/codeq/admin/tasks?idempotencyKey=SENTINEL&limit=1&cursor=SENTINEL",
        "/v1/codeq/admin/tasks?error=SENTINEL&status=SENTINEL",
        "/v1/codeq/admin/dlq/SENTINEL/groups",
    ] {
        server.ask("GET", target, &producer, "").await;
    }
    let refused = [
        ("/v1/codeq/tasks", r#"{"command":"not one","payload":"SENTINEL"}"#),
        ("/v1/codeq/tasks", r#"{"command":"c","payload":1,"webhook":"SENTINEL"}"#),
        ("/v1/codeq/tasks", r#"{"command":"c","payload":1,"runAt":"SENTINEL"}"#),
        ("/v1/codeq/tasks", r#"{"command":"c","payload":1,"idempotencyKey":"another-SENTINEL"}"#),
        ("/v1/codeq/tasks", r#"{"command":"c","payload":1,"headers":{"SENTINEL !":"SENTINEL"}}"#),
        ("/v1/codeq/admin/tasks/cleanup", r#"{"before":"SENTINEL"}"#),
        ("/v1/codeq/admin/tasks/cancel", r#"{"filter":{"status":"SENTINEL"}}"#),
    ];
    for (target, body) in refused {
        assert_eq!(server.ask("POST", target, &producer, body).await.status, 400, "{body}");
    }
    let mut broken = Wire::to(&server.address).await;
    broken.send(b"SENTINEL\0 SENTINEL\r\nSENTINEL\r\n\r\n").await;
    broken.reply().await;
    talk_over_streams(server, &producer, &worker, &stranger).await;
    vec![producer, worker, stranger]
}

async fn talk_over_streams(server: &Logged, producer: &str, worker: &str, stranger: &str) {
    let (producers, workers) = (server.streams("producer").await, server.streams("worker").await);
    for token in [stranger, "static-SENTINEL", "SENTINEL"] {
        let mut refused = Producer::open(&producers).await;
        refused.hello(token).await;
        let status = refused.status().await;
        assert!(!status.message().contains("SENTINEL"), "{status:?}");
        let mut refused = Worker::open(&workers).await;
        refused.hello(token, "w").await;
        let status = refused.status().await;
        assert!(!status.message().contains("SENTINEL"), "{status:?}");
    }
    let mut creating = Producer::open(&producers).await;
    creating.hello(producer).await;
    creating.next().await;
    let task = create(1, "work");
    let payload = br#"{"x":"SENTINEL"}"#.as_slice().into();
    creating.create(CreateTask { payload, idempotency_key: "stream-SENTINEL".into(), ..task }).await;
    let mut working = Worker::open(&workers).await;
    working.hello(worker, "w").await;
    working.next().await;
}

#[tokio::test]
async fn no_token_secret_payload_or_result_is_told_again() {
    let issuer = Issuer::generate();
    let keys = Keys::serving(&[issuer.jwk("k1")]);
    for format in ["json", "text"] {
        let collector = Collector::start().await;
        let mut server = Logged::start(&keys.url(), &collector.address, format).await;
        let tokens = talk(&server, &issuer).await;
        let metrics = server.ask("GET", "/metrics", "", "").await.body;
        assert!(metrics.contains("codeq_"), "{metrics}");
        let spans = collector.until(&["codeq.task.create", "codeq.task.submit_result"]).await;
        let _ = Command::new("kill").arg("-TERM").arg(server.child.id().to_string()).status();
        assert!(server.child.wait().expect("ours").success());
        let said = server.said();
        assert!(said.contains("my-request"), "requests are logged at this level: {said}");
        assert!(server.errors.borrow().len() > 20, "many requests were refused");
        // A span of a request names its path, which is no place for secrets; the query is not in it.
        let spans = spans.into_iter().map(|mut span| {
            span.attributes.remove("http.path");
            format!("{span:?}")
        });
        let spans: Vec<String> = spans.collect();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<String>>();
        let told = [
            ("log", lines(&said)),
            ("error answers", server.errors.take()),
            ("metrics", lines(&metrics)),
            ("traces", spans),
        ];
        for (place, told) in told {
            let leak = told.iter().find(|line| leaks(line, place, &tokens));
            assert_eq!(leak, None, "{format}: in {place}");
        }
    }
}

fn leaks(line: &str, place: &str, tokens: &[String]) -> bool {
    // The list of errors begins each with its request, which is the test's own.
    let line =
        if place == "error answers" { line.split_once(": ").map_or(line, |(_, told)| told) } else { line };
    let parts = tokens.iter().flat_map(|token| token.split('.').skip(1));
    line.contains("SENTINEL") || parts.into_iter().any(|part| line.contains(part))
}
