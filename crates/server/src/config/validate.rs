//! What must hold between settings before the server starts.

use super::Mode;
use super::placeholder;
use super::rules::is_http_url;
use super::sections::{Sections, ShardingSection};

/// All faults at once. `is_worker_automatic`: the worker's side uses the keys of its key set because no provider was named.
pub(super) fn faults(sections: &Sections, mode: Mode, is_worker_automatic: bool) -> Vec<String> {
    let mut faults = Vec::new();
    if mode == Mode::Serve {
        check_auth_is_configured(sections, &mut faults);
    }
    check_automatic_auth(sections, is_worker_automatic, &mut faults);
    check_tls(sections, &mut faults);
    check_dashboard(sections, &mut faults);
    check_webhooks(sections, &mut faults);
    placeholder::check(sections, mode, &mut faults);
    check_store(sections, &mut faults);
    check_shards(&sections.sharding, &mut faults);
    check_spread(&sections.sharding, &mut faults);
    check_sentinel(sections, &mut faults);
    check_sizes(sections, &mut faults);
    faults
}

/// Those that matter to a tool that works on shards.
pub(super) fn shard_faults(sections: &Sections) -> Vec<String> {
    let mut faults = Vec::new();
    check_store(sections, &mut faults);
    check_shards(&sections.sharding, &mut faults);
    faults
}

fn check_auth_is_configured(sections: &Sections, faults: &mut Vec<String>) {
    if sections.producer_auth_provider.is_empty() {
        faults.push("producer auth is not configured: set producerAuthProvider or identityJwksUrl".into());
    }
    if sections.worker_auth_provider.is_empty() && !sections.allow_producer_as_worker {
        faults.push(
            "worker auth is not configured: set workerAuthProvider, workerJwksUrl or allowProducerAsWorker"
                .into(),
        );
    }
}

fn check_automatic_auth(sections: &Sections, is_worker_automatic: bool, faults: &mut Vec<String>) {
    let jwks = sections.identity_jwks_url.as_deref().unwrap_or_default();
    if !jwks.is_empty() && !is_http_url(jwks) {
        faults.push("identityJwksUrl must be a valid http(s) URL".into());
    }
    if !is_worker_automatic {
        return;
    }
    if sections.worker_issuer.trim().is_empty() && sections.env != "dev" {
        faults.push("workerIssuer is required in non-dev".into());
    }
    if sections.worker_audience.trim().is_empty() {
        faults.push("workerAudience is required".into());
    }
}

fn check_tls(sections: &Sections, faults: &mut Vec<String>) {
    let tls = &sections.tls;
    let [certificate, key, client_ca] =
        [&tls.cert_file, &tls.key_file, &tls.client_ca_file].map(|file| !file.is_empty());
    if certificate != key {
        faults.push("tls needs both certFile and keyFile".into());
    }
    if client_ca && !certificate {
        faults.push("tls.clientCaFile needs tls.certFile and tls.keyFile".into());
    }
}

fn check_dashboard(sections: &Sections, faults: &mut Vec<String>) {
    let oidc = &sections.dashboard.oidc;
    if oidc.issuer.trim().is_empty() != oidc.client_id.trim().is_empty() {
        faults.push("dashboard.oidc needs both issuer and clientId".into());
    }
}

fn check_webhooks(sections: &Sections, faults: &mut Vec<String>) {
    let secret = sections.webhook_hmac_secret.expose();
    if sections.webhooks.enabled && secret.trim().is_empty() && sections.env != "dev" {
        faults.push("webhookHmacSecret is required when webhooks are enabled".into());
    }
}

fn check_store(sections: &Sections, faults: &mut Vec<String>) {
    let provider = sections.persistence_provider.as_str();
    if !["embedded", "kvrocks", "memory"].contains(&provider) {
        faults.push(format!("unknown persistenceProvider {provider:?}"));
    }
    if sections.sharding.enabled && provider != "kvrocks" {
        faults.push("sharding requires persistenceProvider=kvrocks".into());
    }
}

/// Names of the form `p<digits>` belong to the spread shards.
fn is_spread_name(name: &str) -> bool {
    name.strip_prefix('p').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))
}

/// The most backends that 64 spread shards can live on.
const SPREAD_BACKENDS: usize = 64;

fn check_spread(sharding: &ShardingSection, faults: &mut Vec<String>) {
    let mapped = sharding.command_mappings.values().chain(sharding.tenant_overrides.values());
    let named = sharding.backends.keys().chain([&sharding.default_shard]);
    for name in named.chain(mapped).filter(|name| is_spread_name(name)) {
        faults.push(format!("shard name \"{name}\" is reserved for spread shards; choose another name"));
    }
    let over = &sharding.spread_over;
    if over.len() > SPREAD_BACKENDS {
        faults.push(format!(
            "sharding.spreadOver names {} backends, at most {SPREAD_BACKENDS} are possible",
            over.len()
        ));
    }
    for name in over.iter().filter(|name| !sharding.backends.contains_key(*name)) {
        faults.push(format!(
            "sharding.spreadOver names backend \"{name}\", which sharding.backends does not define"
        ));
    }
}

fn check_sentinel(sections: &Sections, faults: &mut Vec<String>) {
    let sentinel = &sections.persistence_config.sentinel;
    let (addresses, master) = (sentinel.addrs.trim(), sentinel.master.trim());
    if addresses.is_empty() != master.is_empty() {
        faults.push("persistenceConfig.sentinel needs both addrs and master".into());
    }
    if !addresses.is_empty() && sections.persistence_config.cluster {
        faults.push("persistenceConfig.sentinel and persistenceConfig.cluster exclude each other".into());
    }
}

fn check_shards(sharding: &ShardingSection, faults: &mut Vec<String>) {
    let ShardingSection { backends, default_shard, command_mappings, tenant_overrides, .. } = sharding;
    if backends.is_empty() {
        return;
    }
    if !backends.contains_key(default_shard) {
        faults.push(format!("default shard \"{default_shard}\" not found in sharding backends"));
    }
    for (mappings, before, after) in
        [(command_mappings, "command", "maps"), (tenant_overrides, "tenant", "override maps")]
    {
        for (name, shard) in mappings.iter().filter(|(_, shard)| !backends.contains_key(*shard)) {
            faults.push(format!("{before} {name} {after} to undefined shard backend \"{shard}\""));
        }
    }
    for (name, backend) in backends {
        if backend.sentinel.addrs.trim().is_empty() && backend.address.trim().is_empty() {
            faults.push(format!("shard backend \"{name}\" has empty address"));
        }
    }
}

fn check_sizes(sections: &Sections, faults: &mut Vec<String>) {
    if sections.limits.max_payload_bytes > sections.limits.max_body_bytes {
        faults.push("limits.maxPayloadBytes exceeds limits.maxBodyBytes".into());
    }
    if sections.artifacts.provider == "s3" && sections.artifacts.s3.bucket.trim().is_empty() {
        faults.push("artifacts.s3.bucket is required".into());
    }
}
