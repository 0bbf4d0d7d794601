//! What must hold between settings before the server starts.

use super::Mode;
use super::derive::{is_automatic, provider};
use super::rules::is_http_url;
use super::settings::Settings;

/// All faults at once.
pub(super) fn faults(settings: &Settings, mode: Mode) -> Vec<String> {
    let mut faults = Vec::new();
    if mode == Mode::Serve {
        check_auth_is_configured(settings, &mut faults);
    }
    check_automatic_auth(settings, &mut faults);
    check_webhooks(settings, &mut faults);
    check_store(settings, &mut faults);
    check_shards(settings, &mut faults);
    faults.extend(settings.unsupported.iter().map(|name| format!("{name} is not supported")));
    check_sizes(settings, &mut faults);
    faults
}

fn check_auth_is_configured(settings: &Settings, faults: &mut Vec<String>) {
    if settings.text("producerAuthProvider").is_empty() {
        faults.push("producer auth is not configured: set producerAuthProvider or identityJwksUrl".into());
    }
    if settings.text("workerAuthProvider").is_empty() && !settings.is_true("allowProducerAsWorker") {
        faults.push(
            "worker auth is not configured: set workerAuthProvider, workerJwksUrl or allowProducerAsWorker"
                .into(),
        );
    }
}

fn check_automatic_auth(settings: &Settings, faults: &mut Vec<String>) {
    let jwks = settings.text("identityJwksUrl");
    if !jwks.is_empty() && !is_http_url(jwks) {
        faults.push("identityJwksUrl must be a valid http(s) URL".into());
    }
    if !is_automatic(settings, "workerAuthProvider") {
        return;
    }
    if settings.text("workerIssuer").trim().is_empty() && settings.text("env") != "dev" {
        faults.push("workerIssuer is required in non-dev".into());
    }
    if settings.text("workerAudience").trim().is_empty() {
        faults.push("workerAudience is required".into());
    }
}

fn check_webhooks(settings: &Settings, faults: &mut Vec<String>) {
    let is_blank = settings.text("webhookHmacSecret").trim().is_empty();
    if settings.is_true("webhooks.enabled") && is_blank && settings.text("env") != "dev" {
        faults.push("webhookHmacSecret is required when webhooks are enabled".into());
    }
}

fn check_store(settings: &Settings, faults: &mut Vec<String>) {
    if provider(settings).is_none() {
        faults.push(format!("unknown persistenceProvider {:?}", settings.text("persistenceProvider")));
    }
    if settings.is_true("sharding.enabled") && provider(settings) != Some("kvrocks") {
        faults.push("sharding requires persistenceProvider=kvrocks".into());
    }
}

fn check_shards(settings: &Settings, faults: &mut Vec<String>) {
    let backends = settings.map("sharding.backends");
    if backends.is_empty() {
        return;
    }
    let default = settings.text("sharding.defaultShard");
    if !backends.contains_key(default) {
        faults.push(format!("default shard \"{default}\" not found in sharding backends"));
    }
    for (path, before, after) in [
        ("sharding.commandMappings", "command", "maps"),
        ("sharding.tenantOverrides", "tenant", "override maps"),
    ] {
        for (name, shard) in settings.map(path) {
            let shard = shard.as_str().unwrap_or_default();
            if !backends.contains_key(shard) {
                faults.push(format!("{before} {name} {after} to undefined shard backend \"{shard}\""));
            }
        }
    }
    for (name, backend) in backends {
        if backend["address"].as_str().unwrap_or_default().trim().is_empty() {
            faults.push(format!("shard backend \"{name}\" has empty address"));
        }
    }
}

fn check_sizes(settings: &Settings, faults: &mut Vec<String>) {
    if settings.int("limits.maxPayloadBytes") > settings.int("limits.maxBodyBytes") {
        faults.push("limits.maxPayloadBytes exceeds limits.maxBodyBytes".into());
    }
    let bucket = settings.text("artifacts.s3.bucket").trim();
    if settings.text("artifacts.provider") == "s3" && bucket.is_empty() {
        faults.push("artifacts.s3.bucket is required".into());
    }
}
