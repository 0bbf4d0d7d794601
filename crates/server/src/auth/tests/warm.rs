//! A token that was verified once is not verified again.

use super::endpoint::Answer;
use super::*;

#[tokio::test]
async fn a_warm_token_touches_neither_the_network_nor_its_signature() {
    let (endpoint, signer) = one_key().await;
    let (p, w) = (jwks(&endpoint, "codeq-producer"), jwks(&endpoint, "codeq-worker"));
    let bench = Bench::new(Some(p), Some(w), true);
    let producer = signer.token(&claims(json!({"role": "ADMIN"})));
    let worker = signer.token(&worker_claims(json!({})));
    let round = async || {
        for token in [&producer, &worker] {
            assert_eq!(bench.any(token).await, "ok");
            assert_eq!(bench.worker(token, Scope::Claim).await, "ok");
        }
        assert_eq!(bench.outcome(&producer).await, "ok");
        assert_eq!(bench.admin(&producer).await, "ok");
    };
    round().await;
    let (verifications, hits) = (bench.gate.verifications(), endpoint.hits());
    endpoint.set(Answer::Status(500));
    for _ in 0..100 {
        round().await;
    }
    assert_eq!((bench.gate.verifications(), endpoint.hits()), (verifications, hits));
}

#[tokio::test]
async fn a_warm_token_is_the_same_caller() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let token = signer.token(&claims(json!({})));
    let (first, second) = (bench.call(&token).await.expect("ok"), bench.call(&token).await.expect("ok"));
    assert!(Arc::ptr_eq(&first, &second));
}

#[tokio::test]
async fn a_warm_token_still_ends_with_its_leeway() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let token = signer.token(&claims(json!({"exp": START_SECONDS + 100})));
    assert_eq!(bench.outcome(&token).await, "ok");
    bench.clock.advance(Duration::from_millis(159_999));
    assert_eq!(bench.outcome(&token).await, "ok");
    assert_eq!(bench.gate.verifications(), 1);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.outcome(&token).await, "401 token has invalid claims: token is expired");
}

#[tokio::test]
async fn a_token_is_verified_anew_after_five_minutes() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let token = signer.token(&claims(json!({"exp": START_SECONDS + 9000})));
    for (seconds, verifications) in [(0, 1), (299, 1), (1, 2), (1, 2)] {
        bench.clock.advance(Duration::from_secs(seconds));
        assert_eq!(bench.outcome(&token).await, "ok");
        assert_eq!(bench.gate.verifications(), verifications);
    }
}

#[tokio::test]
async fn refusals_are_not_remembered() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let token = signer.token(&claims(json!({"nbf": START_SECONDS + 100})));
    assert_eq!(bench.outcome(&token).await, "401 token has invalid claims: token is not valid yet");
    bench.clock.advance(Duration::from_secs(40));
    assert_eq!(bench.outcome(&token).await, "ok");
}

/// While the keys of the worker side cannot be had, a producer stands in for ten seconds at a time.
#[tokio::test]
async fn a_stand_in_ends_soon_after_the_worker_side_is_back() {
    let signer = Signer::p256();
    let (good, bad) =
        (Endpoint::serving(&[signer.jwk("k1")]).await, Endpoint::serving(&[signer.jwk("k1")]).await);
    bad.set(Answer::Status(500));
    let bench = Bench::new(Some(jwks(&good, "both")), Some(jwks(&bad, "both")), true);
    let token = signer.token(&worker_claims(json!({"aud": "both"})));
    assert_eq!(bench.worker(&token, Scope::Nack).await, "ok");
    bad.set_keys(&[signer.jwk("k1")]);
    bench.clock.advance(Duration::from_secs(10));
    assert_eq!(bench.worker(&token, Scope::Nack).await, "403 missing scope");
    assert_eq!(bench.worker(&token, Scope::Claim).await, "ok");
}
