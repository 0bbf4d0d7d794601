//! Which key verifies, and when the set is fetched.

use super::endpoint::Answer;
use super::*;

fn all_in_order() -> Value {
    claims(json!({}))
}

#[tokio::test]
async fn a_kid_is_needed_only_among_several_keys() {
    let (a, b) = (Signer::p256(), Signer::p256());
    let endpoint = Endpoint::serving(&[a.jwk("a"), b.jwk("b")]).await;
    let bench = Bench::producer(&endpoint);
    assert_eq!(bench.outcome(&a.token_of("a", &all_in_order())).await, "ok");
    assert_eq!(bench.outcome(&b.token_of("b", &all_in_order())).await, "ok");
    assert_eq!(bench.outcome(&b.token_of("a", &all_in_order())).await, "401 token signature is invalid");
    for header in [json!({"alg": "ES256"}), json!({"alg": "ES256", "kid": ""})] {
        let anonymous = a.token_with(&header, &all_in_order());
        assert_eq!(bench.outcome(&anonymous).await, "401 missing kid in token header");
    }
}

#[tokio::test]
async fn one_key_serves_tokens_without_a_kid_but_not_those_with_another() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let anonymous = signer.token_with(&json!({"alg": "ES256"}), &all_in_order());
    assert_eq!(bench.outcome(&anonymous).await, "ok");
    assert_eq!(bench.outcome(&signer.token_of("k2", &all_in_order())).await, "401 key k2 not found in JWKS");
}

#[tokio::test]
async fn keys_that_cannot_verify_are_as_if_absent() {
    let (good, other) = (Signer::p256(), Signer::rsa());
    let broken = [
        json!("not an object"),
        json!({}),
        json!({"kty": "EC", "crv": "P-256", "kid": "x1", "x": "AA", "y": "AA"}),
        json!({"kty": "EC", "crv": "P-256", "kid": "x2", "x": "!", "y": 5}),
        json!({"kty": "EC", "crv": "secp256k1", "kid": "x3", "x": "AA", "y": "AA"}),
        json!({"kty": "RSA", "kid": "x4", "n": "AQAB", "e": "AQAB"}),
        json!({"kty": "RSA", "kid": "x5", "n": "", "e": ""}),
        json!({"kty": "OKP", "crv": "X25519", "kid": "x6", "x": "AA"}),
        json!({"kty": "oct", "kid": "x7", "k": "AA"}),
        with(Signer::p256().jwk("x8"), json!({"y": good.jwk("k1")["y"]})),
        with(other.jwk("x9"), json!({"use": "enc"})),
        with(other.jwk("x10"), json!({"alg": "RSA-OAEP"})),
        with(other.jwk("x11"), json!({"kid": 11})),
    ];
    let keys: Vec<Value> = broken.into_iter().chain([good.jwk("k1")]).collect();
    let endpoint = Endpoint::serving(&keys).await;
    let bench = Bench::producer(&endpoint);
    assert_eq!(bench.outcome(&good.token(&all_in_order())).await, "ok");
    // Exactly one key is usable, so a token need not name it.
    let anonymous = good.token_with(&json!({"alg": "ES256"}), &all_in_order());
    assert_eq!(bench.outcome(&anonymous).await, "ok");
    let encryption = other.token_of("x9", &all_in_order());
    assert_eq!(bench.outcome(&encryption).await, "401 key x9 not found in JWKS");
}

#[tokio::test]
async fn a_hundred_first_requests_cause_one_fetch() {
    let (endpoint, signer) = one_key().await;
    let bench = Arc::new(Bench::producer(&endpoint));
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let (bench, token) = (bench.clone(), signer.token(&claims(json!({"sub": n.to_string()}))));
            tokio::spawn(async move { bench.outcome(&token).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.expect("no panic"), "ok");
    }
    assert_eq!(endpoint.hits(), 1);
}

#[tokio::test]
async fn a_request_that_goes_away_leaves_the_fetch_to_the_others() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let token = signer.token(&all_in_order());
    tokio::select! {
        biased;
        _ = bench.outcome(&token) => panic!("the answer cannot be there yet"),
        () = std::future::ready(()) => {}
    }
    bench.gate.settled().await;
    assert_eq!((bench.outcome(&token).await.as_str(), endpoint.hits()), ("ok", 1));
}

#[tokio::test]
async fn unknown_kids_cause_one_fetch_in_thirty_seconds() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    assert_eq!(bench.outcome(&signer.token(&all_in_order())).await, "ok");
    for round in 1..=3 {
        for n in 0..50 {
            let token = signer.token_of(&format!("new-{n}"), &all_in_order());
            assert_eq!(bench.outcome(&token).await, format!("401 key new-{n} not found in JWKS"));
        }
        assert_eq!(endpoint.hits(), 1 + round);
        bench.clock.advance(Duration::from_millis(29_999));
        bench.outcome(&signer.token_of("new", &all_in_order())).await;
        assert_eq!(endpoint.hits(), 1 + round);
        bench.clock.advance(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn an_unknown_kid_in_a_set_just_fetched_causes_no_second_fetch() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    assert_eq!(bench.outcome(&signer.token_of("x", &all_in_order())).await, "401 key x not found in JWKS");
    assert_eq!(endpoint.hits(), 1);
}

#[tokio::test]
async fn a_new_key_works_at_once_and_an_old_one_ends_with_its_tokens() {
    let (endpoint, old) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let (new, old_token) = (Signer::ed25519(), old.token(&all_in_order()));
    assert_eq!(bench.outcome(&old_token).await, "ok");

    endpoint.set_keys(&[old.jwk("k1"), new.jwk("k2")]);
    assert_eq!(bench.outcome(&new.token_of("k2", &all_in_order())).await, "ok");
    assert_eq!(bench.outcome(&old_token).await, "ok");
    assert_eq!(bench.gate.verifications(), 2);

    endpoint.set_keys(&[new.jwk("k2")]);
    bench.clock.advance(Duration::from_secs(300));
    // Verified with the keys at hand, while those are fetched anew.
    assert_eq!(bench.outcome(&old_token).await, "ok");
    bench.gate.settled().await;
    assert_eq!(bench.outcome(&old_token).await, "401 key k1 not found in JWKS");
    assert_eq!(bench.outcome(&new.token_of("k2", &all_in_order())).await, "ok");
}

#[tokio::test]
async fn a_key_replaced_under_its_kid_takes_its_tokens_along() {
    let (endpoint, old) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let token = old.token(&all_in_order());
    assert_eq!(bench.outcome(&token).await, "ok");
    endpoint.set_keys(&[Signer::p256().jwk("k1")]);
    bench.outcome(&old.token_of("other", &all_in_order())).await;
    assert_eq!(bench.outcome(&token).await, "401 token signature is invalid");
}

#[tokio::test]
async fn keys_are_refreshed_behind_the_requests_after_five_minutes() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    let token = |n: u32| signer.token(&claims(json!({"sub": n.to_string(), "exp": START_SECONDS + 9000})));
    assert_eq!(bench.outcome(&token(1)).await, "ok");
    bench.clock.advance(Duration::from_millis(299_999));
    assert_eq!(bench.outcome(&token(2)).await, "ok");
    bench.gate.settled().await;
    assert_eq!(endpoint.hits(), 1);

    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.outcome(&token(3)).await, "ok");
    bench.gate.settled().await;
    assert_eq!(endpoint.hits(), 2);

    // Were it to wait for the endpoint, it would wait for ever.
    bench.clock.advance(Duration::from_secs(300));
    endpoint.set(Answer::Silence);
    assert_eq!(bench.outcome(&token(4)).await, "ok");
    assert_eq!(bench.outcome(&token(5)).await, "ok");
}

#[tokio::test]
async fn a_clock_set_back_refreshes_the_keys() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    assert_eq!(bench.outcome(&signer.token(&all_in_order())).await, "ok");
    bench.clock.set(Time::from_millis(START.millis() - 30_000));
    assert_eq!(bench.outcome(&signer.token(&all_in_order())).await, "ok");
    bench.gate.settled().await;
    assert_eq!(endpoint.hits(), 2);
}
