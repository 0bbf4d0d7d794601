//! What is said in the log: never a token, a payload, a result or an error text of a worker.

use super::issuer::{ISSUER, Issuer, claims, worker_claims};
use super::keys::Keys;
use super::wire::Wire;
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Logged {
    child: Child,
    directory: tempfile::TempDir,
    address: String,
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Logged {
    async fn start(jwks: &str, format: &str) -> Logged {
        let directory = tempfile::tempdir().expect("a directory");
        let side = |audience: &str| json!({"jwksUrl": jwks, "issuer": ISSUER, "audience": audience});
        let config = json!({
            "port": 0, "bindAddress": "127.0.0.1", "env": "dev", "logLevel": "debug", "logFormat": format,
            "webhookHmacSecret": "hmac-SENTINEL",
            "persistenceConfig": {"path": directory.path().join("data")},
            "producerAuthProvider": "jwks", "producerAuthConfig": side("codeq-producer"),
            "workerAuthProvider": "multi", "workerAuthConfig": {"providers": [
                {"type": "jwks", "config": side("codeq-worker")},
                {"type": "static", "config": {"token": "static-SENTINEL"}},
            ]},
        });
        let file = directory.path().join("config.yaml");
        std::fs::write(&file, config.to_string()).expect("our directory");
        let output = |name: &str| File::create(directory.path().join(name)).expect("our directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_codeq"));
        command.env_clear().arg("serve").arg("--config").arg(&file).stdin(Stdio::null());
        let child = command.stdout(output("out")).stderr(output("err")).spawn().expect("the binary starts");
        let address = listening(&directory.path().join("out")).await;
        Logged { child, directory, address }
    }

    fn said(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.directory.path().join(name)).expect("our file");
        read("out") + &read("err")
    }

    async fn ask(&self, method: &str, target: &str, token: &str, body: &str) -> super::wire::Reply {
        let mut wire = Wire::to(&self.address).await;
        let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n");
        let more = "Idempotency-Key: key-SENTINEL\r\nCookie: SENTINEL\r\nX-Request-Id: my-request";
        wire.send(format!("{head}{more}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await;
        wire.reply().await.expect("an answer")
    }
}

/// The address in the line that tells it, in either format.
async fn listening(log: &Path) -> String {
    let started = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let line = text.lines().find(|line| line.contains("listening") && line.contains("127.0.0.1:"));
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
    for target in ["/SENTINEL", "/v1/codeq/tasks/SENTINEL?token=SENTINEL", "/v1/codeq/admin/topics/SENTINEL"]
    {
        server.ask("GET", target, &producer, "").await;
    }
    let mut broken = Wire::to(&server.address).await;
    broken.send(b"SENTINEL\0 SENTINEL\r\nSENTINEL\r\n\r\n").await;
    broken.reply().await;
    vec![producer, worker, stranger]
}

#[tokio::test]
async fn the_log_holds_no_token_payload_or_result() {
    let issuer = Issuer::generate();
    let keys = Keys::serving(&[issuer.jwk("k1")]);
    for format in ["json", "text"] {
        let mut server = Logged::start(&keys.url(), format).await;
        let tokens = talk(&server, &issuer).await;
        let _ = Command::new("kill").arg("-TERM").arg(server.child.id().to_string()).status();
        assert!(server.child.wait().expect("ours").success());
        let said = server.said();
        assert!(said.contains("my-request"), "requests are logged at this level: {said}");
        let leak = said.lines().find(|line| line.contains("SENTINEL"));
        assert_eq!(leak, None, "{format}");
        for token in tokens {
            let parts: Vec<&str> = token.split('.').collect();
            assert!(parts.iter().skip(1).all(|part| !said.contains(part)), "{format}: a token is in the log");
        }
    }
}
