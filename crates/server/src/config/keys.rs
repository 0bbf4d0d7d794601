//! The table of keys: everything that can be configured, in one place.
//!
//! A row gives the YAML path, the environment names (the first non-empty one counts), the kind with
//! its rule, and the default. Reading, checking, printing and the reference file follow the table.
//! Keys of `persistenceConfig` belong to one provider, see [`provider_of`].

use super::keys::Default::{Empty, False, Float, Int, NoNames, Text, True, Unset};
use super::keys::Kind::{
    Auth, Backends, Bool, Choice, Count, Few, Filled, Flat, Host, HttpUrl, Listen, Names, NotNegative, Plain,
    Policy, Ratio, Secret, Sentinel, Shards, Within, Zone,
};

/// What a value is and what is done to it. Numbers of a kind are upper bounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    Bool,
    /// A whole number; zero and less mean the default; above the bound is a fault.
    Count(i64),
    /// As [`Kind::Count`], where the range is worth telling.
    Few(i64),
    /// As [`Kind::Count`], but above the bound the bound is taken.
    Flat(i64),
    /// A whole number; less than zero means zero; above the bound is a fault.
    NotNegative(i64),
    /// A whole number in this range, anything else is a fault.
    Within(i64, i64),
    /// A number in (0, 1], anything else is 1.
    Ratio,
    /// Any text, the empty one too.
    Plain,
    /// Any text; empty means the default.
    Filled,
    /// Text that is never printed.
    Secret,
    /// One of these names; empty means the default.
    Choice(&'static [&'static str]),
    /// A name of a retry policy; an unknown one is replaced and warned about.
    Policy,
    /// An IANA time zone.
    Zone,
    /// An IP address or host name to listen on; empty means all interfaces.
    Host,
    /// `host:port` or `:port`; empty means off.
    Listen,
    /// An http or https URL, or empty.
    HttpUrl,
    /// The configuration of an auth provider, checked by that provider.
    Auth,
    /// Names mapped to shards.
    Shards,
    /// Shard names mapped to their servers.
    Backends,
    /// A list of names.
    Names,
    /// Who tells which server is master: `addrs`, `master` and `password`, all texts.
    Sentinel,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Default {
    /// Derived from other keys, or nothing.
    Unset,
    True,
    False,
    Int(i64),
    Float(f64),
    Text(&'static str),
    /// An empty map.
    Empty,
    /// An empty list.
    NoNames,
}

#[derive(Debug)]
pub(super) struct Key {
    pub path: &'static str,
    pub env: &'static [&'static str],
    pub kind: Kind,
    pub default: Default,
}

const fn key(path: &'static str, env: &'static [&'static str], kind: Kind, default: Default) -> Key {
    Key { path, env, kind, default }
}

/// Ten years: longer spans are mistakes, and shorter ones never overflow a clock.
const SECONDS: i64 = 10 * 365 * 24 * 3600;
const COUNT: i64 = i32::MAX as i64;
/// One byte less than 2 GiB.
const BYTES: i64 = i32::MAX as i64;

/// More memory than any machine has.
const MEMORY_BYTES: i64 = 1 << 50;

/// The map that holds the keys of the store.
pub(super) const PERSISTENCE: &str = "persistenceConfig";

pub(super) static KEYS: &[Key] = &[
    // Listening.
    key("port", &["PORT"], Within(0, 65_535), Int(8080)),
    key("bindAddress", &[], Host, Text("")),
    key("metricsAddr", &[], Listen, Text("")),
    key("publicBaseUrl", &[], HttpUrl, Text("")),
    key("tls.certFile", &[], Filled, Text("")),
    key("tls.keyFile", &[], Filled, Text("")),
    key("tls.clientCaFile", &[], Filled, Text("")),
    // General.
    key("env", &["ENV"], Filled, Text("prod")),
    key("timezone", &["TIMEZONE"], Zone, Text("UTC")),
    key("logLevel", &["LOG_LEVEL"], Choice(&["debug", "info", "warn", "error"]), Text("info")),
    key("logFormat", &["LOG_FORMAT"], Choice(&["json", "text"]), Text("json")),
    // Store.
    key("persistenceProvider", &["PERSISTENCE_PROVIDER"], Filled, Text("embedded")),
    key("persistenceConfig.path", &[], Filled, Text("./codeq-data")),
    key("persistenceConfig.numShards", &[], Few(64), Int(1)),
    key("persistenceConfig.fsyncOnCommit", &[], Bool, Unset),
    key("persistenceConfig.addr", &[], Filled, Unset),
    key("persistenceConfig.password", &[], Secret, Unset),
    key("persistenceConfig.db", &[], NotNegative(COUNT), Int(0)),
    key("persistenceConfig.poolSize", &[], Count(COUNT), Int(10)),
    key("persistenceConfig.tls", &[], Bool, False),
    key("persistenceConfig.cluster", &[], Bool, False),
    key("persistenceConfig.timeoutSeconds", &[], Count(SECONDS), Int(5)),
    key("persistenceConfig.waitReplicas", &[], NotNegative(COUNT), Int(0)),
    key("persistenceConfig.waitTimeoutMs", &[], Count(SECONDS), Int(500)),
    key("persistenceConfig.sentinel.addrs", &[], Plain, Text("")),
    key("persistenceConfig.sentinel.master", &[], Plain, Text("")),
    key("persistenceConfig.sentinel.password", &[], Secret, Text("")),
    key("persistenceConfig.untenantedTenant", &[], Plain, Text("")),
    key("durability", &[], Choice(&["fsync", "os"]), Text("fsync")),
    key("redisAddr", &["REDIS_ADDR"], Filled, Text("localhost:6379")),
    key("redisPassword", &["REDIS_PASSWORD", "KVROCKS_PASSWORD"], Secret, Text("")),
    key("requeueInspectLimit", &["REQUEUE_INSPECT_LIMIT"], Count(COUNT), Int(200)),
    key("sweepIntervalSeconds", &[], Count(SECONDS), Int(2)),
    // Tasks.
    key("defaultLeaseSeconds", &["DEFAULT_LEASE_SECONDS"], Flat(43_200), Int(300)),
    key("maxAttemptsDefault", &["MAX_ATTEMPTS_DEFAULT"], Count(COUNT), Int(5)),
    key("backoffPolicy", &["BACKOFF_POLICY"], Policy, Text("exp_full_jitter")),
    key("backoffBaseSeconds", &["BACKOFF_BASE_SECONDS"], Count(SECONDS), Int(5)),
    key("backoffMaxSeconds", &["BACKOFF_MAX_SECONDS"], Count(SECONDS), Int(900)),
    key("retentionSeconds", &[], Count(SECONDS), Int(86_400)),
    key("failedRetentionSeconds", &[], Count(SECONDS), Int(604_800)),
    key("auditRetentionSeconds", &[], Count(SECONDS), Int(7_776_000)),
    key("dlqRetentionSeconds", &[], NotNegative(SECONDS), Int(0)),
    key("cleanupIntervalSeconds", &[], Count(SECONDS), Int(30)),
    // Artifacts.
    key("localArtifactsDir", &["LOCAL_ARTIFACTS_DIR"], Filled, Unset),
    key("artifacts.provider", &[], Choice(&["local", "s3"]), Text("local")),
    key("artifacts.s3.bucket", &[], Plain, Text("")),
    key("artifacts.s3.region", &[], Plain, Text("")),
    key("artifacts.s3.endpoint", &[], Plain, Text("")),
    key("artifacts.s3.prefix", &[], Plain, Text("")),
    key("artifacts.s3.accessKeyId", &[], Secret, Text("")),
    key("artifacts.s3.secretAccessKey", &[], Secret, Text("")),
    key("artifacts.s3.pathStyle", &[], Bool, False),
    // Limits and streams.
    key("limits.maxBodyBytes", &[], Count(BYTES), Int(4_194_304)),
    key("limits.maxPayloadBytes", &[], Count(BYTES), Int(1_048_576)),
    key("limits.maxSubmitBytes", &[], Count(BYTES), Int(100_663_296)),
    key("limits.maxInFlightBytes", &[], Count(MEMORY_BYTES), Unset),
    key("streams.endAtTokenExpiry", &[], Bool, True),
    key("workerStreamAddr", &["WORKER_STREAM_ADDR"], Listen, Text("")),
    key("producerStreamAddr", &["PRODUCER_STREAM_ADDR"], Listen, Text("")),
    // Authentication.
    key("producerAuthProvider", &["PRODUCER_AUTH_PROVIDER"], Filled, Text("")),
    key("producerAuthConfig", &["PRODUCER_AUTH_CONFIG"], Auth, Unset),
    key("workerAuthProvider", &["WORKER_AUTH_PROVIDER"], Filled, Text("")),
    key("workerAuthConfig", &["WORKER_AUTH_CONFIG"], Auth, Unset),
    key("identityServiceUrl", &["IDENTITY_SERVICE_URL"], Plain, Text("")),
    key("identityServiceApiKey", &["IDENTITY_SERVICE_API_KEY"], Secret, Text("")),
    key("identityJwksUrl", &["IDENTITY_JWKS_URL"], Filled, Unset),
    key("identityIssuer", &["IDENTITY_ISSUER"], Filled, Unset),
    key("identityAudience", &["IDENTITY_AUDIENCE"], Plain, Text("")),
    key("workerJwksUrl", &["WORKER_JWKS_URL"], HttpUrl, Text("")),
    key("workerIssuer", &["WORKER_ISSUER"], Plain, Text("")),
    key("workerAudience", &["WORKER_AUDIENCE"], Plain, Text("codeq-worker")),
    key("allowedClockSkewSeconds", &["ALLOWED_CLOCK_SKEW_SECONDS"], Count(SECONDS), Int(60)),
    key("allowProducerAsWorker", &["ALLOW_PRODUCER_AS_WORKER"], Bool, False),
    // Dashboard.
    key("dashboard.oidc.issuer", &[], HttpUrl, Text("")),
    key("dashboard.oidc.clientId", &[], Plain, Text("")),
    key("dashboard.oidc.scopes", &[], Filled, Text("openid")),
    key("dashboard.oidc.tokenUrl", &[], HttpUrl, Text("")),
    // Webhooks.
    key("webhookHmacSecret", &["WEBHOOK_HMAC_SECRET"], Secret, Text("")),
    key("webhooks.enabled", &[], Bool, True),
    key("webhooks.allowPrivateAddresses", &[], Bool, Unset),
    key("webhooks.timeoutSeconds", &[], Count(SECONDS), Int(15)),
    key("subscriptionMinIntervalSeconds", &["SUBSCRIPTION_MIN_INTERVAL_SECONDS"], Count(SECONDS), Int(5)),
    key(
        "subscriptionCleanupIntervalSeconds",
        &["SUBSCRIPTION_CLEANUP_INTERVAL_SECONDS"],
        Count(SECONDS),
        Int(60),
    ),
    key("resultWebhookMaxAttempts", &["RESULT_WEBHOOK_MAX_ATTEMPTS"], Count(COUNT), Int(5)),
    key("resultWebhookBaseBackoffSeconds", &["RESULT_WEBHOOK_BASE_BACKOFF_SECONDS"], Count(SECONDS), Int(2)),
    key("resultWebhookMaxBackoffSeconds", &["RESULT_WEBHOOK_MAX_BACKOFF_SECONDS"], Count(SECONDS), Int(60)),
    // Tracing.
    key("tracingEnabled", &["TRACING_ENABLED"], Bool, False),
    key("tracingServiceName", &["TRACING_SERVICE_NAME", "OTEL_SERVICE_NAME"], Filled, Text("codeq")),
    key(
        "tracingOtlpEndpoint",
        &["TRACING_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"],
        Filled,
        Text("localhost:4317"),
    ),
    key("tracingOtlpInsecure", &["TRACING_OTLP_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"], Bool, False),
    key("tracingSampleRatio", &["TRACING_SAMPLE_RATIO"], Ratio, Float(1.0)),
    // Rate limits.
    key("rateLimit.producer.requestsPerMinute", &[], NotNegative(COUNT), Int(0)),
    key("rateLimit.producer.burstSize", &[], NotNegative(COUNT), Int(0)),
    key("rateLimit.worker.requestsPerMinute", &[], NotNegative(COUNT), Int(0)),
    key("rateLimit.worker.burstSize", &[], NotNegative(COUNT), Int(0)),
    key("rateLimit.webhook.requestsPerMinute", &[], NotNegative(COUNT), Int(0)),
    key("rateLimit.webhook.burstSize", &[], NotNegative(COUNT), Int(0)),
    key("rateLimit.admin.requestsPerMinute", &[], NotNegative(COUNT), Int(0)),
    key("rateLimit.admin.burstSize", &[], NotNegative(COUNT), Int(0)),
    // Sharding.
    key("sharding.enabled", &[], Bool, False),
    key("sharding.defaultShard", &[], Filled, Text("default")),
    key("sharding.commandMappings", &[], Shards, Empty),
    key("sharding.tenantOverrides", &[], Shards, Empty),
    key("sharding.backends", &[], Backends, Empty),
    key("sharding.spread", &[], Bool, False),
    key("sharding.spreadOver", &[], Names, NoNames),
];

/// The keys of one entry of `sharding.backends`, by their name in it.
pub(super) static BACKEND_KEYS: &[Key] = &[
    key("address", &[], Plain, Text("")),
    key("password", &[], Secret, Text("")),
    key("db", &[], NotNegative(COUNT), Int(0)),
    key("poolSize", &[], Count(COUNT), Int(10)),
    key("sentinel", &[], Sentinel, Empty),
];

pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The provider that a key inside `persistenceConfig` belongs to; `None` for all other keys.
pub(super) fn provider_of(path: &str) -> Option<&'static str> {
    match path.strip_prefix(PERSISTENCE)?.strip_prefix('.')? {
        "path" | "numShards" | "fsyncOnCommit" => Some("embedded"),
        _ => Some("kvrocks"),
    }
}

/// How alike two names must be for one to be taken for a slip of the other.
const LIKENESS: f64 = 0.8;

/// The key that a misspelt or misplaced one was probably meant to be: one of the same name, or one beside it with a
/// similar name.
pub(super) fn meant_by(path: &str) -> Option<String> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let of = |known: &str| known.rsplit('.').next().unwrap_or(known).to_lowercase();
    let same = KEYS.iter().find(|key| of(key.path) == name.to_lowercase());
    if let Some(key) = same {
        return Some(key.path.to_owned());
    }
    let likeness = |known: &&str| strsim::jaro_winkler(&known.to_lowercase(), &name.to_lowercase());
    let best = siblings(parent).into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    let is_like = likeness(&best) >= LIKENESS;
    is_like.then(|| if parent.is_empty() { best.to_owned() } else { format!("{parent}.{best}") })
}

/// The names that may stand in this map.
fn siblings(parent: &str) -> Vec<&'static str> {
    if parent.strip_prefix("sharding.backends.").is_some_and(|shard| !shard.contains('.')) {
        return BACKEND_KEYS.iter().map(|key| key.path).collect();
    }
    let inside = KEYS.iter().filter_map(|key| match parent {
        "" => Some(key.path),
        _ => key.path.strip_prefix(parent)?.strip_prefix('.'),
    });
    inside.map(|rest| rest.split('.').next().unwrap_or(rest)).collect()
}

/// `rateLimit.producer.burstSize` gives `CODEQ_RATE_LIMIT_PRODUCER_BURST_SIZE`.
pub(super) fn codeq_name(path: &str) -> String {
    let mut name = String::from("CODEQ_");
    for letter in path.chars() {
        match letter {
            _ if letter.is_ascii_uppercase() => name.extend(['_', letter]),
            _ if letter.is_ascii_alphanumeric() => name.push(letter.to_ascii_uppercase()),
            _ => name.push('_'),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_paths() {
        for (path, name) in [
            ("port", "CODEQ_PORT"),
            ("rateLimit.producer.burstSize", "CODEQ_RATE_LIMIT_PRODUCER_BURST_SIZE"),
            ("artifacts.s3.accessKeyId", "CODEQ_ARTIFACTS_S3_ACCESS_KEY_ID"),
            ("persistenceConfig.path", "CODEQ_PERSISTENCE_CONFIG_PATH"),
        ] {
            assert_eq!(codeq_name(path), name);
        }
    }

    #[test]
    fn a_misspelt_or_misplaced_key_is_answered_with_what_was_meant() {
        for (path, wanted) in [
            ("prot", Some("port")),
            ("Port", Some("port")),
            ("limits.maxBodyByte", Some("limits.maxBodyBytes")),
            ("maxBodyBytes", Some("limits.maxBodyBytes")),
            ("rateLimits", Some("rateLimit")),
            ("persistenceConfig.pth", Some("persistenceConfig.path")),
            ("sharding.backends.main.adress", Some("sharding.backends.main.address")),
            ("zzz", None),
            ("limits.zzz", None),
        ] {
            assert_eq!(meant_by(path).as_deref(), wanted, "{path}");
        }
    }

    #[test]
    fn no_path_and_no_name_occurs_twice() {
        let names = KEYS.iter().map(|key| codeq_name(key.path));
        let env = KEYS.iter().flat_map(|key| key.env).map(|name| (*name).to_string());
        let all: Vec<String> = names.chain(env).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
