//! Tokens against a real key endpoint: forged, stale, strange, and endpoints that come and go.

use super::issuer::{ISSUER, Issuer, claims, now, unsigned, worker_claims};
use super::keys::{Keys, free_address, url};
use super::wire::Wire;
use crate::harness::{Answer, Server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn server(jwks: &str) -> Server {
    let side = |audience: &str| json!({"jwksUrl": jwks, "issuer": ISSUER, "audience": audience});
    Server::serve(json!({
        "env": "dev",
        "producerAuthProvider": "jwks", "producerAuthConfig": side("codeq-producer"),
        "workerAuthProvider": "jwks", "workerAuthConfig": side("codeq-worker"),
    }))
}

async fn create(server: &Server, token: &str) -> Answer {
    server.post("/v1/codeq/tasks", token, json!({"command": "c", "payload": 1})).await
}

fn outcome(answer: &Answer) -> (u16, &str, &str) {
    (answer.status, answer.json["code"].as_str().unwrap_or(""), answer.json["error"].as_str().unwrap_or(""))
}

/// Tokens that must not pass, and what each is told.
fn forgeries(issuer: &Issuer, stranger: &Issuer) -> Vec<(String, String)> {
    let good = claims(json!({}));
    let of = |more: Value| issuer.token("k1", &claims(more));
    let with_alg = |alg: &str| issuer.token_with(&json!({"alg": alg, "kid": "k1"}), &good);
    let token = of(json!({}));
    let swapped = format!(
        "{}.{}",
        unsigned(&json!({"alg": "RS256", "kid": "k1"}), &claims(json!({"tid": "other"}))),
        token.rsplit('.').next().unwrap_or_default()
    );
    let time = |what: &str| format!("token has invalid claims: {what}");
    let mut all = vec![
        (of(json!({"exp": now() - 3600})), time("token is expired")),
        (of(json!({"exp": null})), time("exp is required")),
        (of(json!({"nbf": now() + 3600})), time("token is not valid yet")),
        (of(json!({"iat": now() + 3600})), time("token used before issued")),
        (of(json!({"iss": "https://evil.example.com"})), "invalid issuer: https://evil.example.com".into()),
        (of(json!({"aud": "codeq-worker"})), "invalid audience: [codeq-worker]".into()),
        (of(json!({"aud": ["a", "b"]})), "invalid audience: [a b]".into()),
        (stranger.token("k1", &good), "token signature is invalid".into()),
        (swapped, "token signature is invalid".into()),
        (with_alg("RS512"), "token signature is invalid".into()),
        (with_alg("ES256"), "unexpected signing method: ES256".into()),
        (with_alg("HS256"), "unexpected signing method: HS256".into()),
        (with_alg("none"), "unexpected signing method: none".into()),
        (format!("{}.", unsigned(&json!({"alg": "none"}), &good)), "unexpected signing method: none".into()),
        (format!("{}.", unsigned(&json!({"alg": "NoNe"}), &good)), "unexpected signing method: NoNe".into()),
        ("a.b.c".into(), "token is malformed".into()),
        ("x".into(), "token is malformed".into()),
        ("..".into(), "token is malformed".into()),
        (format!("{token}.x"), "token is malformed".into()),
    ];
    let hmac = issuer.signed_with_the_public_key(&good);
    all.extend(hmac.into_iter().map(|token| (token, "unexpected signing method: HS256".into())));
    all
}

#[tokio::test]
async fn forged_and_stale_tokens_are_told_what_is_wrong() {
    let (issuer, stranger) = (Issuer::generate(), Issuer::generate());
    let keys = Keys::serving(&[issuer.jwk("k1")]);
    let server = server(&keys.url());
    for (token, text) in forgeries(&issuer, &stranger) {
        let answer = create(&server, &token).await;
        assert_eq!(outcome(&answer), (401, "invalid_token", &*text), "{token}");
        let read = server.get(&format!("/v1/codeq/tasks/{}", super::NOBODY), &token).await;
        assert_eq!(outcome(&read), (401, "invalid_token", "invalid token"), "{token}");
    }
    let bare = server.send(reqwest::Method::POST, "/v1/codeq/tasks", None, None).await;
    assert_eq!(outcome(&bare), (401, "missing_authorization", "missing Authorization header"));
    assert_eq!(create(&server, &issuer.token("k1", &claims(json!({})))).await.status, 202);
    let worker = issuer.token("k1", &worker_claims());
    assert_eq!(server.post("/v1/codeq/tasks/claim", &worker, json!({})).await.status, 200);
    let crossed = server.post("/v1/codeq/tasks", &worker, json!({"command": "c", "payload": 1})).await;
    assert_eq!(outcome(&crossed), (401, "invalid_token", "invalid audience: [codeq-worker]"));
}

#[tokio::test]
async fn a_storm_of_unknown_kids_costs_one_fetch() {
    let issuer = Issuer::generate();
    let keys = Keys::serving(&[issuer.jwk("k1")]);
    let server = server(&keys.url());
    assert_eq!(create(&server, &issuer.token("k1", &claims(json!({})))).await.status, 202);
    let before = keys.hits();
    let tokens: Vec<String> =
        (0..200).map(|n| issuer.token(&format!("kid-{n}"), &claims(json!({})))).collect();
    for (n, token) in tokens.iter().enumerate() {
        let answer = create(&server, token).await;
        assert_eq!(outcome(&answer), (401, "invalid_token", &*format!("key kid-{n} not found in JWKS")));
    }
    assert!(keys.hits() <= before + 1, "{} fetches for one storm", keys.hits() - before);
    assert_eq!(create(&server, &issuer.token("k1", &claims(json!({})))).await.status, 202);
}

#[tokio::test]
async fn an_endpoint_that_is_down_at_the_start_is_found_when_it_comes_up() {
    let issuer = Issuer::generate();
    let address = free_address();
    let server = server(&url(address));
    let token = issuer.token("k1", &claims(json!({})));
    let down = create(&server, &token).await;
    assert_eq!(outcome(&down), (503, "auth_unavailable", "failed to fetch JWKS: connection refused"));
    let retry: u64 =
        down.headers["retry-after"].to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    assert!(retry >= 1);
    assert_eq!(server.get("/readyz", "").await.status, 200);
    let _keys = Keys::at(address, &[issuer.jwk("k1")]);
    let started = Instant::now();
    while create(&server, &token).await.status != 202 {
        assert!(started.elapsed() < Duration::from_secs(30), "the endpoint is up and nobody looks");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn keys_rotate_without_a_restart() {
    let (old, new) = (Issuer::generate(), Issuer::generate());
    let keys = Keys::serving(&[old.jwk("k1")]);
    let server = server(&keys.url());
    let old_token = old.token("k1", &claims(json!({})));
    assert_eq!(create(&server, &old_token).await.status, 202);
    keys.set(&[new.jwk("k2")]);
    assert_eq!(create(&server, &new.token("k2", &claims(json!({})))).await.status, 202);
    let retired = create(&server, &old_token).await;
    assert_eq!(outcome(&retired), (401, "invalid_token", "key k1 not found in JWKS"));
}

#[tokio::test]
async fn a_token_of_a_megabyte_is_refused() {
    let issuer = Issuer::generate();
    let keys = Keys::serving(&[issuer.jwk("k1")]);
    let server = server(&keys.url());
    let long = issuer.token("k1", &claims(json!({"padding": "x".repeat(1 << 20)})));
    for authorization in [long.clone(), "x".repeat(1 << 20), ".".repeat(1 << 20)] {
        let mut wire = Wire::open(&server).await;
        let head = format!(
            "GET /v1/codeq/raft/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {authorization}"
        );
        wire.send(format!("{head}\r\n\r\n").as_bytes()).await;
        if let Some(reply) = wire.reply().await {
            assert_eq!(reply.status, 431, "{reply:?}");
        }
    }
    let within = issuer.token("k1", &claims(json!({"padding": "x".repeat(10_000)})));
    assert_eq!(create(&server, &within).await.status, 202);
    assert_eq!(create(&server, &long[..60_000]).await.status, 401);
}
