//! Algorithms: those that work, and the ways to abuse the choice.

use super::issuer::{b64, unsigned};
use super::*;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

async fn outcome_with(jwk: Value, token: &str) -> String {
    let endpoint = Endpoint::serving(&[jwk]).await;
    Bench::producer(&endpoint).outcome(token).await
}

#[tokio::test]
async fn every_algorithm_of_the_contract_is_accepted() {
    let (rsa, p256, p384, ed) = (Signer::rsa(), Signer::p256(), Signer::p384(), Signer::ed25519());
    let table = [
        (&rsa, "RS256"),
        (&rsa, "RS384"),
        (&rsa, "RS512"),
        (&rsa, "PS256"),
        (&rsa, "PS384"),
        (&rsa, "PS512"),
        (&p256, "ES256"),
        (&p384, "ES384"),
        (&ed, "EdDSA"),
    ];
    for (signer, algorithm) in table {
        let token = signer.token_with(&json!({"alg": algorithm, "kid": "k1"}), &claims(json!({})));
        assert_eq!(outcome_with(signer.jwk("k1"), &token).await, "ok", "{algorithm}");
        let named = with(signer.jwk("k1"), json!({"alg": algorithm}));
        assert_eq!(outcome_with(named, &token).await, "ok", "{algorithm}");
    }
}

#[tokio::test]
async fn an_algorithm_must_fit_the_type_the_curve_and_the_alg_of_the_key() {
    let (rsa, p256, p384, ed) = (Signer::rsa(), Signer::p256(), Signer::p384(), Signer::ed25519());
    let only_ps = with(rsa.jwk("k1"), json!({"alg": "PS256"}));
    let table = [
        (&rsa, rsa.jwk("k1"), "ES256"),
        (&rsa, rsa.jwk("k1"), "EdDSA"),
        (&p256, p256.jwk("k1"), "RS256"),
        (&p256, p256.jwk("k1"), "ES384"),
        (&p384, p384.jwk("k1"), "ES256"),
        (&ed, ed.jwk("k1"), "ES256"),
        (&rsa, only_ps.clone(), "RS256"),
        (&rsa, only_ps, "PS512"),
    ];
    for (signer, jwk, algorithm) in table {
        let token = signer.token_with(&json!({"alg": algorithm, "kid": "k1"}), &claims(json!({})));
        let expected = format!("401 unexpected signing method: {algorithm}");
        assert_eq!(outcome_with(jwk.clone(), &token).await, expected, "{jwk}");
    }
}

#[tokio::test]
async fn unsigned_tokens_and_unknown_algorithms_are_refused_without_a_fetch() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    for algorithm in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "ES512", "es256", "ES256K"] {
        let header = json!({"alg": algorithm, "kid": "k1"});
        let expected = format!("401 unexpected signing method: {algorithm}");
        let bare = format!("{}.", unsigned(&header, &claims(json!({}))));
        assert_eq!(bench.outcome(&bare).await, expected);
        assert_eq!(bench.outcome(&signer.token_with(&header, &claims(json!({})))).await, expected);
    }
    assert_eq!(endpoint.hits(), 0);
}

/// The classic confusion: the public key, which everyone has, used as the secret of an HMAC.
#[tokio::test]
async fn a_token_signed_with_the_public_key_as_a_secret_is_refused() {
    let signer = Signer::rsa();
    let jwk = signer.jwk("k1");
    let header = json!({"alg": "HS256", "kid": "k1"});
    let message = unsigned(&header, &claims(json!({})));
    let der = signer.public_der();
    let body = STANDARD.encode(&der);
    let pem = format!("-----BEGIN RSA PUBLIC KEY-----\n{body}\n-----END RSA PUBLIC KEY-----\n");
    for secret in [jwk.to_string().into_bytes(), der, pem.into_bytes()] {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message.as_bytes());
        let token = format!("{message}.{}", b64(tag.as_ref()));
        assert_eq!(outcome_with(jwk.clone(), &token).await, "401 unexpected signing method: HS256");
        let relabelled = unsigned(&json!({"alg": "RS256", "kid": "k1"}), &claims(json!({})));
        let token = format!("{relabelled}.{}", b64(tag.as_ref()));
        assert_eq!(outcome_with(jwk.clone(), &token).await, "401 token signature is invalid");
    }
}

#[tokio::test]
async fn a_published_shared_secret_is_no_key() {
    let secret = json!({"kty": "oct", "kid": "k1", "k": b64(b"secret")});
    let message = unsigned(&json!({"alg": "HS256", "kid": "k1"}), &claims(json!({})));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"secret"), message.as_bytes());
    let token = format!("{message}.{}", b64(tag.as_ref()));
    assert_eq!(outcome_with(secret, &token).await, "401 unexpected signing method: HS256");
}

#[tokio::test]
async fn a_key_inside_the_token_is_not_believed() {
    let (endpoint, _) = one_key().await;
    let thief = Signer::p256();
    let header = json!({"alg": "ES256", "kid": "k1", "jwk": thief.jwk("k1"), "jku": "http://evil/"});
    let token = thief.token_with(&header, &claims(json!({})));
    assert_eq!(Bench::producer(&endpoint).outcome(&token).await, "401 token signature is invalid");
}
