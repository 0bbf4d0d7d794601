//! `codeq token`: tokens that a server takes without an identity provider.

use super::{Cli, Running, missing};
use crate::harness::Server;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// The issuer's keys, served, and their URL.
fn serve(cli: &Cli, keys: &[&str]) -> (Running, String) {
    let keys: Vec<&str> = keys.iter().flat_map(|key| ["--key", key]).collect();
    let mut serving = cli.start(&[&["token", "jwks", "--serve", "127.0.0.1:0"], &keys[..]].concat());
    let line = serving.until("serving keys on ");
    let url = line.split_whitespace().next_back().expect("the URL is the last word").to_owned();
    (serving, url)
}

fn server(jwks: &str) -> Server {
    Server::serve(json!({
        "env": "dev", "persistenceProvider": "memory", "persistenceConfig": {},
        "identityJwksUrl": jwks, "identityIssuer": "codeq-local", "identityAudience": "codeq-producer",
        "workerJwksUrl": jwks, "workerIssuer": "codeq-local",
    }))
}

fn mint(cli: &Cli, arguments: &[&str]) -> String {
    cli.ok(&[&["token", "mint"], arguments].concat()).trim_end().to_owned()
}

#[tokio::test]
async fn tokens_of_both_algorithms_open_the_routes_of_their_role() {
    for algorithm in ["RS256", "EdDSA"] {
        let cli = Cli::new();
        let said = cli.ok(&["token", "keygen", "--alg", algorithm]);
        assert!(said.starts_with(&format!("[OK] {algorithm} key written to codeq-key.pem (kid ")), "{said}");
        let (_serving, url) = serve(&cli, &[]);
        let server = server(&url);
        let producer = mint(&cli, &["--producer", "--tenant", "acme"]);
        let worker = mint(&cli, &["--worker", "--tenant", "acme", "--events", "demo,other", "--ttl", "5m"]);
        let admin = mint(&cli, &["--admin", "--tenant", "acme"]);
        let operator = mint(&cli, &["--operator", "--tenant", "ops"]);
        let observer = mint(&cli, &["--observer", "--tenant", "acme"]);
        assert_eq!(
            server.post("/v1/codeq/tasks", &observer, json!({"command": "demo", "payload": 1})).await.status,
            403
        );
        let create = json!({"command": "demo", "payload": 1});
        assert_eq!(server.post("/v1/codeq/tasks", &producer, create.clone()).await.status, 202);
        let claimed = server.post("/v1/codeq/tasks/claim", &worker, json!({"commands": ["demo"]})).await;
        assert_eq!((claimed.status, &claimed.json["tenantId"]), (200, &json!("acme")), "{}", claimed.text);
        let foreign = server.post("/v1/codeq/tasks/claim", &worker, json!({"commands": ["foreign"]})).await;
        assert_eq!(foreign.status, 403);
        for (token, path, status) in [
            (&producer, "/v1/codeq/admin/queues", 403),
            (&admin, "/v1/codeq/admin/queues", 200),
            (&observer, "/v1/codeq/admin/queues", 200),
            (&observer, "/v1/codeq/admin/queues?tenant=other", 403),
            (&admin, "/v1/codeq/admin/queues?tenant=other", 403),
            (&operator, "/v1/codeq/admin/queues?tenant=*", 200),
            (&worker, "/v1/codeq/admin/queues", 401),
        ] {
            assert_eq!(server.get(path, token).await.status, status, "{path}");
        }
        assert_eq!(server.post("/v1/codeq/tasks", &worker, create).await.status, 401);
    }
}

#[tokio::test]
async fn keys_can_be_changed_without_a_gap() {
    let cli = Cli::new();
    cli.ok(&["token", "keygen", "--out", "old.pem"]);
    cli.ok(&["token", "keygen", "--out", "new.pem", "--alg", "EdDSA"]);
    let (_serving, url) = serve(&cli, &["old.pem", "new.pem"]);
    let server = server(&url);
    for key in ["old.pem", "new.pem"] {
        let token = mint(&cli, &["--tenant", "acme", "--key", key]);
        let created = server.post("/v1/codeq/tasks", &token, json!({"command": "c", "payload": 1})).await;
        assert_eq!(created.status, 202, "{}", created.text);
    }
}

#[test]
fn the_private_key_stays_private() {
    let cli = Cli::new();
    cli.ok(&["token", "keygen", "--alg", "EdDSA"]);
    let file = cli.path("codeq-key.pem");
    assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    let before = std::fs::read_to_string(&file).expect("text");
    assert!(cli.fails(&["token", "keygen"]).contains("exists already"));
    assert_eq!(std::fs::read_to_string(&file).expect("text"), before);
    let set: Value = serde_json::from_str(&cli.ok(&["token", "jwks"])).expect("JSON");
    let fields: Vec<&str> = set["keys"][0].as_object().expect("a key").keys().map(String::as_str).collect();
    assert_eq!(fields, ["alg", "crv", "kid", "kty", "use", "x"], "and no d");
}

#[test]
fn what_a_token_needs_is_asked_for() {
    let cli = Cli::new();
    cli.ok(&["token", "keygen", "--alg", "EdDSA"]);
    assert_eq!(cli.fails(&["token", "mint"]), missing("tenant is required", "--tenant NAME"));
    assert!(cli.fails(&["token", "mint", "--tenant", "Not Good"]).contains("tenant must match"));
    assert!(cli.fails(&["token", "mint", "--tenant", "acme", "--ttl", "forever"]).contains("not a duration"));
    assert!(cli.fails(&["token", "mint", "--tenant", "acme", "--key", "none.pem"]).contains("token keygen"));
    assert!(cli.fails(&["token", "keygen", "--alg", "HS256", "--out", "x"]).contains("RS256 or EdDSA"));
}
