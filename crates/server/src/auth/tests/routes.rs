//! The route groups: who gets in where, and what the others are told.

use super::endpoint::Answer;
use super::*;
use crate::auth::{EventTypes, Scopes};

const P: &str = "producer-token";
const W: &str = "worker-token";

fn producer_side(more: Value) -> Option<ProviderConfig> {
    Some(fixed(P, with(json!({"subject": "p", "raw": {"tenantId": "acme"}}), more)))
}

fn worker_side(more: Value) -> Option<ProviderConfig> {
    let base =
        json!({"subject": "w", "eventTypes": ["Render"], "scopes": ["codeq:claim"], "raw": {"tid": "acme"}});
    Some(fixed(W, with(base, more)))
}

#[tokio::test]
async fn the_header_must_be_there_and_be_a_bearer_token() {
    let bench = Bench::new(producer_side(json!({})), worker_side(json!({})), false);
    let missing = Denied::MissingAuthorization;
    for header in [None, Some(&b" "[..])] {
        assert_eq!(bench.gate.producer(header, Access::Change).await.err(), Some(missing.clone()));
        assert_eq!(bench.gate.admin(header, Access::Change).await.err(), Some(missing.clone()));
        assert_eq!(bench.gate.worker(header, Scope::Claim).await.err(), Some(missing.clone()));
    }
    let basic = Some(&b"Basic abc"[..]);
    assert_eq!(bench.gate.producer(basic, Access::Change).await.err(), Some(Denied::InvalidAuthorization));
    assert_eq!(bench.gate.worker(basic, Scope::Claim).await.err(), Some(Denied::InvalidAuthorization));
    assert!(bench.gate.producer(Some(b"  bEaReR   producer-token "), Access::Change).await.is_ok());
}

#[tokio::test]
async fn any_routes_say_invalid_token_whatever_was_wrong() {
    let bench = Bench::new(producer_side(json!({})), worker_side(json!({})), false);
    for header in [None, Some(&b""[..]), Some(&b"Basic x"[..]), Some(&b"Bearer nope"[..]), Some(&b"\xff"[..])]
    {
        let denied = bench.gate.any(header).await.expect_err("refused");
        assert_eq!((denied.status(), denied.to_string().as_str()), (401, "invalid token"));
    }
    assert_eq!(bench.any(&"x".repeat(20_000)).await, "401 invalid token");
    assert_eq!((bench.any(P).await, bench.any(W).await), ("ok".to_owned(), "ok".to_owned()));
}

#[tokio::test]
async fn admin_routes_want_an_administrator_or_an_operator() {
    let table = [
        (json!({}), "403 unauthorized. Admin only"),
        (json!({"raw": {"tid": "acme", "role": "Admin"}}), "ok"),
        (json!({"scopes": ["codeq:admin"]}), "ok"),
        (json!({"scopes": ["codeq:operator"]}), "ok"),
        (
            json!({"scopes": ["codeq:claim"], "raw": {"tid": "acme", "role": "user"}}),
            "403 unauthorized. Admin only",
        ),
        (json!({"scopes": ["codeq:admin"], "raw": {"tid": "A"}}), "403 invalid tenant claims"),
    ];
    for (config, expected) in table {
        let bench = Bench::new(producer_side(config.clone()), worker_side(json!({})), true);
        assert_eq!(bench.admin(P).await, expected, "{config}");
    }
    let bench = Bench::new(producer_side(json!({})), worker_side(json!({"scopes": ["codeq:admin"]})), false);
    assert_eq!(bench.admin(W).await, "401 invalid token");
}

#[tokio::test]
async fn worker_routes_check_event_types_then_scopes_then_tenant_then_the_scope_of_the_route() {
    let none = json!([]);
    let bad = json!({"tid": "-"});
    let table = [
        (json!({}), "ok"),
        (json!({"eventTypes": none, "scopes": none, "raw": bad}), "401 missing eventTypes"),
        (json!({"scopes": none, "raw": bad}), "401 missing scope"),
        (json!({"scopes": ["codeq:nack"], "raw": bad}), "403 invalid tenant claims"),
        (json!({"scopes": ["codeq:nack"]}), "403 missing scope"),
        (json!({"scopes": ["whatever"]}), "403 missing scope"),
    ];
    for (config, expected) in table {
        let bench = Bench::new(producer_side(json!({})), worker_side(config.clone()), false);
        assert_eq!(bench.worker(W, Scope::Claim).await, expected, "{config}");
    }
}

#[tokio::test]
async fn a_producer_acts_as_a_worker_only_where_that_is_allowed() {
    let strict = Bench::new(producer_side(json!({})), worker_side(json!({})), false);
    assert_eq!(strict.worker(P, Scope::Claim).await, "401 invalid token");

    for worker in [worker_side(json!({})), None] {
        let bench =
            Bench::new(producer_side(json!({"raw": {"tid": "acme", "workerGroup": "g"}})), worker, true);
        for scope in Scope::ALL {
            assert_eq!(bench.worker(P, scope).await, "ok");
        }
        let acting = bench.gate.worker_token(P).await.expect("accepted").0;
        assert_eq!((&*acting.subject, &*acting.tenant), ("p", "acme"));
        assert_eq!((acting.scopes, &acting.event_types), (Scopes::worker(), &EventTypes::All));
        assert_eq!(acting.worker_group.as_deref(), Some("g"));
        let itself = bench.gate.producer_token(P, Access::Change).await.expect("accepted").0;
        assert!(itself.scopes.is_empty() && itself.event_types.is_empty());
        assert_eq!(itself.token_hash, acting.token_hash);
    }
}

#[tokio::test]
async fn the_same_token_on_both_sides_falls_back_when_the_worker_side_gives_it_nothing() {
    let table = [
        (json!({}), "403 missing scope"),
        (json!({"eventTypes": []}), "ok"),
        (json!({"scopes": []}), "ok"),
        (json!({"raw": {"tid": "?"}}), "403 invalid tenant claims"),
    ];
    for (config, expected) in table {
        let worker = worker_side(with(config.clone(), json!({"token": P})));
        let bench = Bench::new(producer_side(json!({})), worker, true);
        assert_eq!(bench.worker(P, Scope::Result).await, expected, "{config}");
    }
}

#[tokio::test]
async fn of_two_refusals_the_one_of_the_worker_side_is_told() {
    let (endpoint, signer) = one_key().await;
    let bench = Bench::new(producer_side(json!({})), Some(jwks(&endpoint, "codeq-worker")), true);
    let stranger = signer.token(&worker_claims(json!({"aud": "other"})));
    assert_eq!(bench.worker(&stranger, Scope::Claim).await, "401 invalid audience: [other]");
    let idle = signer.token(&worker_claims(json!({"eventTypes": []})));
    assert_eq!(bench.worker(&idle, Scope::Claim).await, "401 missing eventTypes");

    let alone = Bench::new(Some(jwks(&endpoint, "codeq-producer")), None, true);
    assert_eq!(alone.worker(&stranger, Scope::Claim).await, "401 invalid audience: [other]");
    let homeless = signer.token(&claims(json!({"tid": 5})));
    assert_eq!(alone.worker(&homeless, Scope::Claim).await, "403 invalid tenant claims");
}

#[tokio::test]
async fn a_side_that_cannot_be_asked_outweighs_a_refusal_but_not_an_acceptance() {
    let (endpoint, signer) = one_key().await;
    endpoint.set(Answer::Status(500));
    let down = "503 JWKS endpoint returned status 500";
    let token = signer.token(&worker_claims(json!({})));
    let worker_down = Bench::new(producer_side(json!({})), Some(jwks(&endpoint, "codeq-worker")), true);
    assert_eq!(worker_down.worker(&token, Scope::Claim).await, down);
    assert_eq!(worker_down.any(&token).await, down);
    let jwks_producer = Bench::new(
        Some(jwks(&one_key_of(&signer).await, "codeq-producer")),
        Some(jwks(&endpoint, "codeq-worker")),
        true,
    );
    let producer = signer.token(&claims(json!({})));
    assert_eq!(jwks_producer.worker(&producer, Scope::Claim).await, "ok");
    assert_eq!(jwks_producer.any(&producer).await, "ok");
    // No signed token at all, so the worker side refuses it without its keys.
    assert_eq!(worker_down.worker(P, Scope::Claim).await, "ok");

    let producer_down = Bench::new(Some(jwks(&endpoint, "codeq-producer")), worker_side(json!({})), true);
    assert_eq!(producer_down.worker(&token, Scope::Claim).await, down);
    assert_eq!(producer_down.any(&token).await, down);
    assert_eq!(producer_down.worker(W, Scope::Claim).await, "ok");
    assert_eq!(producer_down.any(W).await, "ok");
}

async fn one_key_of(signer: &Signer) -> Endpoint {
    Endpoint::serving(&[signer.jwk("k1")]).await
}

#[tokio::test]
async fn any_routes_take_a_worker_with_an_event_type_else_a_producer() {
    let table = [(json!({}), "w"), (json!({"scopes": []}), "w"), (json!({"eventTypes": []}), "p")];
    for (config, subject) in table {
        let worker = worker_side(with(config.clone(), json!({"token": P})));
        let bench = Bench::new(producer_side(json!({})), worker, false);
        let reader = bench.gate.any(Some(&bearer(P))).await.expect("accepted").0;
        assert_eq!(&*reader.subject, subject, "{config}");
    }
    let idle = Bench::new(producer_side(json!({})), worker_side(json!({"eventTypes": []})), true);
    assert_eq!(idle.any(W).await, "401 invalid token");
    let homeless = Bench::new(producer_side(json!({})), worker_side(json!({"raw": {"tid": ""}})), true);
    assert_eq!(homeless.any(W).await, "403 invalid tenant claims");
    let homeless = Bench::new(producer_side(json!({"raw": {"tid": ""}})), None, true);
    assert_eq!(homeless.any(P).await, "403 invalid tenant claims");
}

#[tokio::test]
async fn a_side_without_a_provider_is_not_configured() {
    let bench = Bench::new(producer_side(json!({})), None, false);
    assert_eq!(bench.worker(P, Scope::Claim).await, "500 worker validator not configured");
    assert_eq!(bench.any(P).await, "ok");
    let bench = Bench::new(None, worker_side(json!({})), true);
    assert_eq!(bench.outcome(P).await, "500 producer validator not configured");
    assert_eq!(bench.admin(P).await, "500 producer validator not configured");
    assert_eq!(bench.worker(W, Scope::Claim).await, "ok");
    assert_eq!(bench.worker(P, Scope::Claim).await, "401 invalid token");
    assert_eq!(bench.any(P).await, "401 invalid token");
}

#[tokio::test]
async fn the_gate_can_be_used_from_any_task() {
    fn is_send<T: Send>(_: &T) {}
    let bench = Bench::new(producer_side(json!({})), worker_side(json!({})), true);
    is_send(&bench.gate.producer(None, Access::Change));
    is_send(&bench.gate.admin(None, Access::Change));
    is_send(&bench.gate.worker(None, Scope::Claim));
    is_send(&bench.gate.any(None));
    is_send(&bench.gate.worker_token(""));
}
