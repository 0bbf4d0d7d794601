//! The configuration as the rest of the server sees it: typed, complete, checked.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use codeq_queue::Backoff;
pub use codeq_store::local::Durability;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::address::ListenAddress;
use super::masked::masked_auth;
use super::secret::Secret;
use crate::telemetry::logs::{Format, Level};

/// Known to everybody.
const DEV_TOKEN: &str = "dev-token";

/// How the server was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// `codeq serve`
    Serve,
    /// `codeq dev`
    Dev,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub mode: Mode,
    /// `bindAddress` and `port`.
    pub listen: ListenAddress,
    /// Where `/metrics` is alone; `None`: on the main port.
    pub metrics: Option<ListenAddress>,
    /// On every listener; `None`: plain HTTP and gRPC.
    pub tls: Option<TlsFiles>,
    /// Prefix of artifact URLs, without a trailing slash; may be empty.
    pub public_base_url: String,
    pub env: String,
    pub timezone: TimeZone,
    pub log_level: Level,
    pub log_format: Format,
    pub persistence: Persistence,
    pub tasks: Tasks,
    pub artifacts: Artifacts,
    pub limits: Limits,
    pub streams: Streams,
    /// `None`: nothing is configured, which `load` allows only where the contract does.
    pub producer_auth: Option<AuthProvider>,
    pub worker_auth: Option<AuthProvider>,
    pub allowed_clock_skew: Duration,
    pub allow_producer_as_worker: bool,
    /// Accepted for older configurations; unused.
    pub identity_service_api_key: Secret,
    pub webhooks: Webhooks,
    pub tracing: Tracing,
    pub rate_limits: RateLimits,
    /// How people sign in to the dashboard, beside pasting a token.
    pub oidc: Option<Oidc>,
    /// Time stands still until a call moves it: `codeq dev --test-clock`.
    pub test_clock: bool,
    /// Every key with its value in use, secrets masked.
    pub(super) shown: Value,
}

impl Config {
    /// Whether the rules for development apply, whatever the mode.
    pub fn is_dev(&self) -> bool {
        self.env == "dev"
    }

    /// The token that both sides take before anything is configured; only `codeq dev` has one.
    pub fn dev_token(&self) -> Option<&'static str> {
        let is_dev = |side: &Option<AuthProvider>| {
            side.as_ref().is_some_and(|side| side.kind == "static" && side.config["token"] == DEV_TOKEN)
        };
        let is_known = self.mode == Mode::Dev && is_dev(&self.producer_auth) && is_dev(&self.worker_auth);
        is_known.then_some(DEV_TOKEN)
    }

    /// Every key with its value in use under its YAML name, secrets masked.
    pub fn masked(&self) -> Value {
        self.shown.clone()
    }
}

/// An OpenID Connect issuer and this server's place in it. Nothing of it is secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Oidc {
    /// Without a trailing slash.
    pub issuer: String,
    pub client_id: String,
    /// Separated by spaces.
    pub scopes: String,
    /// Only where it is at another host than the issuer.
    pub token_url: Option<String>,
}

/// Files in PEM form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The certificate and those between it and its authority.
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
    /// If set, callers need a certificate of one of these authorities.
    pub client_ca_file: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Persistence {
    Embedded(Embedded),
    Kvrocks(Box<Kvrocks>),
    Memory,
}

impl Persistence {
    /// The provider's name as it is logged.
    pub fn name(&self) -> &'static str {
        match self {
            Persistence::Embedded(_) => "embedded",
            Persistence::Kvrocks(_) => "kvrocks",
            Persistence::Memory => "memory",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Embedded {
    pub path: PathBuf,
    /// 1 to 64.
    pub num_shards: u32,
    pub durability: Durability,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Kvrocks {
    /// `host:port`, or a comma list of them in cluster mode.
    pub addr: String,
    pub password: Secret,
    pub db: u32,
    pub pool_size: u32,
    pub tls: bool,
    pub cluster: bool,
    /// To connect, and for each call.
    pub timeout: Duration,
    pub wait_replicas: u32,
    /// How long a write waits for them.
    pub wait_timeout: Duration,
    /// Who tells which server is master; then `addr` does not count.
    pub sentinel: Option<Sentinel>,
    pub untenanted_tenant: String,
    pub requeue_inspect_limit: u32,
    pub sweep_interval: Duration,
    /// `None` unless `sharding.enabled`.
    pub sharding: Option<Sharding>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Sharding {
    pub default_shard: String,
    /// Shards by command, lower case.
    pub command_mappings: BTreeMap<String, String>,
    pub tenant_overrides: BTreeMap<String, String>,
    pub backends: BTreeMap<String, Backend>,
    /// Whether queues that are not mapped spread over 64 shards by themselves.
    pub spread: bool,
    /// The backends that these live on.
    pub spread_over: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Sentinel {
    pub addresses: Vec<String>,
    pub master: String,
    pub password: Secret,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Backend {
    pub address: String,
    pub password: Secret,
    pub db: u32,
    pub pool_size: u32,
    pub sentinel: Option<Sentinel>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Tasks {
    /// 1 to 43200.
    pub default_lease_seconds: u64,
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub retention: Duration,
    pub failed_retention: Duration,
    pub audit_retention: Duration,
    /// `None`: forever.
    pub dlq_retention: Option<Duration>,
    pub cleanup_interval: Duration,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Artifacts {
    pub local_dir: PathBuf,
    /// `None`: kept in `local_dir`.
    pub s3: Option<S3>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct S3 {
    pub bucket: String,
    pub region: String,
    pub endpoint: String,
    pub prefix: String,
    /// Both keys empty: ambient credentials.
    pub access_key_id: Secret,
    pub secret_access_key: Secret,
    pub path_style: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Limits {
    pub max_body_bytes: usize,
    /// At most `max_body_bytes`.
    pub max_payload_bytes: usize,
    pub max_submit_bytes: usize,
    /// Bodies, messages and large answers in memory, over the whole server.
    pub max_in_flight_bytes: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Streams {
    /// `None`: off.
    pub worker: Option<ListenAddress>,
    pub producer: Option<ListenAddress>,
    pub end_at_token_expiry: bool,
}

/// The provider of one side. Its inside is checked by the provider when it is made.
#[derive(Clone, PartialEq)]
pub struct AuthProvider {
    pub kind: String,
    /// A map, a bare token, or null.
    pub config: Value,
}

impl fmt::Debug for AuthProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthProvider {{ kind: {:?}, config: {} }}", self.kind, masked_auth(&self.config))
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Webhooks {
    pub enabled: bool,
    pub hmac_secret: Secret,
    pub allow_private_addresses: bool,
    pub timeout: Duration,
    pub subscription_min_interval: Duration,
    pub subscription_cleanup_interval: Duration,
    pub result_max_attempts: u32,
    pub result_base_backoff: Duration,
    pub result_max_backoff: Duration,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Tracing {
    pub enabled: bool,
    pub service_name: String,
    /// `host:port`.
    pub otlp_endpoint: String,
    pub otlp_insecure: bool,
    /// In (0, 1].
    pub sample_ratio: f64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RateLimits {
    pub producer: Option<RateLimit>,
    pub worker: Option<RateLimit>,
    pub webhook: Option<RateLimit>,
    pub admin: Option<RateLimit>,
}

/// One scope that is limited; both numbers are above zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLimit {
    pub requests_per_minute: u32,
    pub burst_size: u32,
}
