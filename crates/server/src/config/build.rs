//! Makes the typed configuration out of settings that passed every check.

use std::path::PathBuf;
use std::time::Duration;

use codeq_queue::{Backoff, BackoffPolicy};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::address::{ListenAddress, parse_host};
use super::masked;
use super::model::{
    Artifacts, AuthProvider, Backend, Config, Durability, Embedded, Kvrocks, Limits, Mode, Oidc, Persistence,
    RateLimit, RateLimits, S3, Sentinel, Sharding, Streams, Tasks, TlsFiles, Tracing, Webhooks,
};
use super::secret::Secret;
use super::settings::Settings;
use crate::telemetry::logs::{Format, Level};

pub(super) fn config(settings: &Settings, mode: Mode) -> Config {
    Config {
        mode,
        listen: ListenAddress {
            host: parse_host(settings.text("bindAddress")).expect("the rules checked bindAddress"),
            port: u16::try_from(settings.int("port")).expect("the rules checked port"),
        },
        metrics: address(settings, "metricsAddr"),
        tls: tls(settings),
        public_base_url: settings.text("publicBaseUrl").trim_end_matches('/').to_string(),
        env: text(settings, "env"),
        timezone: TimeZone::get(settings.text("timezone")).expect("the rules checked timezone"),
        log_level: Level::parse(settings.text("logLevel")).expect("the rules checked logLevel"),
        log_format: Format::parse(settings.text("logFormat")).expect("the rules checked logFormat"),
        persistence: persistence(settings),
        tasks: tasks(settings),
        artifacts: artifacts(settings),
        limits: limits(settings),
        streams: streams(settings),
        producer_auth: auth(settings, "producerAuthProvider", "producerAuthConfig"),
        worker_auth: auth(settings, "workerAuthProvider", "workerAuthConfig"),
        allowed_clock_skew: seconds(settings, "allowedClockSkewSeconds"),
        allow_producer_as_worker: settings.is_true("allowProducerAsWorker"),
        identity_service_api_key: secret(settings, "identityServiceApiKey"),
        webhooks: webhooks(settings),
        tracing: tracing(settings),
        rate_limits: rate_limits(settings),
        oidc: oidc(settings),
        test_clock: false,
        shown: masked::shown(settings),
    }
}

fn text(settings: &Settings, path: &str) -> String {
    settings.text(path).to_string()
}

fn secret(settings: &Settings, path: &str) -> Secret {
    Secret::new(settings.text(path))
}

fn seconds(settings: &Settings, path: &str) -> Duration {
    Duration::from_secs(settings.int(path).unsigned_abs())
}

fn count(settings: &Settings, path: &str) -> u32 {
    u32::try_from(settings.int(path)).expect("the rules keep counts within 0..=i32::MAX")
}

fn bytes(settings: &Settings, path: &str) -> usize {
    usize::try_from(settings.int(path)).expect("the rules keep sizes within what a machine has")
}

fn address(settings: &Settings, path: &str) -> Option<ListenAddress> {
    ListenAddress::parse(settings.text(path))
}

fn oidc(settings: &Settings) -> Option<Oidc> {
    let given = |path| Some(settings.text(path)).filter(|text| !text.is_empty()).map(str::to_owned);
    Some(Oidc {
        issuer: given("dashboard.oidc.issuer")?.trim_end_matches('/').to_owned(),
        client_id: text(settings, "dashboard.oidc.clientId"),
        scopes: text(settings, "dashboard.oidc.scopes"),
        token_url: given("dashboard.oidc.tokenUrl"),
    })
}

fn tls(settings: &Settings) -> Option<TlsFiles> {
    let file = |path| Some(settings.text(path)).filter(|file| !file.is_empty()).map(PathBuf::from);
    Some(TlsFiles {
        cert_file: file("tls.certFile")?,
        key_file: file("tls.keyFile")?,
        client_ca_file: file("tls.clientCaFile"),
    })
}

fn persistence(settings: &Settings) -> Persistence {
    match settings.text("persistenceProvider") {
        "memory" => Persistence::Memory,
        "kvrocks" => Persistence::Kvrocks(Box::new(kvrocks(settings))),
        _ => Persistence::Embedded(Embedded {
            path: PathBuf::from(settings.text("persistenceConfig.path")),
            num_shards: count(settings, "persistenceConfig.numShards"),
            durability: match settings.text("durability") {
                "os" => Durability::Os,
                _ => Durability::Fsync,
            },
        }),
    }
}

fn kvrocks(settings: &Settings) -> Kvrocks {
    Kvrocks {
        addr: text(settings, "persistenceConfig.addr"),
        password: secret(settings, "persistenceConfig.password"),
        db: count(settings, "persistenceConfig.db"),
        pool_size: count(settings, "persistenceConfig.poolSize"),
        tls: settings.is_true("persistenceConfig.tls"),
        cluster: settings.is_true("persistenceConfig.cluster"),
        timeout: seconds(settings, "persistenceConfig.timeoutSeconds"),
        wait_replicas: count(settings, "persistenceConfig.waitReplicas"),
        wait_timeout: Duration::from_millis(settings.int("persistenceConfig.waitTimeoutMs").unsigned_abs()),
        sentinel: sentinel(
            settings.text("persistenceConfig.sentinel.addrs"),
            settings.text("persistenceConfig.sentinel.master"),
            settings.text("persistenceConfig.sentinel.password"),
        ),
        untenanted_tenant: text(settings, "persistenceConfig.untenantedTenant"),
        requeue_inspect_limit: count(settings, "requeueInspectLimit"),
        sweep_interval: seconds(settings, "sweepIntervalSeconds"),
        sharding: settings.is_true("sharding.enabled").then(|| sharding(settings)),
    }
}

fn sharding(settings: &Settings) -> Sharding {
    let pairs = |path| settings.map(path).iter().map(|(name, shard)| (name.clone(), string(shard)));
    Sharding {
        default_shard: text(settings, "sharding.defaultShard"),
        command_mappings: pairs("sharding.commandMappings")
            .map(|(command, shard)| (command.to_lowercase(), shard))
            .collect(),
        tenant_overrides: pairs("sharding.tenantOverrides").collect(),
        backends: settings
            .map("sharding.backends")
            .iter()
            .map(|(name, entry)| (name.clone(), backend(entry)))
            .collect(),
        spread: settings.is_true("sharding.spread"),
        spread_over: settings
            .value("sharding.spreadOver")
            .as_array()
            .into_iter()
            .flatten()
            .map(string)
            .collect(),
    }
}

/// `None` without addresses.
fn sentinel(addresses: &str, master: &str, password: &str) -> Option<Sentinel> {
    let addresses: Vec<String> =
        addresses.split(',').map(str::trim).filter(|address| !address.is_empty()).map(Into::into).collect();
    (!addresses.is_empty()).then(|| Sentinel {
        addresses,
        master: master.to_owned(),
        password: Secret::new(password.to_owned()),
    })
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

fn backend(entry: &Value) -> Backend {
    let number = |name: &str| {
        let number = entry[name].as_i64().and_then(|number| u32::try_from(number).ok());
        number.expect("the rules fill in every field of a backend")
    };
    Backend {
        address: string(&entry["address"]),
        password: Secret::new(string(&entry["password"])),
        db: number("db"),
        pool_size: number("poolSize"),
        sentinel: {
            let field = |name: &str| entry["sentinel"][name].as_str().unwrap_or_default();
            sentinel(field("addrs"), field("master"), field("password"))
        },
    }
}

fn tasks(settings: &Settings) -> Tasks {
    let policy =
        BackoffPolicy::parse(settings.text("backoffPolicy")).expect("the rules checked backoffPolicy");
    let dlq_retention = seconds(settings, "dlqRetentionSeconds");
    Tasks {
        default_lease_seconds: settings.int("defaultLeaseSeconds").unsigned_abs(),
        max_attempts: count(settings, "maxAttemptsDefault"),
        backoff: Backoff {
            policy,
            base_seconds: settings.int("backoffBaseSeconds").unsigned_abs(),
            max_seconds: settings.int("backoffMaxSeconds").unsigned_abs(),
        },
        retention: seconds(settings, "retentionSeconds"),
        failed_retention: seconds(settings, "failedRetentionSeconds"),
        audit_retention: seconds(settings, "auditRetentionSeconds"),
        dlq_retention: (!dlq_retention.is_zero()).then_some(dlq_retention),
        cleanup_interval: seconds(settings, "cleanupIntervalSeconds"),
    }
}

fn artifacts(settings: &Settings) -> Artifacts {
    let s3 = || S3 {
        bucket: text(settings, "artifacts.s3.bucket"),
        region: text(settings, "artifacts.s3.region"),
        endpoint: text(settings, "artifacts.s3.endpoint"),
        prefix: text(settings, "artifacts.s3.prefix"),
        access_key_id: secret(settings, "artifacts.s3.accessKeyId"),
        secret_access_key: secret(settings, "artifacts.s3.secretAccessKey"),
        path_style: settings.is_true("artifacts.s3.pathStyle"),
    };
    Artifacts {
        local_dir: PathBuf::from(settings.text("localArtifactsDir")),
        s3: (settings.text("artifacts.provider") == "s3").then(s3),
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        max_body_bytes: bytes(settings, "limits.maxBodyBytes"),
        max_payload_bytes: bytes(settings, "limits.maxPayloadBytes"),
        max_submit_bytes: bytes(settings, "limits.maxSubmitBytes"),
        max_in_flight_bytes: bytes(settings, "limits.maxInFlightBytes"),
    }
}

fn streams(settings: &Settings) -> Streams {
    Streams {
        worker: address(settings, "workerStreamAddr"),
        producer: address(settings, "producerStreamAddr"),
        end_at_token_expiry: settings.is_true("streams.endAtTokenExpiry"),
    }
}

fn auth(settings: &Settings, provider: &str, config: &str) -> Option<AuthProvider> {
    let kind = settings.text(provider);
    (!kind.is_empty())
        .then(|| AuthProvider { kind: kind.to_string(), config: settings.value(config).clone() })
}

fn webhooks(settings: &Settings) -> Webhooks {
    Webhooks {
        enabled: settings.is_true("webhooks.enabled"),
        hmac_secret: secret(settings, "webhookHmacSecret"),
        allow_private_addresses: settings.is_true("webhooks.allowPrivateAddresses"),
        timeout: seconds(settings, "webhooks.timeoutSeconds"),
        subscription_min_interval: seconds(settings, "subscriptionMinIntervalSeconds"),
        subscription_cleanup_interval: seconds(settings, "subscriptionCleanupIntervalSeconds"),
        result_max_attempts: count(settings, "resultWebhookMaxAttempts"),
        result_base_backoff: seconds(settings, "resultWebhookBaseBackoffSeconds"),
        result_max_backoff: seconds(settings, "resultWebhookMaxBackoffSeconds"),
    }
}

fn tracing(settings: &Settings) -> Tracing {
    Tracing {
        enabled: settings.is_true("tracingEnabled"),
        service_name: text(settings, "tracingServiceName"),
        otlp_endpoint: text(settings, "tracingOtlpEndpoint"),
        otlp_insecure: settings.is_true("tracingOtlpInsecure"),
        sample_ratio: settings.float("tracingSampleRatio"),
    }
}

fn rate_limits(settings: &Settings) -> RateLimits {
    let scope = |name: &str| {
        let requests_per_minute = count(settings, &format!("rateLimit.{name}.requestsPerMinute"));
        let burst_size = count(settings, &format!("rateLimit.{name}.burstSize"));
        (requests_per_minute > 0 && burst_size > 0).then_some(RateLimit { requests_per_minute, burst_size })
    };
    RateLimits {
        producer: scope("producer"),
        worker: scope("worker"),
        webhook: scope("webhook"),
        admin: scope("admin"),
    }
}
