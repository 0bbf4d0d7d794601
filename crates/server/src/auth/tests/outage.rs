//! What happens while the endpoint fails.

use super::endpoint::Answer;
use super::*;
use tokio::net::TcpListener;

fn long(n: u32) -> Value {
    claims(json!({"sub": n.to_string(), "exp": START_SECONDS + 90_000}))
}

#[tokio::test]
async fn known_keys_serve_for_an_hour_and_then_requests_are_told_to_come_back() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    assert_eq!(bench.outcome(&signer.token(&long(0))).await, "ok");
    endpoint.set(Answer::Status(500));
    for n in 1..=59 {
        bench.clock.advance(Duration::from_secs(60));
        assert_eq!(bench.outcome(&signer.token(&long(n))).await, "ok", "after {n} min");
        bench.gate.settled().await;
    }
    bench.clock.advance(Duration::from_millis(59_999));
    assert_eq!(bench.outcome(&signer.token(&long(60))).await, "ok");
    bench.clock.advance(Duration::from_millis(1));
    let down = "503 JWKS endpoint returned status 500";
    // Not even a token verified a moment ago outlives the keys.
    assert_eq!(bench.outcome(&signer.token(&long(60))).await, down);
    assert_eq!(bench.outcome(&signer.token(&long(61))).await, down);

    endpoint.set_keys(&[signer.jwk("k1")]);
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.outcome(&signer.token(&long(62))).await, "ok");
}

#[tokio::test]
async fn stale_keys_are_not_refetched_by_every_request() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    assert_eq!(bench.outcome(&signer.token(&long(0))).await, "ok");
    endpoint.set(Answer::Status(500));
    bench.clock.advance(Duration::from_secs(300));
    for n in 1..50 {
        assert_eq!(bench.outcome(&signer.token(&long(n))).await, "ok");
        bench.gate.settled().await;
    }
    assert_eq!(endpoint.hits(), 2);
}

#[tokio::test]
async fn without_any_key_one_try_a_second_is_made_until_it_is_back() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    endpoint.set(Answer::Status(404));
    for second in 1..=3 {
        for n in 0..20 {
            let outcome = bench.outcome(&signer.token(&long(n))).await;
            assert_eq!(outcome, "503 JWKS endpoint returned status 404");
        }
        assert_eq!(endpoint.hits(), second);
        bench.clock.advance(Duration::from_secs(1));
    }
    endpoint.set_keys(&[signer.jwk("k1")]);
    assert_eq!(bench.outcome(&signer.token(&long(0))).await, "ok");
}

#[tokio::test]
async fn a_kid_that_cannot_be_looked_up_is_not_refused_for_good() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::producer(&endpoint);
    assert_eq!(bench.outcome(&signer.token(&long(0))).await, "ok");
    endpoint.set(Answer::Status(502));
    for _ in 0..5 {
        let outcome = bench.outcome(&signer.token_of("new", &long(1))).await;
        assert_eq!(outcome, "503 JWKS endpoint returned status 502");
    }
    assert_eq!((endpoint.hits(), bench.outcome(&signer.token(&long(2))).await.as_str()), (2, "ok"));
}

#[tokio::test]
async fn the_reason_is_one_of_a_few_words() {
    let (endpoint, signer) = one_key().await;
    let token = signer.token(&long(0));
    let invalid = "503 failed to fetch JWKS: invalid response";
    let big = format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(1024 * 1024));
    let table = [
        (Answer::Status(302), "503 JWKS endpoint returned status 302"),
        (Answer::Status(204), "503 JWKS endpoint returned status 204"),
        (Answer::Body("<html>".to_owned()), invalid),
        (Answer::Body("[]".to_owned()), invalid),
        (Answer::Body("{\"keys\":5}".to_owned()), invalid),
        (Answer::Body(big), "503 failed to fetch JWKS: response too large"),
    ];
    for (answer, expected) in table {
        endpoint.set(answer);
        assert_eq!(Bench::producer(&endpoint).outcome(&token).await, expected);
    }
}

#[tokio::test]
async fn a_silent_endpoint_times_out() {
    let (endpoint, signer) = one_key().await;
    endpoint.set(Answer::Silence);
    let config = json!({"jwksUrl": endpoint.url(), "issuer": ISSUER, "audience": "codeq-producer",
        "httpTimeout": "50ms"});
    let bench = Bench::new(Some(provider("jwks", config)), None, false);
    assert_eq!(bench.outcome(&signer.token(&long(0))).await, "503 failed to fetch JWKS: timeout");
}

#[tokio::test]
async fn a_closed_port_refuses_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    drop(listener);
    let config = json!({"jwksUrl": url, "issuer": ISSUER, "audience": "codeq-producer"});
    let bench = Bench::new(Some(provider("jwks", config)), None, false);
    let outcome = bench.outcome(&Signer::p256().token(&long(0))).await;
    assert_eq!(outcome, "503 failed to fetch JWKS: connection refused");
    assert_eq!(bench.any(&Signer::p256().token(&long(0))).await, outcome);
}

#[tokio::test]
async fn an_empty_set_is_an_answer() {
    let (endpoint, signer) = one_key().await;
    endpoint.set_keys(&[]);
    let outcome = Bench::producer(&endpoint).outcome(&signer.token(&long(0))).await;
    assert_eq!(outcome, "401 key k1 not found in JWKS");
}

#[tokio::test]
async fn a_client_for_https_needs_no_global_setup() {
    let config = json!({"jwksUrl": "https://127.0.0.1:1/", "issuer": ISSUER, "audience": "codeq-producer"});
    let bench = Bench::new(Some(provider("jwks", config)), None, false);
    let outcome = bench.outcome(&Signer::p256().token(&long(0))).await;
    assert_eq!(outcome, "503 failed to fetch JWKS: connection refused");
}
