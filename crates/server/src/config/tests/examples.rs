//! The examples of the contract, and the reference file.

use super::super::keys::{KEYS, codeq_name};
use super::super::yaml;
use super::*;

const DEVELOPMENT: &str = r#"
env: dev
bindAddress: 127.0.0.1
persistenceConfig: {path: ./codeq-data}
producerAuthProvider: static
producerAuthConfig: {token: dev-token, subject: producer-dev, raw: {role: ADMIN, tenantId: dev-tenant}}
workerAuthProvider: static
workerAuthConfig:
  token: dev-token
  subject: worker-dev
  eventTypes: ["*"]
  scopes: [codeq:claim, codeq:heartbeat, codeq:abandon, codeq:nack, codeq:result, codeq:subscribe]
  raw: {tenantId: dev-tenant}
"#;

const EMBEDDED: &str = r#"
port: 8080
metricsAddr: 127.0.0.1:9100
publicBaseUrl: https://codeq.example.com
persistenceProvider: embedded
persistenceConfig: {path: /var/lib/codeq, numShards: 4}
durability: fsync
identityServiceUrl: https://id.example.com
identityAudience: codeq-producer
workerJwksUrl: https://id.example.com/v1/.well-known/jwks.json
workerIssuer: https://id.example.com
workerStreamAddr: ":9091"
producerStreamAddr: ":9092"
webhookHmacSecret: whsec_c2VjcmV0IG9mIHRoZSBleGFtcGxl
rateLimit: {producer: {requestsPerMinute: 6000, burstSize: 200}}
"#;

const KVROCKS: &str = r#"
persistenceProvider: kvrocks
persistenceConfig: {addr: "kvrocks-a:6666"}   # password from KVROCKS_PASSWORD
sharding:
  enabled: true
  defaultShard: main
  backends: {main: {address: "kvrocks-a:6666"}, video: {address: "kvrocks-b:6666"}}
  commandMappings: {render_video: video}
artifacts: {provider: s3, s3: {bucket: codeq-artifacts, region: eu-west-1}}
identityServiceUrl: https://id.example.com
identityAudience: codeq-producer
allowProducerAsWorker: true
webhookHmacSecret: whsec_c2VjcmV0IG9mIHRoZSBleGFtcGxl
"#;

#[test]
fn development_by_hand_equals_dev() {
    let by_hand = serve(DEVELOPMENT).config();
    let dev = dev("").config();
    assert_eq!((by_hand.producer_auth, by_hand.worker_auth), (dev.producer_auth, dev.worker_auth));
    assert_eq!((by_hand.listen, by_hand.persistence), (dev.listen, dev.persistence));
}

/// A server that signs with the secret of an example can be impersonated by everyone who has read it.
#[test]
fn the_secret_of_an_example_is_refused() {
    let copied = EMBEDDED.replace("whsec_c2VjcmV0IG9mIHRoZSBleGFtcGxl", "whsec_REPLACE_WITH_BASE64");
    let error = serve(&copied).load().expect_err("a placeholder").to_string();
    assert!(error.contains("webhookHmacSecret is a placeholder"), "{error}");
}

/// `logLevel: loud` was told only after the misspelt key had been corrected.
#[test]
fn a_misspelt_key_does_not_hide_a_wrong_value() {
    let error =
        serve(&format!("{EMBEDDED}prot: 1\nlogLevel: loud\n")).load().expect_err("two faults").to_string();
    assert!(error.contains("unknown key prot") && error.contains("logLevel must be"), "{error}");
}

#[test]
fn an_issuer_for_the_dashboard_needs_a_client() {
    let with = |oidc: &str| serve(&format!("{EMBEDDED}dashboard: {{oidc: {{{oidc}}}}}\n")).load();
    let error = with("issuer: https://id.example.com").expect_err("no client").to_string();
    assert!(error.contains("dashboard.oidc needs both issuer and clientId"), "{error}");
    let error = with("clientId: c").expect_err("no issuer").to_string();
    assert!(error.contains("dashboard.oidc needs both issuer and clientId"), "{error}");
    assert!(with("issuer: id.example.com, clientId: c").is_err(), "not a URL");
    let loaded = with("issuer: https://id.example.com/, clientId: c").expect("a configuration");
    let oidc = loaded.config.oidc.expect("an issuer");
    assert_eq!((oidc.issuer.as_str(), oidc.scopes.as_str()), ("https://id.example.com", "openid"));
}

#[test]
fn embedded_production_loads() {
    let loaded = serve(EMBEDDED).load().expect("a configuration");
    let config = loaded.config;
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert_eq!(config.listen, ListenAddress { host: None, port: 8080 });
    assert_eq!(config.metrics.expect("an address").to_string(), "127.0.0.1:9100");
    assert_eq!(config.streams.worker.expect("an address").to_string(), ":9091");
    let embedded = Embedded { path: "/var/lib/codeq".into(), num_shards: 4, durability: Durability::Fsync };
    assert_eq!(config.persistence, Persistence::Embedded(embedded));
    assert_eq!(config.rate_limits.producer, Some(RateLimit { requests_per_minute: 6000, burst_size: 200 }));
}

#[test]
fn kvrocks_production_loads() {
    let config = serve(KVROCKS).env(&[("KVROCKS_PASSWORD", "pw")]).config();
    assert_eq!(config.worker_auth, None);
    assert_eq!(config.artifacts.s3.expect("a bucket").bucket, "codeq-artifacts");
    let Persistence::Kvrocks(kvrocks) = config.persistence else { panic!("not kvrocks") };
    assert_eq!((kvrocks.addr.as_str(), kvrocks.password.expose()), ("kvrocks-a:6666", "pw"));
    let sharding = kvrocks.sharding.expect("shards");
    assert_eq!(sharding.command_mappings["render_video"], "video");
    assert_eq!(sharding.backends["video"].address, "kvrocks-b:6666");
}

#[test]
fn the_reference_file_loads_to_the_defaults() {
    let overlay = [
        ("PRODUCER_AUTH_PROVIDER", "static"),
        ("ALLOW_PRODUCER_AS_WORKER", "true"),
        ("WEBHOOK_HMAC_SECRET", "s"),
    ];
    let reference = serve(DEFAULT_YAML).env(&overlay).load().expect("a configuration");
    let defaults = serve("").env(&overlay).load().expect("a configuration");
    assert_eq!(reference.warnings, Vec::<String>::new());
    assert_eq!(format!("{:?}", reference.config), format!("{:?}", defaults.config));
    let mut settings = Settings::defaults(Mode::Serve);
    let mut findings = Findings::default();
    take_file(&mut settings, yaml::parse(DEFAULT_YAML).expect("YAML"), &mut findings);
    rules::apply(&mut settings, &mut findings);
    for key in KEYS {
        let default = Settings::defaults(Mode::Serve).value(key.path).clone();
        assert_eq!(settings.value(key.path), &default, "{}", key.path);
    }
}

/// The paths of a document in which every map is written in block form, with the rest of their lines.
fn lines_by_path(text: &str) -> Vec<(String, &str)> {
    let mut open: Vec<&str> = Vec::new();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let depth = (line.len() - line.trim_start().len()) / 2;
            let (name, rest) = line.trim_start().split_once(':').expect("a key");
            open.truncate(depth);
            open.push(name);
            (open.join("."), rest)
        })
        .collect()
}

#[test]
fn the_reference_file_names_every_key_once_with_its_variables() {
    let lines = lines_by_path(DEFAULT_YAML);
    for key in KEYS {
        let of_key: Vec<&str> =
            lines.iter().filter(|(path, _)| path == key.path).map(|(_, rest)| *rest).collect();
        let [rest] = of_key[..] else { panic!("{} occurs {} times", key.path, of_key.len()) };
        let (_, comment) = rest.split_once('#').unwrap_or_else(|| panic!("{} has no comment", key.path));
        let (names, meaning) = comment.split_once(": ").expect("names before the meaning");
        let own = codeq_name(key.path);
        let expected: Vec<&str> = key.env.iter().copied().chain([own.as_str()]).collect();
        assert_eq!(names.trim(), expected.join(", "), "{}", key.path);
        assert!(!meaning.trim().is_empty(), "{}", key.path);
    }
}
