//! `codeq install`: bundles that start as they are written.

use super::{Cli, deploy};
use crate::harness::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The variables of an `.env` file, as Compose reads them.
fn variables(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    let value = |value: &str| value.trim_matches('\'').replace(r"\'", "'");
    pairs.map(|(name, text)| (name.to_owned(), value(text))).collect()
}

/// A server with the settings of the bundle, its data elsewhere.
fn start(variables: &BTreeMap<String, String>) -> Server {
    let mut config = json!({"persistenceProvider": "memory", "persistenceConfig": {}});
    for (variable, key) in [
        ("PRODUCER_AUTH_PROVIDER", "producerAuthProvider"),
        ("PRODUCER_AUTH_CONFIG", "producerAuthConfig"),
        ("WORKER_AUTH_PROVIDER", "workerAuthProvider"),
        ("WORKER_AUTH_CONFIG", "workerAuthConfig"),
        ("WEBHOOK_HMAC_SECRET", "webhookHmacSecret"),
        ("ENV", "env"),
    ] {
        if let Some(value) = variables.get(variable) {
            config[key] = json!(value);
        }
    }
    Server::serve(config)
}

#[tokio::test]
async fn a_bundle_for_docker_starts_with_producer_and_worker_in_one_tenant() {
    let cli = Cli::new();
    let said = cli.ok(&["install", "--no-prompt", "--size", "small"]);
    let wanted = "[OK] Installation bundle written to codeq-install\n  codeq-install/compose.yaml\n  \
        codeq-install/.env\nNext command:\n  docker compose -f codeq-install/compose.yaml up -d\n";
    assert_eq!(said, wanted);
    let compose = yaml(&read(&cli.path("codeq-install/compose.yaml")));
    let service = &compose["services"]["codeq"];
    assert_eq!(service["image"], format!("codeq:{}", env!("CARGO_PKG_VERSION")));
    assert_eq!((&service["env_file"], &service["command"]), (&json!([".env"]), &json!(["serve"])));
    let file = cli.path("codeq-install/.env");
    assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    let variables = variables(&read(&file));
    assert_eq!(variables["PERSISTENCE_CONFIG"], r#"{"numShards":1,"path":"/var/lib/codeq/data"}"#);
    assert_eq!(variables["WEBHOOK_HMAC_SECRET"].len(), 64);
    let server = start(&variables);
    let token = |name: &str| {
        let config: Value = serde_json::from_str(&variables[name]).expect("JSON");
        config["token"].as_str().expect("a token").to_owned()
    };
    let create = json!({"command": "demo", "payload": 1});
    let created = server.post("/v1/codeq/tasks", &token("PRODUCER_AUTH_CONFIG"), create).await;
    assert_eq!(created.status, 202, "{}", created.text);
    let claimed = server.post("/v1/codeq/tasks/claim", &token("WORKER_AUTH_CONFIG"), json!({})).await;
    assert_eq!((claimed.status, &claimed.json["id"]), (200, &created.json["id"]), "{}", claimed.text);
}

#[test]
fn two_bundles_share_no_secret() {
    let cli = Cli::new();
    let secrets = |directory: &str| {
        cli.ok(&["install", "--no-prompt", "--output-dir", directory]);
        let variables = variables(&read(&cli.path(directory).join(".env")));
        ["WEBHOOK_HMAC_SECRET", "PRODUCER_AUTH_CONFIG", "WORKER_AUTH_CONFIG"]
            .map(|name| variables[name].clone())
    };
    let (one, two) = (secrets("one"), secrets("two"));
    assert!(one.iter().zip(&two).all(|(one, two)| one != two));
}

#[test]
fn settings_of_an_identity_provider_and_of_kvrocks_are_taken() {
    let cli = Cli::new();
    cli.ok(&[
        &["install", "--no-prompt", "--identity-service-url", "https://id.example.com"][..],
        &[
            "--redis-addr",
            "kvrocks:6666",
            "--domain",
            "q.example.com",
            "--webhook-hmac-secret",
            "it's $ecret",
        ],
        &["--image", "mine/codeq:7", "--release", "jobs"],
    ]
    .concat());
    let found = variables(&read(&cli.path("codeq-install/.env")));
    for (name, value) in [
        ("IDENTITY_SERVICE_URL", "https://id.example.com"),
        ("IDENTITY_AUDIENCE", "codeq-producer"),
        ("ALLOW_PRODUCER_AS_WORKER", "true"),
        ("PERSISTENCE_PROVIDER", "kvrocks"),
        ("PERSISTENCE_CONFIG", r#"{"addr":"kvrocks:6666"}"#),
        ("CODEQ_PUBLIC_BASE_URL", "https://q.example.com"),
        ("WEBHOOK_HMAC_SECRET", "it's $ecret"),
    ] {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
    }
    let compose = yaml(&read(&cli.path("codeq-install/compose.yaml")));
    assert_eq!(
        (&compose["name"], &compose["services"]["codeq"]["image"]),
        (&json!("jobs"), &json!("mine/codeq:7"))
    );
    let jwks = ["install", "--no-prompt", "--worker-jwks-url", "https://id.example.com/jwks"];
    assert!(cli.fails(&jwks).contains("--worker-issuer is required"));
    let said = cli.ok(&[&jwks[..], &["--worker-issuer", "i"]].concat());
    assert!(said.contains("[WARN] producers are of tenant \"default\""), "{said}");
    let found = variables(&read(&cli.path("codeq-install/.env")));
    assert_eq!((&*found["WORKER_ISSUER"], &*found["WORKER_AUDIENCE"]), ("i", "codeq-worker"));
}

#[test]
fn a_bundle_for_kubernetes_holds_the_chart_and_values_that_fit_it() {
    for more in [
        &["--size", "dev"][..],
        &["--size", "large", "--domain", "q.example.com"],
        &["--redis-addr", "kvrocks:6666", "--size", "medium", "--image", "host.example:5000/codeq"],
        &["--identity-service-url", "https://id.example.com"],
    ] {
        let cli = Cli::new();
        let said = cli.ok(&[&["install", "--no-prompt", "--target", "kubernetes"], more].concat());
        let next = "Next command:\n  helm upgrade --install codeq codeq-install/helm/codeq --namespace codeq \
            --create-namespace --values codeq-install/values.yaml\n";
        assert!(said.ends_with(next), "{said}");
        let values = yaml(&read(&cli.path("codeq-install/values.yaml")));
        deploy::fits_the_chart(&values);
        let chart = yaml(&read(&cli.path("codeq-install/helm/codeq/Chart.yaml")));
        assert_eq!(chart["name"], "codeq");
    }
}

#[test]
fn a_chart_that_is_there_is_used() {
    let cli = Cli::new();
    std::fs::create_dir_all(cli.path("helm/codeq")).expect("the home is ours");
    let install = ["install", "--no-prompt", "--target", "kubernetes", "--release", "r", "--namespace", "n"];
    let said = cli.ok(&install);
    assert!(said.contains("helm upgrade --install r ./helm/codeq --namespace n "), "{said}");
    assert!(!cli.path("codeq-install/helm").exists());
}

#[test]
fn execute_runs_what_it_shows() {
    let cli = Cli::new();
    // A `docker` that writes down what it is asked.
    std::fs::create_dir(cli.path("bin")).expect("the home is ours");
    let docker = cli.path("bin/docker");
    super::write(&docker, "#!/bin/sh\necho \"$@\" > asked\n[ \"$2\" != fail ]\n");
    std::fs::set_permissions(&docker, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = format!("{}:{}", cli.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let cli = cli.with("PATH", &path);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let said = cli.ok(&["install", "--no-prompt", "--build", "--build-context", source, "--execute"]);
    assert!(
        said.contains("[INFO] Running: docker compose -f codeq-install/compose.yaml up -d --build\n"),
        "{said}"
    );
    assert_eq!(read(&cli.path("asked")), "compose -f codeq-install/compose.yaml up -d --build\n");
    let compose = yaml(&read(&cli.path("codeq-install/compose.yaml")));
    let build = &compose["services"]["codeq"]["build"];
    assert!(
        Path::new(build["context"].as_str().expect("a path"))
            .join(build["dockerfile"].as_str().expect("a path"))
            .exists()
    );
    super::write(&docker, "#!/bin/sh\nexit 3\n");
    assert!(cli.fails(&["install", "--no-prompt", "--execute"]).contains("docker failed"));
    assert!(cli.fails(&["install", "--no-prompt", "--build"]).contains("is not the source of codeQ"));
}

#[test]
fn targets_have_the_names_that_people_use() {
    for (target, file) in [("k8s", "values.yaml"), ("helm", "values.yaml"), ("compose", "compose.yaml")] {
        let cli = Cli::new();
        cli.ok(&["install", "--target", target, "--no-prompt"]);
        assert!(cli.path("codeq-install").join(file).exists(), "{target}");
    }
    assert!(Cli::new().ok(&["completion", "bash"]).contains("codeq"));
}
