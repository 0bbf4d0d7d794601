//! The settings with types, nested as in the file.
//!
//! Layers, bounds and what follows from other settings are done before; so every field is there, and a key of the table
//! that has no field here (or a field without a key) fails every test of this module.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::keys::KEYS;
use super::secret::Secret;
use super::settings::Settings;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Sections {
    pub port: u16,
    pub bind_address: String,
    pub metrics_addr: String,
    pub public_base_url: String,
    pub tls: TlsSection,
    pub env: String,
    pub timezone: String,
    pub log_level: String,
    pub log_format: String,
    pub persistence_provider: String,
    pub persistence_config: PersistenceSection,
    pub durability: String,
    #[serde(rename = "redisAddr")]
    pub _redis_addr: String,
    #[serde(rename = "redisPassword")]
    pub _redis_password: Secret,
    pub requeue_inspect_limit: u32,
    pub sweep_interval_seconds: u64,
    pub default_lease_seconds: u64,
    pub max_attempts_default: u32,
    pub backoff_policy: String,
    pub backoff_base_seconds: u64,
    pub backoff_max_seconds: u64,
    pub retention_seconds: u64,
    pub failed_retention_seconds: u64,
    pub audit_retention_seconds: u64,
    pub dlq_retention_seconds: u64,
    pub cleanup_interval_seconds: u64,
    pub local_artifacts_dir: String,
    pub artifacts: ArtifactsSection,
    pub limits: LimitsSection,
    pub streams: StreamsSection,
    pub worker_stream_addr: String,
    pub producer_stream_addr: String,
    pub producer_auth_provider: String,
    pub producer_auth_config: Value,
    pub worker_auth_provider: String,
    pub worker_auth_config: Value,
    #[serde(rename = "identityServiceUrl")]
    pub _identity_service_url: String,
    pub identity_service_api_key: Secret,
    /// What is derived of the URL of the service, where there is one.
    pub identity_jwks_url: Option<String>,
    #[serde(rename = "identityIssuer")]
    pub _identity_issuer: Option<String>,
    #[serde(rename = "identityAudience")]
    pub _identity_audience: String,
    #[serde(rename = "workerJwksUrl")]
    pub _worker_jwks_url: String,
    pub worker_issuer: String,
    pub worker_audience: String,
    pub allowed_clock_skew_seconds: u64,
    pub allow_producer_as_worker: bool,
    pub dashboard: DashboardSection,
    pub webhook_hmac_secret: Secret,
    pub webhooks: WebhooksSection,
    pub subscription_min_interval_seconds: u64,
    pub subscription_cleanup_interval_seconds: u64,
    pub result_webhook_max_attempts: u32,
    pub result_webhook_base_backoff_seconds: u64,
    pub result_webhook_max_backoff_seconds: u64,
    pub tracing_enabled: bool,
    pub tracing_service_name: String,
    pub tracing_otlp_endpoint: String,
    pub tracing_otlp_insecure: bool,
    pub tracing_sample_ratio: f64,
    pub rate_limit: RateLimitSection,
    pub sharding: ShardingSection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TlsSection {
    pub cert_file: String,
    pub key_file: String,
    pub client_ca_file: String,
}

/// The keys of all providers; those of another one than the chosen have their defaults.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PersistenceSection {
    pub path: String,
    pub num_shards: u32,
    #[serde(rename = "fsyncOnCommit")]
    pub _fsync_on_commit: Option<bool>,
    pub addr: Option<String>,
    pub password: Option<Secret>,
    pub db: u32,
    pub pool_size: u32,
    pub tls: bool,
    pub cluster: bool,
    pub timeout_seconds: u64,
    pub wait_replicas: u32,
    pub wait_timeout_ms: u64,
    pub sentinel: SentinelSection,
    pub untenanted_tenant: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct SentinelSection {
    pub addrs: String,
    pub master: String,
    pub password: Secret,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ArtifactsSection {
    pub provider: String,
    pub s3: S3Section,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct S3Section {
    pub bucket: String,
    pub region: String,
    pub endpoint: String,
    pub prefix: String,
    pub access_key_id: Secret,
    pub secret_access_key: Secret,
    pub path_style: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LimitsSection {
    pub max_body_bytes: usize,
    pub max_payload_bytes: usize,
    pub max_submit_bytes: usize,
    pub max_in_flight_bytes: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StreamsSection {
    pub end_at_token_expiry: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DashboardSection {
    pub oidc: OidcSection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OidcSection {
    pub issuer: String,
    pub client_id: String,
    pub scopes: String,
    pub token_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WebhooksSection {
    pub enabled: bool,
    pub allow_private_addresses: bool,
    pub timeout_seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateLimitSection {
    pub producer: ScopeSection,
    pub worker: ScopeSection,
    pub webhook: ScopeSection,
    pub admin: ScopeSection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScopeSection {
    pub requests_per_minute: u32,
    pub burst_size: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShardingSection {
    pub enabled: bool,
    pub default_shard: String,
    pub command_mappings: BTreeMap<String, String>,
    pub tenant_overrides: BTreeMap<String, String>,
    pub backends: BTreeMap<String, BackendSection>,
    pub spread: bool,
    pub spread_over: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BackendSection {
    pub address: String,
    pub password: Secret,
    pub db: u32,
    pub pool_size: u32,
    pub sentinel: SentinelSection,
}

impl Sections {
    /// Of settings whose bounds were applied.
    pub fn of(settings: &Settings) -> Sections {
        let mut root = Value::Null;
        for key in KEYS {
            let place = key.path.split('.').fold(&mut root, |place, name| &mut place[name]);
            place.clone_from(settings.value(key.path));
        }
        serde_json::from_value(root).expect("the rules leave a value of its type at every key")
    }
}
