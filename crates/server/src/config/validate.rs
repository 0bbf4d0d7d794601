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
    check_tls(settings, &mut faults);
    check_dashboard(settings, &mut faults);
    check_webhooks(settings, &mut faults);
    check_store(settings, &mut faults);
    check_shards(settings, &mut faults);
    check_spread(settings, &mut faults);
    check_sentinel(settings, &mut faults);
    faults.extend(settings.unsupported.iter().map(|name| format!("{name} is not supported")));
    check_sizes(settings, &mut faults);
    faults
}

/// Those that matter to a tool that works on shards.
pub(super) fn shard_faults(settings: &Settings) -> Vec<String> {
    let mut faults = Vec::new();
    check_store(settings, &mut faults);
    check_shards(settings, &mut faults);
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

fn check_tls(settings: &Settings, faults: &mut Vec<String>) {
    let [certificate, key, client_ca] =
        ["tls.certFile", "tls.keyFile", "tls.clientCaFile"].map(|path| !settings.text(path).is_empty());
    if certificate != key {
        faults.push("tls needs both certFile and keyFile".into());
    }
    if client_ca && !certificate {
        faults.push("tls.clientCaFile needs tls.certFile and tls.keyFile".into());
    }
}

fn check_dashboard(settings: &Settings, faults: &mut Vec<String>) {
    let [has_issuer, has_client] = ["dashboard.oidc.issuer", "dashboard.oidc.clientId"]
        .map(|path| !settings.text(path).trim().is_empty());
    if has_issuer != has_client {
        faults.push("dashboard.oidc needs both issuer and clientId".into());
    }
}

fn check_webhooks(settings: &Settings, faults: &mut Vec<String>) {
    let is_blank = settings.text("webhookHmacSecret").trim().is_empty();
    if settings.is_true("webhooks.enabled") && is_blank && settings.text("env") != "dev" {
        faults.push("webhookHmacSecret is required when webhooks are enabled".into());
    }
    if is_placeholder(settings.text("webhookHmacSecret")) {
        faults.push(
            "webhookHmacSecret is a placeholder: set a secret of your own, such as whsec_ and the output of \
             `openssl rand -base64 32`"
                .into(),
        );
    }
}

/// Whether this is the text of an example, which everybody knows.
fn is_placeholder(secret: &str) -> bool {
    let secret = secret.to_ascii_lowercase();
    ["replace_with", "replace-with", "replace_me", "replace-me", "your-secret"]
        .iter()
        .any(|word| secret.contains(word))
}

fn check_store(settings: &Settings, faults: &mut Vec<String>) {
    if provider(settings).is_none() {
        faults.push(format!("unknown persistenceProvider {:?}", settings.text("persistenceProvider")));
    }
    if settings.is_true("sharding.enabled") && provider(settings) != Some("kvrocks") {
        faults.push("sharding requires persistenceProvider=kvrocks".into());
    }
}

/// Names of the form `p<digits>` belong to the spread shards.
fn is_spread_name(name: &str) -> bool {
    name.strip_prefix('p').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))
}

/// The most backends that 64 spread shards can live on.
const SPREAD_BACKENDS: usize = 64;

fn check_spread(settings: &Settings, faults: &mut Vec<String>) {
    let backends = settings.map("sharding.backends");
    let mapped = ["sharding.commandMappings", "sharding.tenantOverrides"]
        .into_iter()
        .flat_map(|path| settings.map(path).values().filter_map(|shard| shard.as_str()));
    let named = backends.keys().map(String::as_str).chain([settings.text("sharding.defaultShard")]);
    for name in named.chain(mapped).filter(|name| is_spread_name(name)) {
        faults.push(format!("shard name \"{name}\" is reserved for spread shards; choose another name"));
    }
    let over: Vec<&str> = settings
        .value("sharding.spreadOver")
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    if over.len() > SPREAD_BACKENDS {
        faults.push(format!(
            "sharding.spreadOver names {} backends, at most {SPREAD_BACKENDS} are possible",
            over.len()
        ));
    }
    for name in over.into_iter().filter(|name| !backends.contains_key(*name)) {
        faults.push(format!(
            "sharding.spreadOver names backend \"{name}\", which sharding.backends does not define"
        ));
    }
}

fn check_sentinel(settings: &Settings, faults: &mut Vec<String>) {
    let addresses = settings.text("persistenceConfig.sentinel.addrs").trim();
    let master = settings.text("persistenceConfig.sentinel.master").trim();
    if addresses.is_empty() != master.is_empty() {
        faults.push("persistenceConfig.sentinel needs both addrs and master".into());
    }
    if !addresses.is_empty() && settings.is_true("persistenceConfig.cluster") {
        faults.push("persistenceConfig.sentinel and persistenceConfig.cluster exclude each other".into());
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
        let has_sentinel = !backend["sentinel"]["addrs"].as_str().unwrap_or_default().trim().is_empty();
        if !has_sentinel && backend["address"].as_str().unwrap_or_default().trim().is_empty() {
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
