//! `codeq dev`: loopback, lenient, with tokens everyone knows.

use serde_json::json;

use super::*;
use crate::telemetry::logs::Format;

#[test]
fn dev_needs_no_settings() {
    let loaded = dev("").load().expect("a configuration");
    let config = loaded.config;
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert_eq!((config.env.as_str(), config.is_dev(), config.log_format), ("dev", true, Format::Text));
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    let producer = config.producer_auth.expect("a provider");
    assert_eq!(producer.kind, "static");
    assert_eq!(
        producer.config,
        json!({
            "token": "dev-token",
            "subject": "producer-dev",
            "raw": {"role": "ADMIN", "tenantId": "dev-tenant"},
        })
    );
    let scopes =
        ["codeq:claim", "codeq:heartbeat", "codeq:abandon", "codeq:nack", "codeq:result", "codeq:subscribe"];
    assert_eq!(
        config.worker_auth.expect("a provider").config,
        json!({
            "token": "dev-token",
            "subject": "worker-dev",
            "eventTypes": ["*"],
            "scopes": scopes,
            "raw": {"tenantId": "dev-tenant"},
        })
    );
}

#[test]
fn dev_listens_on_loopback_whatever_is_set() {
    let warning = ["bindAddress is ignored: codeq dev listens on 127.0.0.1 only"];
    for case in [
        dev("bindAddress: 0.0.0.0"),
        dev("bindAddress: 'no such: host'"),
        dev("").env(&[("CODEQ_BIND_ADDRESS", "::")]),
    ] {
        let loaded = case.load().expect("a configuration");
        assert_eq!(loaded.warnings, warning);
        assert_eq!(loaded.config.listen.host.as_deref(), Some("127.0.0.1"));
    }
    let blank = dev("bindAddress: ''").config();
    assert_eq!(blank.listen.host.as_deref(), Some("127.0.0.1"));
}

/// `:9091` is all interfaces, and with it everyone on the network had the token that everyone knows.
#[test]
fn every_address_of_dev_is_on_loopback() {
    let file = "metricsAddr: ':9100'\nworkerStreamAddr: ':9091'\nproducerStreamAddr: '0.0.0.0:9092'";
    let loaded = dev(file).load().expect("a configuration");
    let shown = |address: &Option<ListenAddress>| address.as_ref().map(ToString::to_string);
    assert_eq!(shown(&loaded.config.metrics).as_deref(), Some("127.0.0.1:9100"));
    assert_eq!(shown(&loaded.config.streams.worker).as_deref(), Some("127.0.0.1:9091"));
    assert_eq!(shown(&loaded.config.streams.producer).as_deref(), Some("127.0.0.1:9092"));
    let warning = "producerStreamAddr is 127.0.0.1:9092: codeq dev listens on 127.0.0.1 only";
    assert_eq!(loaded.warnings, [warning]);
    let own = dev("workerStreamAddr: '[::1]:9091'\nproducerStreamAddr: 'localhost:1'").load();
    let own = own.expect("a configuration");
    assert_eq!(shown(&own.config.streams.worker).as_deref(), Some("[::1]:9091"));
    assert_eq!(shown(&own.config.streams.producer).as_deref(), Some("127.0.0.1:1"));
    assert_eq!(own.warnings, Vec::<String>::new());
}

#[test]
fn other_settings_apply_in_dev() {
    let config =
        dev("port: 9\nlogFormat: json").env(&[("ENV", "staging"), ("WEBHOOK_HMAC_SECRET", "s")]).config();
    assert_eq!((config.listen.port, config.env.as_str(), config.log_format), (9, "staging", Format::Json));
}

#[test]
fn configured_auth_replaces_the_known_token_on_its_side() {
    let config = dev("producerAuthProvider: static\nproducerAuthConfig: own").load();
    assert_eq!(
        config.expect_err("not JSON").to_string(),
        "load config: producerAuthConfig is not valid JSON: expected value at line 1 column 1"
    );
    let config = dev("producerAuthProvider: static\nproducerAuthConfig: {token: own}").config();
    assert_eq!(config.producer_auth.expect("a provider").config, json!({"token": "own"}));
    assert_eq!(config.worker_auth.expect("a provider").config["token"], "dev-token");
    let jwks = dev("workerJwksUrl: https://x.example\nworkerIssuer: i").config();
    assert_eq!(jwks.worker_auth.expect("a provider").kind, "jwks");
}
