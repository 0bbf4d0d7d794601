//! A server that speaks nothing but TLS.

use super::{Redis, ok};
use crate::harness::Server;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// An authority, and a certificate by it for the loopback address.
const CERTIFY: &str = "
    key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
    openssl req -x509 $key -days 2 -keyout ca.key -out ca.pem -subj /CN=authority
    openssl req $key -keyout server.key -out server.csr -subj /CN=server
    echo subjectAltName=IP:127.0.0.1 > names
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem
";

fn certify(directory: &Path) {
    let output = Command::new("sh").args(["-ec", CERTIFY]).current_dir(directory).output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn config(redis: &Redis, is_tls: bool) -> Value {
    redis.config(json!({
        "persistenceConfig": {"addr": format!("127.0.0.1:{}", redis.port), "tls": is_tls, "timeoutSeconds": 2}
    }))
}

/// What the binary says when it cannot start.
fn refusal(environment: &[(&str, &str)], config: Value) -> String {
    let directory = TempDir::new().expect("a temporary directory");
    let file = directory.path().join("config.yaml");
    std::fs::write(&file, config.to_string()).expect("the directory is ours");
    let mut command = Command::new(env!("CARGO_BIN_EXE_codeq"));
    command.env_clear().envs(environment.iter().copied()).arg("serve").arg("--config").arg(file);
    let output = command.output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).expect("text")
}

#[tokio::test]
async fn a_task_goes_through_a_server_of_an_authority_that_is_trusted() {
    let directory = TempDir::new().expect("a temporary directory");
    certify(directory.path());
    let at = |file: &str| directory.path().join(file).to_str().expect("a plain name").to_owned();
    let (authority, certificate, key) = (at("ca.pem"), at("server.pem"), at("server.key"));
    let more = ["--port", "0", "--tls-port", "PORT", "--tls-auth-clients", "no"];
    let files = ["--tls-ca-cert-file", &authority, "--tls-cert-file", &certificate, "--tls-key-file", &key];
    let redis = Redis::start_in(directory, &[&more[..], &files[..]].concat()).await;

    let server = Server::serve_in(vec![("SSL_CERT_FILE", authority.clone())], config(&redis, true));
    let made = ok(&server, "/tasks", json!({"command": "RENDER", "payload": {}})).await;
    let claimed = ok(&server, "/tasks/claim", json!({"commands": ["RENDER"], "waitSeconds": 5})).await;
    assert_eq!(claimed["id"], made["id"]);

    let told = refusal(&[], config(&redis, true));
    assert!(told.contains("UnknownIssuer"), "{told}");
    let told = refusal(&[("SSL_CERT_FILE", &authority)], config(&redis, false));
    assert!(told.contains("set persistenceConfig.tls"), "{told}");
    let plain = Redis::start().await;
    let told = refusal(&[("SSL_CERT_FILE", &authority)], config(&plain, true));
    assert!(told.contains("unset persistenceConfig.tls"), "{told}");
}
