//! What becomes of values: replaced, derived, outdated.

use std::time::Duration;

use serde_json::json;

use super::*;

#[test]
fn numbers_out_of_range_are_replaced() {
    let config = enough(
        "
defaultLeaseSeconds: 100000
maxAttemptsDefault: 0
dlqRetentionSeconds: -1
subscriptionMinIntervalSeconds: -5
tracingSampleRatio: 1.5
rateLimit: {producer: {requestsPerMinute: 60, burstSize: -1}, admin: {requestsPerMinute: 1, burstSize: 2}}",
    )
    .config();
    assert_eq!((config.tasks.default_lease_seconds, config.tasks.max_attempts), (43_200, 5));
    assert_eq!(config.tasks.dlq_retention, None);
    assert_eq!(config.webhooks.subscription_min_interval, Duration::from_secs(5));
    assert_eq!(config.tracing.sample_ratio, 1.0);
    assert_eq!(config.rate_limits.producer, None);
    assert_eq!(config.rate_limits.admin, Some(RateLimit { requests_per_minute: 1, burst_size: 2 }));
}

#[test]
fn an_unknown_backoff_policy_is_warned_about() {
    let loaded = enough("backoffPolicy: fibonacci").load().expect("a configuration");
    assert_eq!(loaded.config.tasks.backoff, codeq_queue::Backoff::default());
    assert_eq!(loaded.warnings, ["backoffPolicy \"fibonacci\" is unknown, exp_full_jitter is used"]);
}

#[test]
fn explicit_durability_wins() {
    for (yaml, expected) in [
        ("", Durability::Fsync),
        ("durability: os", Durability::Os),
        ("persistenceConfig: {fsyncOnCommit: false}", Durability::Os),
        ("persistenceConfig: {fsyncOnCommit: true}", Durability::Fsync),
        ("persistenceConfig: {fsyncOnCommit: false}\ndurability: fsync", Durability::Fsync),
        ("persistenceConfig: {fsyncOnCommit: true}\ndurability: os", Durability::Os),
    ] {
        match enough(yaml).config().persistence {
            Persistence::Embedded(embedded) => assert_eq!(embedded.durability, expected, "{yaml}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn derived_values_follow_their_sources() {
    for (yaml, dir) in [
        ("", "./codeq-data/artifacts"),
        ("persistenceProvider: pebble\npersistenceConfig: {path: /data/}", "/data/artifacts"),
        ("persistenceProvider: memory", "./codeq-artifacts"),
        ("persistenceProvider: redis", "./codeq-artifacts"),
        ("localArtifactsDir: /own", "/own"),
    ] {
        assert_eq!(enough(yaml).config().artifacts.local_dir, Path::new(dir), "{yaml}");
    }
    assert!(enough("env: dev").config().webhooks.allow_private_addresses);
    assert!(!enough("").config().webhooks.allow_private_addresses);
    let set = enough("env: dev\nwebhooks: {allowPrivateAddresses: false}").config();
    assert!(!set.webhooks.allow_private_addresses);
}

#[test]
fn identity_settings_configure_jwks() {
    let rest = "
identityServiceUrl: https://id.example.com/
identityAudience: codeq-producer
workerJwksUrl: https://w.example.com/keys
workerIssuer: w
webhookHmacSecret: s";
    let config = serve(rest).config();
    let producer = config.producer_auth.expect("a provider");
    assert_eq!(producer.kind, "jwks");
    assert_eq!(
        producer.config,
        json!({
            "jwksUrl": "https://id.example.com/v1/.well-known/jwks.json",
            "issuer": "https://id.example.com",
            "audience": "codeq-producer",
        })
    );
    let worker = config.worker_auth.expect("a provider");
    let expected =
        json!({"jwksUrl": "https://w.example.com/keys", "issuer": "w", "audience": "codeq-worker"});
    assert_eq!((worker.kind.as_str(), worker.config), ("jwks", expected));
    let explicit =
        serve(&format!("{rest}\nidentityJwksUrl: https://k.example.com\nidentityIssuer: i")).config();
    let producer = explicit.producer_auth.expect("a provider").config;
    assert_eq!((&producer["jwksUrl"], &producer["issuer"]), (&json!("https://k.example.com"), &json!("i")));
}

#[test]
fn a_config_without_its_provider_is_warned_about() {
    let warnings = dev("workerAuthConfig: {token: t}").warnings();
    assert_eq!(warnings, ["workerAuthConfig is ignored: workerAuthProvider is not set"]);
}

#[test]
fn a_later_choice_of_store_outdates_the_keys_of_the_former() {
    let file = "persistenceConfig: {path: /data, numShards: 2}";
    let loaded = dev(file).flags(&[("persistenceProvider", "memory")]).load().expect("a configuration");
    assert_eq!(loaded.config.persistence, Persistence::Memory);
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert_eq!(
        enough("persistenceProvider: memory\npersistenceConfig: {path: /data}").load_faults(),
        ["unknown key persistenceConfig.path for persistenceProvider memory"]
    );
}

/// The original kept its tasks in Redis unless told otherwise; its Compose files name the address only, and opened
/// an empty directory here.
#[test]
fn a_redis_without_a_provider_is_where_tasks_are_kept() {
    let loaded = enough("").env(&[("REDIS_ADDR", "kvrocks:6666")]).load().expect("a configuration");
    let Persistence::Kvrocks(kvrocks) = loaded.config.persistence else { panic!("not kvrocks") };
    assert_eq!(kvrocks.addr, "kvrocks:6666");
    assert!(loaded.warnings[0].starts_with("redisAddr is set and persistenceProvider is not"));
    let own = "redisAddr: kvrocks:6666\npersistenceConfig: {path: /data}";
    let loaded = enough(own).load().expect("a configuration");
    assert_eq!(loaded.config.persistence.name(), "embedded");
    assert!(loaded.warnings[0].starts_with("redisAddr is ignored"));
    let named = enough("persistenceProvider: embedded").env(&[("REDIS_ADDR", "x:1")]).load();
    let named = named.expect("a configuration");
    assert_eq!((named.config.persistence.name(), named.warnings.len()), ("embedded", 0));
    assert_eq!(dev("redisAddr: x:1").config().persistence.name(), "embedded");
}

#[test]
fn no_shards_is_the_default_number_of_them() {
    for given in [0, -3] {
        let config = enough(&format!("persistenceConfig: {{numShards: {given}}}")).config();
        let Persistence::Embedded(embedded) = config.persistence else { panic!("not embedded") };
        assert_eq!(embedded.num_shards, 1);
    }
}

#[test]
fn bytes_in_flight_are_a_quarter_of_the_memory_and_enough_for_the_largest_result() {
    let config = enough("").config();
    assert!(config.limits.max_in_flight_bytes >= 4 * config.limits.max_submit_bytes);
    assert_eq!(enough("limits: {maxInFlightBytes: 7}").config().limits.max_in_flight_bytes, 7);
}

/// A file with shards and nothing else is enough for moving tasks between them.
#[test]
fn shards_alone_are_a_configuration_for_tools() {
    let file = "sharding: {defaultShard: a, backends: {a: {address: 'h:1'}, b: {address: 'h:2'}}}";
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("shards.yaml");
    std::fs::write(&path, file).expect("it is ours");
    let sources = || Sources { mode: Mode::Serve, file: Some(path.clone()), env: vec![], flags: vec![] };
    assert!(load(sources()).is_err(), "a server needs more");
    let config = load_shards(sources()).expect("a configuration").config;
    let Persistence::Kvrocks(kvrocks) = config.persistence else { panic!("not kvrocks") };
    assert_eq!(kvrocks.sharding.expect("shards").backends.len(), 2);
}
