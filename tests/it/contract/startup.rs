//! A server that cannot serve as configured does not start: config.md §5.

use crate::harness::Server;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// The error that the server tells on stderr, without the advice below it; it must end by itself with exit code 1.
fn refuses(arguments: &[&str], env: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codeq"));
    command.env_clear().envs(env.iter().copied()).args(arguments).stdin(Stdio::null());
    let ended = command.output().expect("the binary starts");
    let told = String::from_utf8(ended.stderr).expect("text");
    assert_eq!(ended.status.code(), Some(1), "{told}");
    told.lines().rfind(|line| line.starts_with("[ERROR] ")).unwrap_or_default().to_owned()
}

/// What `serve` says about this file.
fn refuses_file(text: &str) -> String {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("config.yaml");
    std::fs::write(&file, text).expect("the directory is ours");
    refuses(&["serve", "--config", file.to_str().expect("a plain name")], &[])
}

/// A configuration that would do, with these settings instead.
fn with(more: Value) -> String {
    let mut config = json!({
        "port": 0, "bindAddress": "127.0.0.1", "env": "dev", "persistenceProvider": "memory",
        "producerAuthProvider": "static", "producerAuthConfig": {"token": "t", "raw": {"tid": "acme"}},
        "allowProducerAsWorker": true,
    });
    let more = more.as_object().expect("settings").clone();
    config.as_object_mut().expect("an object").extend(more);
    config.to_string()
}

#[test]
fn a_server_without_authentication_does_not_start() {
    let producer = "producer auth is not configured: set producerAuthProvider or identityJwksUrl";
    let worker =
        "worker auth is not configured: set workerAuthProvider, workerJwksUrl or allowProducerAsWorker";
    let secret = "webhookHmacSecret is required when webhooks are enabled";
    let failed = "[ERROR] invalid config: config validation failed:";
    assert_eq!(refuses_file("{}"), format!("{failed} {producer}; {worker}; {secret}"));
    assert_eq!(refuses_file("env: dev"), format!("{failed} {producer}; {worker}"));
    assert_eq!(refuses(&["serve"], &[("ENV", "dev")]), format!("{failed} {producer}; {worker}"));
}

#[test]
fn settings_that_contradict_each_other_are_named() {
    for (more, text) in [
        (json!({"env": "prod"}), "webhookHmacSecret is required when webhooks are enabled"),
        (json!({"persistenceProvider": "mysql"}), "unknown persistenceProvider \"mysql\""),
        (json!({"durability": "maybe"}), "durability must be fsync or os"),
        (json!({"sharding": {"enabled": true}}), "sharding requires persistenceProvider=kvrocks"),
        (json!({"raft": {"enabled": true}}), "raft is not supported"),
        (json!({"cluster": {"enabled": true}}), "cluster is not supported"),
        (
            json!({"limits": {"maxPayloadBytes": 11, "maxBodyBytes": 10}}),
            "limits.maxPayloadBytes exceeds limits.maxBodyBytes",
        ),
        (json!({"artifacts": {"provider": "s3"}}), "artifacts.s3.bucket is required"),
        (json!({"workerJwksUrl": "nope"}), "workerJwksUrl must be a valid http(s) URL"),
        (
            json!({"env": "prod", "webhookHmacSecret": "s", "workerJwksUrl": "http://h/"}),
            "workerIssuer is required in non-dev",
        ),
        (json!({"timezone": "Mars/Olympus"}), "timezone \"Mars/Olympus\" is not a known time zone"),
    ] {
        let told = refuses_file(&with(more.clone()));
        assert_eq!(told, format!("[ERROR] invalid config: config validation failed: {text}"), "{more}");
    }
}

#[test]
fn a_source_that_cannot_be_read_is_named() {
    for (told, name) in [
        (refuses(&["serve", "--config", "/nowhere/c.yaml"], &[]), "/nowhere/c.yaml"),
        (refuses_file("port: [1"), ""),
        (refuses_file(&with(json!({"prot": 1}))), "prot"),
        (refuses_file(&with(json!({"persistenceConfig": {"pth": "x"}}))), "persistenceConfig.pth"),
        (refuses(&["serve"], &[("DEFAULT_LEASE_SECONDS", "many")]), "DEFAULT_LEASE_SECONDS"),
        (refuses(&["dev"], &[("CODEQ_PORT", "many")]), "CODEQ_PORT"),
    ] {
        assert!(told.starts_with("[ERROR] load config: ") && told.contains(name), "{name}: {told}");
    }
}

#[test]
fn what_cannot_be_opened_ends_the_start() {
    for (more, text) in [
        (json!({"producerAuthProvider": "ldap"}), "unknown auth provider type: ldap"),
        (json!({"producerAuthConfig": {}}), "token is required"),
        (
            json!({"producerAuthProvider": "jwks", "producerAuthConfig": {"jwksUrl": "http://h/", "issuer": "i"}}),
            "audience is required",
        ),
    ] {
        assert_eq!(refuses_file(&with(more)), format!("[ERROR] init app: {text}"));
    }
    let multi = json!({"producerAuthProvider": "multi", "producerAuthConfig": {"providers": []}});
    let told = refuses_file(&with(multi));
    assert!(told.starts_with("[ERROR] init app: multi auth: "), "{told}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let told = refuses_file(&with(json!({"port": port})));
    assert!(told.starts_with("[ERROR] init app: ") && told.contains(&port.to_string()), "{told}");
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let server = Server::dev();
    let data = server.data();
    let told = refuses(&["dev", "--port", "0", "--data-dir", data.to_str().expect("a plain name")], &[]);
    assert!(told.starts_with("[ERROR] init app: "), "{told}");
}
