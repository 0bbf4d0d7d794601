//! Every fault, by its text, and all of them at once.

use super::*;

#[test]
fn files_with_faults_name_the_key() {
    for (yaml, fault) in [
        ("prot: 1", "unknown key prot"),
        ("limits: {maxBody: 1}", "unknown key limits.maxBody"),
        ("rateLimit: {producer: {burst: 1}}", "unknown key rateLimit.producer.burst"),
        ("persistenceConfig: {pth: x}", "unknown key persistenceConfig.pth"),
        (
            "persistenceConfig: {addr: x}",
            "unknown key persistenceConfig.addr for persistenceProvider embedded",
        ),
        ("persistenceConfig: '{\"pth\": 1}'", "unknown key persistenceConfig.pth"),
        (
            "persistenceConfig: 'oops'",
            "persistenceConfig is not valid JSON: expected value at line 1 column 1",
        ),
        ("persistenceConfig: [1]", "persistenceConfig must be a map"),
        ("port: '80'", "port must be an integer"),
        ("port: 80.5", "port must be an integer"),
        ("webhooks: {enabled: 1}", "webhooks.enabled must be true or false"),
        ("webhooks: 1", "webhooks must be a map"),
        ("tracingSampleRatio: x", "tracingSampleRatio must be a number"),
        ("redisPassword: 123", "redisPassword must be a string; put the value in quotes"),
        ("workerAuthConfig: 5", "workerAuthConfig must be a map or a JSON text"),
        (
            "sharding: {commandMappings: {a: 1}}",
            "sharding.commandMappings.a must be a string; put the value in quotes",
        ),
        ("sharding: {backends: {m: {adr: x}}}", "unknown key sharding.backends.m.adr"),
        ("sharding: {backends: {m: {db: x}}}", "sharding.backends.m.db must be an integer"),
        ("sharding: {backends: {m: 1}}", "sharding.backends.m must be a map"),
        ("[1]", "the configuration file must be a map"),
    ] {
        assert_eq!(serve(yaml).load_faults(), [fault], "{yaml}");
    }
}

#[test]
fn variables_with_faults_are_named() {
    for (name, text, fault) in [
        ("PORT", "eighty", "PORT must be an integer"),
        ("CODEQ_LIMITS_MAX_BODY_BYTES", "1MB", "CODEQ_LIMITS_MAX_BODY_BYTES must be an integer"),
        ("TRACING_SAMPLE_RATIO", "nan", "TRACING_SAMPLE_RATIO must be a number"),
        ("PERSISTENCE_CONFIG", "5", "PERSISTENCE_CONFIG must be a JSON map"),
        ("PERSISTENCE_CONFIG", "{\"pth\":1}", "unknown key persistenceConfig.pth"),
        (
            "PRODUCER_AUTH_CONFIG",
            "hunter2",
            "PRODUCER_AUTH_CONFIG is not valid JSON: expected value at line 1 column 1",
        ),
        ("CODEQ_SHARDING_BACKENDS", "[]", "CODEQ_SHARDING_BACKENDS must be a map or a JSON text"),
    ] {
        assert_eq!(serve("").env(&[(name, text)]).load_faults(), [fault]);
    }
    assert_eq!(serve("").flags(&[("port", "x")]).load_faults(), ["port must be an integer"]);
}

#[test]
fn broken_yaml_names_the_file_and_the_line() {
    let faults = serve("port: 1\nport: 2").load_faults();
    assert!(faults[0].ends_with(": duplicate mapping key: port at line 2, column 1"), "{faults:?}");
}

#[test]
fn all_load_faults_are_reported_at_once() {
    let error = serve("prot: 1\nenv: 2").env(&[("PORT", "x")]).load().expect_err("faults");
    assert_eq!(
        error.to_string(),
        "load config: env must be a string; put the value in quotes; unknown key prot; PORT must be an integer"
    );
}

#[test]
fn values_that_make_no_configuration_name_the_key() {
    for (yaml, fault) in [
        ("port: 65536", "port must be between 0 and 65535"),
        ("port: -1", "port must be between 0 and 65535"),
        ("bindAddress: '1.2.3.4:80'", "bindAddress must be an IP address or a host name"),
        ("metricsAddr: '9100'", "metricsAddr must be host:port or :port"),
        ("workerStreamAddr: 'x'", "workerStreamAddr must be host:port or :port"),
        ("producerStreamAddr: ':x'", "producerStreamAddr must be host:port or :port"),
        ("publicBaseUrl: example.com", "publicBaseUrl must be a valid http(s) URL"),
        ("timezone: Mars/Olympus", "timezone \"Mars/Olympus\" is not a known time zone"),
        ("logLevel: loud", "logLevel must be debug, info, warn or error"),
        ("logFormat: xml", "logFormat must be json or text"),
        ("durability: maybe", "durability must be fsync or os"),
        ("artifacts: {provider: ftp}", "artifacts.provider must be local or s3"),
        ("persistenceConfig: {numShards: 65}", "persistenceConfig.numShards must be between 1 and 64"),
        ("retentionSeconds: 9999999999", "retentionSeconds must be at most 315360000"),
        ("persistenceProvider: oracle", "unknown persistenceProvider \"oracle\""),
        ("sharding: {enabled: true}", "sharding requires persistenceProvider=kvrocks"),
        ("raft: {enabled: true}", "raft is not supported"),
        ("cluster: {enabled: true}", "cluster is not supported"),
        ("limits: {maxPayloadBytes: 5000000}", "limits.maxPayloadBytes exceeds limits.maxBodyBytes"),
        ("artifacts: {provider: s3}", "artifacts.s3.bucket is required"),
        ("identityJwksUrl: 'ftp://x'", "identityJwksUrl must be a valid http(s) URL"),
        ("identityServiceUrl: nonsense", "identityJwksUrl must be a valid http(s) URL"),
        ("workerJwksUrl: nonsense", "workerJwksUrl must be a valid http(s) URL"),
    ] {
        assert_eq!(enough(yaml).invalid(), [fault], "{yaml}");
    }
}

#[test]
fn features_of_other_systems_are_refused_by_variable_too() {
    let env = [("RAFT_ENABLED", "true"), ("CLUSTER_ENABLED", "1")];
    assert_eq!(enough("").env(&env).invalid(), ["raft is not supported", "cluster is not supported"]);
}

#[test]
fn serve_needs_auth_and_a_webhook_secret() {
    let no_auth = [
        "producer auth is not configured: set producerAuthProvider or identityJwksUrl",
        "worker auth is not configured: set workerAuthProvider, workerJwksUrl or allowProducerAsWorker",
    ];
    assert_eq!(serve("env: dev").invalid(), no_auth);
    let secret = "webhookHmacSecret is required when webhooks are enabled";
    let mut all = no_auth.to_vec();
    all.push(secret);
    assert_eq!(serve("webhookHmacSecret: '  '").invalid(), all);
    assert_eq!(
        serve("").load().expect_err("faults").to_string(),
        format!("invalid config: config validation failed: {}", all.join("; "))
    );
    assert_eq!(serve("webhooks: {enabled: false}").invalid(), no_auth);
    assert_eq!(serve("env: dev\nallowProducerAsWorker: true").invalid(), no_auth[..1]);
}

#[test]
fn automatic_worker_auth_needs_issuer_and_audience() {
    let base = "{producerAuthProvider: static, webhookHmacSecret: s, workerJwksUrl: 'https://x.example'";
    let both = serve(&format!("{base}, workerAudience: ''}}")).invalid();
    assert_eq!(both, ["workerIssuer is required in non-dev", "workerAudience is required"]);
    let dev = serve(&format!("{base}, env: dev, workerAudience: ''}}")).invalid();
    assert_eq!(dev, ["workerAudience is required"]);
    let named = serve(&format!("{base}, workerAuthProvider: static}}"));
    assert_eq!(named.config().worker_auth.expect("a provider").kind, "static");
}

#[test]
fn shards_must_exist() {
    let faults = enough(
        "
persistenceProvider: kvrocks
sharding:
  enabled: true
  defaultShard: main
  commandMappings: {render: video}
  tenantOverrides: {acme: vip}
  backends: {other: {db: 1}}",
    )
    .invalid();
    assert_eq!(
        faults,
        [
            "default shard \"main\" not found in sharding backends",
            "command render maps to undefined shard backend \"video\"",
            "tenant acme override maps to undefined shard backend \"vip\"",
            "shard backend \"other\" has empty address",
        ]
    );
}

#[test]
fn all_validation_faults_are_reported_at_once() {
    let faults = enough("port: -1\nlogLevel: loud\nraft: {enabled: true}").invalid();
    assert_eq!(
        faults,
        [
            "port must be between 0 and 65535",
            "logLevel must be debug, info, warn or error",
            "raft is not supported"
        ]
    );
}

/// The faults of a case, one per line, without the folder of the file.
fn told(case: Case) -> Vec<String> {
    let error = case.load().expect_err("faults");
    let line = |fault: &Fault| {
        let text = fault.to_string();
        match &fault.place {
            Some(place) if place.starts_with('/') => text[place.rfind(':').expect("a line")..].to_owned(),
            _ => text,
        }
    };
    error.faults().iter().map(line).collect()
}

#[test]
fn every_fault_tells_where_it_is_and_what_was_meant() {
    let case =
        serve("prot: 1\nlimits:\n  maxBodyBytes: 5\n  maxBodyByte: 6\nsharding:\n  backends: {m: {db: x}}")
            .env(&[("PORT", "x")]);
    let faults = told(case);
    assert_eq!(
        faults,
        [
            ":4: unknown key limits.maxBodyByte; did you mean limits.maxBodyBytes?",
            ":1: unknown key prot; did you mean port?",
            ":6: sharding.backends.m.db must be an integer",
            "PORT must be an integer",
        ]
    );
    let case = enough("port: 70000\nrateLimit: &r\n  producer: {burstSize: 99999999999}")
        .env(&[("LOG_LEVEL", "loud")]);
    assert_eq!(
        told(case),
        [
            ":7: port must be between 0 and 65535",
            "LOG_LEVEL: logLevel must be debug, info, warn or error",
            ":9: rateLimit.producer.burstSize must be at most 2147483647",
        ]
    );
}
