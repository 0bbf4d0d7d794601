//! Makes the configuration of the server out of settings that passed every check.

use std::path::PathBuf;
use std::time::Duration;

use codeq_queue::{Backoff, BackoffPolicy};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::address::{ListenAddress, parse_host};
use super::model::{
    Artifacts, AuthProvider, Backend, Config, Durability, Embedded, Kvrocks, Limits, Mode, Oidc, Persistence,
    RateLimit, RateLimits, S3, Sentinel, Sharding, Streams, Tasks, TlsFiles, Tracing, Webhooks,
};
use super::sections::{
    ArtifactsSection, BackendSection, OidcSection, ScopeSection, Sections, SentinelSection, ShardingSection,
    TlsSection,
};
use crate::telemetry::logs::{Format, Level};

/// `shown` is what is printed of them.
pub(super) fn config(from: Sections, mode: Mode, shown: Value) -> Config {
    Config {
        mode,
        listen: ListenAddress {
            host: parse_host(&from.bind_address).expect("the rules checked bindAddress"),
            port: from.port,
        },
        metrics: ListenAddress::parse(&from.metrics_addr),
        public_base_url: from.public_base_url.trim_end_matches('/').to_owned(),
        timezone: TimeZone::get(&from.timezone).expect("the rules checked timezone"),
        log_level: Level::parse(&from.log_level).expect("the rules checked logLevel"),
        log_format: Format::parse(&from.log_format).expect("the rules checked logFormat"),
        tasks: tasks(&from),
        limits: Limits {
            max_body_bytes: from.limits.max_body_bytes,
            max_payload_bytes: from.limits.max_payload_bytes,
            max_submit_bytes: from.limits.max_submit_bytes,
            max_in_flight_bytes: from.limits.max_in_flight_bytes,
        },
        streams: Streams {
            worker: ListenAddress::parse(&from.worker_stream_addr),
            producer: ListenAddress::parse(&from.producer_stream_addr),
            end_at_token_expiry: from.streams.end_at_token_expiry,
        },
        webhooks: webhooks(&from),
        tracing: Tracing {
            enabled: from.tracing_enabled,
            service_name: from.tracing_service_name.clone(),
            otlp_endpoint: from.tracing_otlp_endpoint.clone(),
            otlp_insecure: from.tracing_otlp_insecure,
            sample_ratio: from.tracing_sample_ratio,
        },
        persistence: persistence(&from),
        env: from.env,
        tls: tls(from.tls),
        artifacts: artifacts(from.artifacts, from.local_artifacts_dir),
        producer_auth: auth(from.producer_auth_provider, from.producer_auth_config),
        worker_auth: auth(from.worker_auth_provider, from.worker_auth_config),
        allowed_clock_skew: seconds(from.allowed_clock_skew_seconds),
        allow_producer_as_worker: from.allow_producer_as_worker,
        identity_service_api_key: from.identity_service_api_key,
        rate_limits: RateLimits {
            producer: scope(&from.rate_limit.producer),
            worker: scope(&from.rate_limit.worker),
            webhook: scope(&from.rate_limit.webhook),
            admin: scope(&from.rate_limit.admin),
        },
        oidc: oidc(from.dashboard.oidc),
        test_clock: false,
        shown,
    }
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn given(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn oidc(from: OidcSection) -> Option<Oidc> {
    Some(Oidc {
        issuer: given(from.issuer)?.trim_end_matches('/').to_owned(),
        client_id: from.client_id,
        scopes: from.scopes,
        token_url: given(from.token_url),
    })
}

fn tls(from: TlsSection) -> Option<TlsFiles> {
    Some(TlsFiles {
        cert_file: given(from.cert_file)?.into(),
        key_file: given(from.key_file)?.into(),
        client_ca_file: given(from.client_ca_file).map(PathBuf::from),
    })
}

fn persistence(from: &Sections) -> Persistence {
    match from.persistence_provider.as_str() {
        "memory" => Persistence::Memory,
        "kvrocks" => Persistence::Kvrocks(Box::new(kvrocks(from))),
        _ => Persistence::Embedded(Embedded {
            path: PathBuf::from(&from.persistence_config.path),
            num_shards: from.persistence_config.num_shards,
            durability: match from.durability.as_str() {
                "os" => Durability::Os,
                _ => Durability::Fsync,
            },
        }),
    }
}

fn kvrocks(from: &Sections) -> Kvrocks {
    let own = &from.persistence_config;
    Kvrocks {
        addr: own.addr.clone().unwrap_or_default(),
        password: own.password.clone().unwrap_or_default(),
        db: own.db,
        pool_size: own.pool_size,
        tls: own.tls,
        cluster: own.cluster,
        timeout: seconds(own.timeout_seconds),
        wait_replicas: own.wait_replicas,
        wait_timeout: Duration::from_millis(own.wait_timeout_ms),
        sentinel: sentinel(&own.sentinel),
        untenanted_tenant: own.untenanted_tenant.clone(),
        requeue_inspect_limit: from.requeue_inspect_limit,
        sweep_interval: seconds(from.sweep_interval_seconds),
        sharding: from.sharding.enabled.then(|| sharding(&from.sharding)),
    }
}

fn sharding(from: &ShardingSection) -> Sharding {
    let lower = |(command, shard): (&String, &String)| (command.to_lowercase(), shard.clone());
    Sharding {
        default_shard: from.default_shard.clone(),
        command_mappings: from.command_mappings.iter().map(lower).collect(),
        tenant_overrides: from.tenant_overrides.clone(),
        backends: from.backends.iter().map(|(name, entry)| (name.clone(), backend(entry))).collect(),
        spread: from.spread,
        spread_over: from.spread_over.clone(),
    }
}

/// `None` without addresses.
fn sentinel(from: &SentinelSection) -> Option<Sentinel> {
    let addresses = from.addrs.split(',').map(str::trim).filter(|address| !address.is_empty());
    let addresses: Vec<String> = addresses.map(Into::into).collect();
    (!addresses.is_empty()).then(|| Sentinel {
        addresses,
        master: from.master.clone(),
        password: from.password.clone(),
    })
}

fn backend(from: &BackendSection) -> Backend {
    Backend {
        address: from.address.clone(),
        password: from.password.clone(),
        db: from.db,
        pool_size: from.pool_size,
        sentinel: sentinel(&from.sentinel),
    }
}

fn tasks(from: &Sections) -> Tasks {
    Tasks {
        default_lease_seconds: from.default_lease_seconds,
        max_attempts: from.max_attempts_default,
        backoff: Backoff {
            policy: BackoffPolicy::parse(&from.backoff_policy).expect("the rules checked backoffPolicy"),
            base_seconds: from.backoff_base_seconds,
            max_seconds: from.backoff_max_seconds,
        },
        retention: seconds(from.retention_seconds),
        failed_retention: seconds(from.failed_retention_seconds),
        audit_retention: seconds(from.audit_retention_seconds),
        dlq_retention: Some(seconds(from.dlq_retention_seconds)).filter(|time| !time.is_zero()),
        cleanup_interval: seconds(from.cleanup_interval_seconds),
    }
}

fn artifacts(from: ArtifactsSection, local_dir: String) -> Artifacts {
    let is_remote = from.provider == "s3";
    let s3 = S3 {
        bucket: from.s3.bucket,
        region: from.s3.region,
        endpoint: from.s3.endpoint,
        prefix: from.s3.prefix,
        access_key_id: from.s3.access_key_id,
        secret_access_key: from.s3.secret_access_key,
        path_style: from.s3.path_style,
    };
    Artifacts { local_dir: local_dir.into(), s3: is_remote.then_some(s3) }
}

fn auth(kind: String, config: Value) -> Option<AuthProvider> {
    Some(AuthProvider { kind: given(kind)?, config })
}

fn webhooks(from: &Sections) -> Webhooks {
    Webhooks {
        enabled: from.webhooks.enabled,
        hmac_secret: from.webhook_hmac_secret.clone(),
        allow_private_addresses: from.webhooks.allow_private_addresses,
        timeout: seconds(from.webhooks.timeout_seconds),
        subscription_min_interval: seconds(from.subscription_min_interval_seconds),
        subscription_cleanup_interval: seconds(from.subscription_cleanup_interval_seconds),
        result_max_attempts: from.result_webhook_max_attempts,
        result_base_backoff: seconds(from.result_webhook_base_backoff_seconds),
        result_max_backoff: seconds(from.result_webhook_max_backoff_seconds),
    }
}

/// Limited only where both numbers are given.
fn scope(from: &ScopeSection) -> Option<RateLimit> {
    let limit = RateLimit { requests_per_minute: from.requests_per_minute, burst_size: from.burst_size };
    (limit.requests_per_minute > 0 && limit.burst_size > 0).then_some(limit)
}
