//! Configuration of providers, and what a bad one says at start-up.

use super::*;

fn start(kind: &str, config: Value) -> String {
    let clock = Arc::new(ManualClock::at(START));
    open(Some(provider(kind, config)), None, false, clock).err().unwrap_or_else(|| "ok".to_owned())
}

fn complete() -> Value {
    json!({"jwksUrl": "http://127.0.0.1:1/jwks", "issuer": "i", "audience": "a"})
}

#[test]
fn a_key_set_needs_address_issuer_and_audience() {
    let table = [
        (json!({}), "ok"),
        (json!({"jwksUrl": ""}), "jwksURL is required"),
        (json!({"jwksUrl": null}), "jwksURL is required"),
        (json!({"issuer": " "}), "issuer is required"),
        (json!({"audience": ""}), "audience is required"),
        (json!({"jwksUrl": "ftp://x/"}), "jwksURL must be a valid http(s) URL"),
        (json!({"jwksUrl": "nonsense"}), "jwksURL must be a valid http(s) URL"),
        (json!({"foo": 1}), "unknown key \"foo\" in jwks auth config"),
        (json!({"issuer": 5}), "issuer must be a string in jwks auth config"),
        (json!({"clockSkew": "soon"}), "clockSkew must be a duration in jwks auth config"),
        (json!({"httpTimeout": -1}), "httpTimeout must be a duration in jwks auth config"),
        (json!({"clockSkew": "1m30s", "httpTimeout": 5_000_000_000_u64}), "ok"),
    ];
    for (changes, expected) in table {
        let config = with(complete(), changes);
        assert_eq!(start("jwks", config.clone()), expected, "{config}");
        assert_eq!(start("jwks", json!(config.to_string())), expected, "as text: {config}");
    }
    assert_eq!(start("jwks", Value::Null), "jwksURL is required");
    assert_eq!(start("jwks", json!("")), "jwksURL is required");
    assert_eq!(start("jwks", json!("{oops")), "jwks auth config is not valid JSON");
    assert_eq!(start("jwks", json!([1])), "jwks auth config must be an object");
}

#[test]
fn an_unknown_provider_is_named() {
    assert_eq!(start("ldap", json!({})), "unknown auth provider type: ldap");
    assert_eq!(start("", json!({})), "unknown auth provider type: ");
}

#[test]
fn either_side_is_checked() {
    let clock = Arc::new(ManualClock::at(START));
    let outcome = open(Some(fixed("t", json!({}))), Some(provider("x", json!({}))), false, clock);
    assert_eq!(outcome.err().as_deref(), Some("unknown auth provider type: x"));
}

#[test]
fn a_fixed_token_needs_a_token() {
    let table = [
        (json!({"token": "t"}), "ok"),
        (json!({}), "token is required"),
        (json!({"token": "  "}), "token is required"),
        (json!("  "), "token is required"),
        (json!("\"\""), "token is required"),
        (json!("{\"subject\":\"x\"}"), "token is required"),
        (json!({"token": "t", "scope": "x"}), "unknown key \"scope\" in static auth config"),
        (json!({"token": "t", "scopes": "x"}), "scopes must be a list of strings in static auth config"),
        (
            json!({"token": "t", "eventTypes": [1]}),
            "eventTypes must be a list of strings in static auth config",
        ),
        (json!({"token": "t", "raw": []}), "raw must be an object in static auth config"),
        (
            json!({"token": "t", "email": "a@b", "subject": "s", "scopes": [], "eventTypes": [], "raw": {}}),
            "ok",
        ),
        (json!({"token": "t".repeat(16385)}), "token must not be longer than 16384 bytes"),
        (json!(7), "static auth config must be an object"),
    ];
    for (config, expected) in table {
        assert_eq!(start("static", config.clone()), expected, "{config:.80}");
    }
}

#[tokio::test]
async fn a_fixed_token_may_be_written_in_four_ways() {
    let ways =
        [json!({"token": " s3cret "}), json!("{\"token\":\"s3cret\"}"), json!("\"s3cret\""), json!("s3cret")];
    for config in ways {
        let bench = Bench::new(Some(provider("static", config)), None, false);
        let caller = bench.call("s3cret").await.expect("accepted");
        // Without a tenant the subject is the tenant.
        assert_eq!((&*caller.subject, &*caller.tenant), ("static", "static"));
        assert_eq!((caller.expires_at, caller.ends_at), (None, None));
        for wrong in ["s3cre", "s3crets", "S3CRET", "x"] {
            assert_eq!(bench.outcome(wrong).await, "401 invalid token");
        }
    }
    let bench = Bench::new(Some(provider("static", json!("12345"))), None, false);
    assert_eq!(bench.outcome("12345").await, "ok");
}

#[test]
fn several_providers_are_two_to_four_and_not_nested() {
    let one = json!({"type": "static", "config": "a"});
    let list = |entries: &[&Value]| json!({"providers": entries});
    let table = [
        (list(&[&one, &one]), "ok"),
        (list(&[&one, &one, &one, &one]), "ok"),
        (json!({}), "multi auth: 2 to 4 providers are required, not 0"),
        (list(&[&one]), "multi auth: 2 to 4 providers are required, not 1"),
        (list(&[&one; 5]), "multi auth: 2 to 4 providers are required, not 5"),
        (json!({"providers": {}}), "multi auth: providers must be a list in multi auth config"),
        (json!({"providers": [], "x": 1}), "multi auth: unknown key \"x\" in multi auth config"),
        (list(&[&one, &json!({"type": "multi"})]), "multi auth: providers must not be nested"),
        (list(&[&one, &json!({"type": "ldap"})]), "multi auth: unknown auth provider type: ldap"),
        (list(&[&one, &json!({"config": {}})]), "multi auth: type is required"),
        (list(&[&one, &json!({"type": "jwks"})]), "multi auth: jwksURL is required"),
        (
            list(&[&one, &json!({"type": "static", "konfig": 1})]),
            "multi auth: unknown key \"konfig\" in multi auth config",
        ),
    ];
    for (config, expected) in table {
        assert_eq!(start("multi", config.clone()), expected, "{config}");
        assert_eq!(start("multi", json!(config.to_string())), expected, "as text: {config}");
    }
}

#[tokio::test]
async fn the_first_of_several_providers_that_accepts_wins() {
    let (endpoint, signer) = one_key().await;
    let shared = json!({"token": "shared", "subject": "first", "raw": {"tid": "acme"}});
    let config = json!({"providers": [
        {"type": "static", "config": shared},
        {"type": "jwks", "config": jwks(&endpoint, "codeq-producer").config},
        {"type": "static", "config": with(shared.clone(), json!({"subject": "second"}))},
    ]});
    let bench = Bench::new(Some(provider("multi", config)), None, false);
    assert_eq!(&*bench.call("shared").await.expect("accepted").subject, "first");
    assert_eq!(endpoint.hits(), 0);
    assert_eq!(&*bench.call(&signer.token(&claims(json!({})))).await.expect("accepted").subject, "someone");
    let rejected = "401 multi auth: token rejected by every provider: ";
    let texts = "invalid token\ntoken is malformed\ninvalid token";
    assert_eq!(bench.outcome("nope").await, format!("{rejected}{texts}"));
    let stranger = signer.token(&claims(json!({"iss": "x"})));
    let texts = "invalid token\ninvalid issuer: x\ninvalid token";
    assert_eq!(bench.outcome(&stranger).await, format!("{rejected}{texts}"));
}

#[tokio::test]
async fn several_providers_refuse_nothing_for_good_while_one_cannot_be_asked() {
    let (endpoint, signer) = one_key().await;
    endpoint.set(endpoint::Answer::Status(500));
    let config = json!({"providers": [
        {"type": "jwks", "config": jwks(&endpoint, "codeq-producer").config},
        {"type": "static", "config": "shared"},
    ]});
    let bench = Bench::new(Some(provider("multi", config)), None, false);
    let token = signer.token(&claims(json!({})));
    assert_eq!(bench.outcome(&token).await, "503 JWKS endpoint returned status 500");
    assert_eq!(bench.outcome("shared").await, "ok");
}

#[tokio::test]
async fn the_leeway_is_the_providers_own_or_the_default() {
    let (endpoint, signer) = one_key().await;
    let late = signer.token(&claims(json!({"exp": START_SECONDS - 30})));
    assert_eq!(Bench::producer(&endpoint).outcome(&late).await, "ok");
    let expired = "401 token has invalid claims: token is expired";
    for (skew, expected) in
        [(json!("0s"), expired), (json!("30s"), expired), (json!("30001ms"), "ok"), (json!(0), expired)]
    {
        let config = with(jwks(&endpoint, "codeq-producer").config, json!({"clockSkew": skew}));
        let bench = Bench::new(Some(provider("jwks", config)), None, false);
        assert_eq!(bench.outcome(&late).await, expected, "{skew}");
    }
}
