//! TLS, in a process of its own: which authorities are trusted is a matter of its environment.

use crate::server::{Server, example};
use serde_json::json;
use std::process::Command;

/// A certificate that is its own authority, for the loopback address.
const CERTIFY: &str = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
    -subj /CN=codeq -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
    -keyout key.pem -out cert.pem";

#[test]
fn tasks_go_over_http_and_streams_with_tls() {
    let files = tempfile::tempdir().expect("a temporary directory");
    let made = Command::new("sh").args(["-ec", CERTIFY]).current_dir(files.path()).output().expect("a shell");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| files.path().join(name));
    let server = Server::with(json!({"tls": {"certFile": certificate, "keyFile": key}}));
    let https = |address: &str| format!("https://{}", address.trim_start_matches("http://"));
    let program = example("end_to_end");
    let run = |more: &[String]| {
        let mut command = Command::new(&program);
        command.env_clear().env("SSL_CERT_FILE", &certificate).arg(https(&server.base)).args(more);
        let output = command.output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("1000 tasks, total 500500"), "{said}");
    };
    run(&[]);
    run(&[https(&server.producer_stream), https(&server.worker_stream)]);
}
