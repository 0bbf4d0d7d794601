//! Each setting arrives in its own field.

use std::time::Duration;

use codeq_queue::{Backoff, BackoffPolicy};

use super::*;
use crate::telemetry::logs::{Format, Level};

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

#[test]
fn settings_of_the_process() {
    let config = enough(
        "
port: 1
bindAddress: '[::1]'
metricsAddr: ':2'
publicBaseUrl: https://x.example/q/
env: qa
timezone: Europe/Berlin
logLevel: warn
logFormat: text
allowedClockSkewSeconds: 10
allowProducerAsWorker: true
identityServiceApiKey: k
limits: {maxBodyBytes: 13, maxPayloadBytes: 12, maxSubmitBytes: 11, maxInFlightBytes: 10}
workerStreamAddr: ':14'
producerStreamAddr: h:15
streams: {endAtTokenExpiry: false}",
    )
    .config();
    assert_eq!(config.listen.to_string(), "[::1]:1");
    assert_eq!(config.metrics.map(|address| address.port), Some(2));
    assert_eq!((config.public_base_url.as_str(), config.env.as_str()), ("https://x.example/q", "qa"));
    assert_eq!(config.timezone.iana_name(), Some("Europe/Berlin"));
    assert_eq!((config.log_level, config.log_format), (Level::Warn, Format::Text));
    assert_eq!((config.allowed_clock_skew, config.allow_producer_as_worker), (seconds(10), true));
    assert_eq!(config.identity_service_api_key.expose(), "k");
    let limits =
        Limits { max_body_bytes: 13, max_payload_bytes: 12, max_submit_bytes: 11, max_in_flight_bytes: 10 };
    assert_eq!(config.limits, limits);
    let streams = Streams {
        worker: ListenAddress::parse(":14"),
        producer: ListenAddress::parse("h:15"),
        end_at_token_expiry: false,
    };
    assert_eq!(config.streams, streams);
}

#[test]
fn settings_of_tasks() {
    let config = enough(
        "
defaultLeaseSeconds: 3
maxAttemptsDefault: 4
backoffPolicy: linear
backoffBaseSeconds: 5
backoffMaxSeconds: 6
retentionSeconds: 7
failedRetentionSeconds: 10
auditRetentionSeconds: 11
dlqRetentionSeconds: 8
cleanupIntervalSeconds: 9",
    )
    .config();
    let expected = Tasks {
        default_lease_seconds: 3,
        max_attempts: 4,
        backoff: Backoff { policy: BackoffPolicy::Linear, base_seconds: 5, max_seconds: 6 },
        retention: seconds(7),
        failed_retention: seconds(10),
        audit_retention: seconds(11),
        dlq_retention: Some(seconds(8)),
        cleanup_interval: seconds(9),
    };
    assert_eq!(config.tasks, expected);
}

#[test]
fn settings_of_webhooks_tracing_and_rate_limits() {
    let config = enough(
        "
webhooks: {enabled: false, allowPrivateAddresses: true, timeoutSeconds: 1}
subscriptionMinIntervalSeconds: 2
subscriptionCleanupIntervalSeconds: 3
resultWebhookMaxAttempts: 4
resultWebhookBaseBackoffSeconds: 5
resultWebhookMaxBackoffSeconds: 6
tracingEnabled: true
tracingServiceName: n
tracingOtlpEndpoint: http://c:7
tracingOtlpInsecure: true
tracingSampleRatio: 0.5
rateLimit:
  producer: {requestsPerMinute: 1, burstSize: 2}
  worker: {requestsPerMinute: 3, burstSize: 4}
  webhook: {requestsPerMinute: 5, burstSize: 6}
  admin: {requestsPerMinute: 7, burstSize: 8}",
    )
    .config();
    let webhooks = Webhooks {
        enabled: false,
        hmac_secret: Secret::new("s"),
        allow_private_addresses: true,
        timeout: seconds(1),
        subscription_min_interval: seconds(2),
        subscription_cleanup_interval: seconds(3),
        result_max_attempts: 4,
        result_base_backoff: seconds(5),
        result_max_backoff: seconds(6),
    };
    assert_eq!(config.webhooks, webhooks);
    let tracing = Tracing {
        enabled: true,
        service_name: "n".into(),
        otlp_endpoint: "c:7".into(),
        otlp_insecure: true,
        sample_ratio: 0.5,
    };
    assert_eq!(config.tracing, tracing);
    let limit = |requests_per_minute, burst_size| Some(RateLimit { requests_per_minute, burst_size });
    let rate_limits =
        RateLimits { producer: limit(1, 2), worker: limit(3, 4), webhook: limit(5, 6), admin: limit(7, 8) };
    assert_eq!(config.rate_limits, rate_limits);
}

#[test]
fn settings_of_kvrocks_and_s3() {
    let config = enough(
        "
persistenceProvider: kvrocks
persistenceConfig: {password: p, db: 1, poolSize: 2, tls: true, cluster: true, timeoutSeconds: 3,
  waitReplicas: 4, waitTimeoutMs: 250, untenantedTenant: t}
redisAddr: r:5
requeueInspectLimit: 6
sweepIntervalSeconds: 7
sharding: {enabled: true, defaultShard: m, commandMappings: {Render: m}, tenantOverrides: {acme: m},
  backends: {m: {address: 'a:8', password: q, db: 9, poolSize: 10,
  sentinel: {addrs: 's:1, s:2', master: b}}}, spread: true, spreadOver: [m]}
localArtifactsDir: /artifacts
artifacts: {provider: s3, s3: {bucket: b, region: r, endpoint: e, prefix: p, accessKeyId: i,
  secretAccessKey: k, pathStyle: true}}",
    )
    .config();
    let pair = |name: &str| [(name.to_string(), "m".to_string())].into();
    let backend = Backend {
        address: "a:8".into(),
        password: Secret::new("q"),
        db: 9,
        pool_size: 10,
        sentinel: Some(Sentinel {
            addresses: vec!["s:1".into(), "s:2".into()],
            master: "b".into(),
            password: Secret::new(""),
        }),
    };
    let sharding = Sharding {
        default_shard: "m".into(),
        command_mappings: pair("render"),
        tenant_overrides: pair("acme"),
        backends: [("m".to_string(), backend)].into(),
        spread: true,
        spread_over: vec!["m".to_string()],
    };
    let kvrocks = Kvrocks {
        addr: "r:5".into(),
        password: Secret::new("p"),
        db: 1,
        pool_size: 2,
        tls: true,
        cluster: true,
        timeout: seconds(3),
        wait_replicas: 4,
        wait_timeout: Duration::from_millis(250),
        sentinel: None,
        untenanted_tenant: "t".into(),
        requeue_inspect_limit: 6,
        sweep_interval: seconds(7),
        sharding: Some(sharding),
    };
    assert_eq!(config.persistence, Persistence::Kvrocks(Box::new(kvrocks)));
    let s3 = S3 {
        bucket: "b".into(),
        region: "r".into(),
        endpoint: "e".into(),
        prefix: "p".into(),
        access_key_id: Secret::new("i"),
        secret_access_key: Secret::new("k"),
        path_style: true,
    };
    assert_eq!(config.artifacts, Artifacts { local_dir: "/artifacts".into(), s3: Some(s3) });
}
