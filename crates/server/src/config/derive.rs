//! Fills in what follows from other settings, from the mode, and the auth of each side.

use serde_json::{Value, json};
use url::Url;

use super::Mode;
use super::address::ListenAddress;
use super::error::Fault;
use super::keys::{self, KEYS};
use super::settings::{Findings, Settings};
use crate::memory;

pub(super) const DEV_ADDRESS: &str = "127.0.0.1";
/// The token of both sides in `codeq dev`.
pub const DEV_TOKEN: &str = "dev-token";
/// The tenant of that token.
pub const DEV_TENANT: &str = "dev-tenant";
/// What a worker may do, all six of them.
const WORKER_SCOPES: [&str; 6] =
    ["codeq:claim", "codeq:heartbeat", "codeq:abandon", "codeq:nack", "codeq:result", "codeq:subscribe"];
const OTLP_PORT: u16 = 4317;

/// The provider under its own name, or `None` when there is none of that name.
pub(super) fn provider(settings: &Settings) -> Option<&'static str> {
    match settings.text("persistenceProvider").trim() {
        "embedded" | "pebble" => Some("embedded"),
        "kvrocks" | "redis" => Some("kvrocks"),
        "memory" => Some("memory"),
        _ => None,
    }
}

/// The original server kept its tasks in Redis without being told to. A configuration that names a Redis and no provider
/// has a configuration of that server, and would find an empty store instead of its tasks.
pub(super) fn choose_provider(settings: &mut Settings, mode: Mode, findings: &mut Findings) {
    if settings.is_set("persistenceProvider") || !settings.is_set("redisAddr") {
        return;
    }
    let is_embedded =
        KEYS.iter().any(|key| keys::provider_of(key.path) == Some("embedded") && settings.is_set(key.path));
    let warning = match mode == Mode::Serve && !is_embedded {
        true => {
            settings.put("persistenceProvider", "kvrocks");
            "redisAddr is set and persistenceProvider is not: tasks are kept there, as with \
             persistenceProvider kvrocks. Set persistenceProvider to embedded to keep them in a directory"
        }
        false => {
            "redisAddr is ignored: tasks are kept in a directory. Set persistenceProvider to kvrocks to keep \
             them there"
        }
    };
    findings.warnings.push(warning.into());
}

/// Drops the keys of other providers. A source that names both the provider and such a key, or comes
/// later than the provider, is at fault; a later choice of provider merely outdates them.
pub(super) fn drop_foreign_keys(settings: &mut Settings, findings: &mut Findings) {
    let Some(chosen) = provider(settings) else { return };
    let chosen_by = settings.layer("persistenceProvider");
    for path in KEYS.iter().map(|key| key.path) {
        let is_foreign = keys::provider_of(path).is_some_and(|owner| owner != chosen);
        if !is_foreign || !settings.is_set(path) {
            continue;
        }
        if settings.is_in_map(path) && chosen_by <= settings.layer(path) {
            let text = format!("unknown key {path} for persistenceProvider {chosen}");
            findings.faults.push(Fault { place: settings.place(path), ..Fault::of(path, text) });
        } else {
            findings
                .warnings
                .push(format!("{path} is ignored: it is no key of persistenceProvider {chosen}"));
        }
        settings.reset(path);
    }
}

/// `codeq dev` is reachable from this machine only, whatever the sources say. Runs before the rules, so
/// that an address that is ignored cannot be at fault.
pub(super) fn force_loopback(settings: &mut Settings, findings: &mut Findings) {
    if !["", DEV_ADDRESS].contains(&settings.text("bindAddress").trim()) {
        findings.warnings.push(format!("bindAddress is ignored: codeq dev listens on {DEV_ADDRESS} only"));
    }
    settings.reset("bindAddress");
    for path in ["metricsAddr", "workerStreamAddr", "producerStreamAddr"] {
        let Some(given) = ListenAddress::parse(settings.text(path)) else { continue };
        if given.host.as_deref().is_some_and(is_loopback) {
            continue;
        }
        let address = format!("{DEV_ADDRESS}:{}", given.port);
        if given.host.as_deref().is_some_and(|host| host != "localhost") {
            findings.warnings.push(format!("{path} is {address}: codeq dev listens on {DEV_ADDRESS} only"));
        }
        settings.put(path, address);
    }
}

fn is_loopback(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Runs after the rules of the kinds.
pub(super) fn apply(settings: &mut Settings, mode: Mode, findings: &mut Findings) {
    derive_store(settings);
    derive_budget(settings);
    derive_identity(settings);
    if settings.value("webhooks.allowPrivateAddresses").is_null() {
        settings.put("webhooks.allowPrivateAddresses", settings.text("env") == "dev");
    }
    settings.put("tracingOtlpEndpoint", host_and_port(settings.text("tracingOtlpEndpoint")));
    derive_auth(settings, mode, findings);
}

fn derive_store(settings: &mut Settings) {
    match provider(settings) {
        Some("embedded") => derive_embedded(settings),
        Some("kvrocks") => {
            for (own, fallback) in
                [("persistenceConfig.addr", "redisAddr"), ("persistenceConfig.password", "redisPassword")]
            {
                if settings.text(own).is_empty() {
                    settings.put(own, settings.text(fallback).to_string());
                }
            }
        }
        _ => {}
    }
    if let Some(name) = provider(settings) {
        settings.put("persistenceProvider", name);
    }
    if settings.text("localArtifactsDir").is_empty() {
        settings.put("localArtifactsDir", "./codeq-artifacts");
    }
}

fn derive_embedded(settings: &mut Settings) {
    if settings.text("localArtifactsDir").is_empty() {
        let path = settings.text("persistenceConfig.path").trim_end_matches('/');
        settings.put("localArtifactsDir", format!("{path}/artifacts"));
    }
    let fsync = "persistenceConfig.fsyncOnCommit";
    if !settings.is_set("durability") && settings.is_set(fsync) {
        settings.put("durability", if settings.is_true(fsync) { "fsync" } else { "os" });
    }
    settings.put(fsync, settings.text("durability") == "fsync");
}

/// A quarter of the memory, and never so little that a token could not submit the largest result.
fn derive_budget(settings: &mut Settings) {
    if settings.value("limits.maxInFlightBytes").is_null() {
        let quarter = i64::try_from(memory::total_bytes() / 4).unwrap_or(i64::MAX);
        settings.put("limits.maxInFlightBytes", quarter.max(4 * settings.int("limits.maxSubmitBytes")));
    }
}

fn derive_identity(settings: &mut Settings) {
    let service = settings.text("identityServiceUrl").trim().trim_end_matches('/').to_string();
    if service.is_empty() {
        return;
    }
    if settings.text("identityJwksUrl").is_empty() {
        settings.put("identityJwksUrl", format!("{service}/v1/.well-known/jwks.json"));
    }
    if settings.text("identityIssuer").is_empty() {
        settings.put("identityIssuer", service);
    }
}

/// `http://collector:4317/v1` gives `collector:4317`.
fn host_and_port(endpoint: &str) -> String {
    if !endpoint.contains("://") {
        return endpoint.trim().to_string();
    }
    match Url::parse(endpoint.trim()) {
        Ok(url) => match url.host_str() {
            Some(host) => format!("{host}:{}", url.port().unwrap_or(OTLP_PORT)),
            None => endpoint.to_string(),
        },
        Err(_) => endpoint.to_string(),
    }
}

/// The keys that decide how one side authenticates.
struct Side {
    provider: &'static str,
    config: &'static str,
    jwks: [&'static str; 3],
    dev: fn() -> Value,
}

const SIDES: [Side; 2] = [
    Side {
        provider: "producerAuthProvider",
        config: "producerAuthConfig",
        jwks: ["identityJwksUrl", "identityIssuer", "identityAudience"],
        dev: dev_producer,
    },
    Side {
        provider: "workerAuthProvider",
        config: "workerAuthConfig",
        jwks: ["workerJwksUrl", "workerIssuer", "workerAudience"],
        dev: dev_worker,
    },
];

fn derive_auth(settings: &mut Settings, mode: Mode, findings: &mut Findings) {
    for Side { provider, config, jwks, dev } in SIDES {
        let named = settings.text(provider).trim().to_string();
        if !named.is_empty() {
            settings.put(provider, named);
            continue;
        }
        if settings.is_set(config) {
            findings.warnings.push(format!("{config} is ignored: {provider} is not set"));
        }
        let [url, issuer, audience] = jwks.map(|path| settings.text(path).trim().to_string());
        if !url.is_empty() {
            settings.put(config, json!({"jwksUrl": url, "issuer": issuer, "audience": audience}));
            settings.put(provider, "jwks");
        } else if mode == Mode::Dev {
            settings.put(config, dev());
            settings.put(provider, "static");
        } else {
            settings.put(config, Value::Null);
        }
    }
}

/// Whether the side uses the keys of `jwks` because no provider was named.
pub(super) fn is_automatic(settings: &Settings, provider: &str) -> bool {
    let given = settings.is_set(provider);
    settings.text(provider) == "jwks" && !given
}

fn dev_producer() -> Value {
    json!({
        "token": DEV_TOKEN,
        "subject": "producer-dev",
        "raw": {"role": "ADMIN", "tenantId": DEV_TENANT},
    })
}

fn dev_worker() -> Value {
    json!({
        "token": DEV_TOKEN,
        "subject": "worker-dev",
        "eventTypes": ["*"],
        "scopes": WORKER_SCOPES,
        "raw": {"tenantId": DEV_TENANT},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_reduced_to_host_and_port() {
        for (endpoint, reduced) in [
            ("localhost:4317", "localhost:4317"),
            ("http://collector:4318/v1/traces", "collector:4318"),
            ("https://collector", "collector:4317"),
            ("http://[::1]:1/", "[::1]:1"),
            ("http://user:pass@collector:9", "collector:9"),
        ] {
            assert_eq!(host_and_port(endpoint), reduced, "{endpoint}");
        }
    }
}
