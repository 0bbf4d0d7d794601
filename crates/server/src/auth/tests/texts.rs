//! What a refused token is told, word for word.

use super::issuer::{b64, unsigned};
use super::*;

#[tokio::test]
async fn each_thing_wrong_with_the_claims_has_its_text() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let invalid = "401 token has invalid claims:";
    let table = [
        (json!({}), "ok".to_owned()),
        (json!({"iss": "https://evil"}), "401 invalid issuer: https://evil".to_owned()),
        (json!({"aud": ["a", "b"]}), "401 invalid audience: [a b]".to_owned()),
        (json!({"exp": START_SECONDS - 60}), format!("{invalid} token is expired")),
        (json!({"exp": START_SECONDS - 59}), "ok".to_owned()),
        (json!({"exp": null}), format!("{invalid} exp is required")),
        (json!({"nbf": START_SECONDS + 61}), format!("{invalid} token is not valid yet")),
        (json!({"iat": START_SECONDS + 61}), format!("{invalid} token used before issued")),
        (json!({"tid": ""}), "403 invalid tenant claims".to_owned()),
    ];
    for (changes, expected) in table {
        let token = signer.token(&claims(changes.clone()));
        assert_eq!(bench.outcome(&token).await, expected, "{changes}");
    }
}

#[tokio::test]
async fn what_is_no_token_is_malformed() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let good = signer.token(&claims(json!({})));
    let (header, good_claims) = (json!({"alg": "ES256", "kid": "k1"}), claims(json!({})));
    let (message, _) = good.rsplit_once('.').expect("three parts");
    let not_json = format!("{}.{}.AA", b64(b"{"), b64(b"{}"));
    let no_object = format!("{}.{}.AA", b64(header.to_string().as_bytes()), b64(b"[]"));
    let deep = b64(format!("{{\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000)).as_bytes());
    let cases = [
        "abc".to_owned(),
        "a.b.c".to_owned(),
        "..".to_owned(),
        format!("{good}.AA"),
        format!("{message}.!!"),
        format!("{good}=="),
        not_json,
        no_object,
        format!("{}.{deep}.AA", b64(header.to_string().as_bytes())),
        signer.token_with(&json!({"kid": "k1"}), &good_claims),
        signer.token_with(&json!({"alg": 5, "kid": "k1"}), &good_claims),
        signer.token_with(&json!({"alg": "ES256", "kid": 5}), &good_claims),
        signer.token_with(&json!({"alg": "ES256", "kid": "k1", "crit": ["b64"], "b64": false}), &good_claims),
        signer.token(&claims(json!({"exp": "soon"}))),
        "x".repeat(1024 * 1024),
        signer.token(&claims(json!({"filler": "x".repeat(16 * 1024)}))),
    ];
    for token in cases {
        assert_eq!(bench.outcome(&token).await, "401 token is malformed", "{token:.80}");
    }
}

#[tokio::test]
async fn a_token_that_is_too_long_is_refused_without_work() {
    let (endpoint, _) = one_key().await;
    let bench = Bench::producer(&endpoint);
    assert_eq!(bench.outcome(&"x".repeat(1024 * 1024)).await, "401 token is malformed");
    assert_eq!((bench.gate.verifications(), endpoint.hits()), (0, 0));
}

#[tokio::test]
async fn a_signature_that_does_not_match_is_invalid() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let (good, other) = (signer.token(&claims(json!({}))), signer.token(&claims(json!({"sub": "other"}))));
    let (message, _) = good.rsplit_once('.').expect("three parts");
    let (_, others) = other.rsplit_once('.').expect("three parts");
    let forged = Signer::p256().token(&claims(json!({})));
    for token in [format!("{message}.{others}"), format!("{message}."), format!("{message}.AAAA"), forged] {
        assert_eq!(bench.outcome(&token).await, "401 token signature is invalid");
    }
}

#[tokio::test]
async fn texts_carry_neither_the_token_nor_control_characters() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let nasty = format!("a\r\nb\u{1b}{}", "x".repeat(500));
    let shown = format!("ab{}", "x".repeat(198));
    let kid = signer.token_of(&nasty, &claims(json!({})));
    assert_eq!(bench.outcome(&kid).await, format!("401 key {shown} not found in JWKS"));
    let alg = format!("{}.AA", unsigned(&json!({"alg": nasty}), &claims(json!({}))));
    assert_eq!(bench.outcome(&alg).await, format!("401 unexpected signing method: {shown}"));
    let aud = signer.token(&claims(json!({"aud": [nasty]})));
    assert_eq!(bench.outcome(&aud).await, format!("401 invalid audience: [{shown}]"));
}

#[tokio::test]
async fn a_tikti_access_token_is_understood() {
    let signer = Signer::rsa();
    let endpoint = Endpoint::serving(&[with(signer.jwk("tikti-2026"), json!({"alg": "RS256"}))]).await;
    let bench = Bench::producer(&endpoint);
    let token = signer.token_of(
        "tikti-2026",
        &json!({
            "iss": ISSUER, "aud": ["codeq-producer"], "sub": "6f1c2f0e-5f0b-4c8b-9a4e-0f6f0e7c1a11",
            "email": "ana@acme.example", "tid": "acme-eu", "role": "admin", "scope": "openid email",
            "iat": START_SECONDS, "nbf": START_SECONDS, "exp": START_SECONDS + 3600,
            "jti": "1", "token_use": "access",
        }),
    );
    let caller = bench.call(&token).await.expect("a good token");
    assert_eq!((&*caller.tenant, caller.is_admin), ("acme-eu", true));
    assert_eq!(&*caller.subject, "6f1c2f0e-5f0b-4c8b-9a4e-0f6f0e7c1a11");
    assert_eq!(caller.expires_at, Some(START_SECONDS + 3600));
    assert_eq!(caller.ends_at, Some(START.plus_seconds(3660)));
}
