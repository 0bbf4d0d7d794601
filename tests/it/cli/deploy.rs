//! What is in `deploy/`, as far as it can be checked without running it.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(deploy(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn schema() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&read("helm/codeq/values.schema.json")).expect("JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

/// Helm puts values over those of the chart, and checks the whole.
#[track_caller]
pub fn fits_the_chart(values: &Value) {
    let mut all = yaml("helm/codeq/values.yaml");
    put(&mut all, values);
    let faults: Vec<String> = schema().iter_errors(&all).map(|error| error.to_string()).collect();
    assert!(faults.is_empty(), "{faults:?}\n{all}");
}

fn put(into: &mut Value, values: &Value) {
    match (into, values) {
        (Value::Object(into), Value::Object(values)) => {
            for (key, value) in values {
                put(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value.clone(),
    }
}

#[test]
fn the_values_of_the_chart_fit_its_schema_and_wrong_ones_do_not() {
    fits_the_chart(&json!({}));
    fits_the_chart(&json!({"store": {"provider": "kvrocks", "kvrocks": {"addr": "kvrocks:6666"}}}));
    let workers = json!([{"deployment": "resize", "command": "resize", "metric": "age", "target": 30}]);
    fits_the_chart(&json!({"tls": {"secretName": "codeq-tls"}}));
    fits_the_chart(&json!({"keda": {"enabled": true, "workers": workers}}));
    for wrong in [
        json!({"keda": {"workers": [{"deployment": "resize"}]}}),
        json!({"keda": {"workers": [{"deployment": "resize", "command": "resize", "metric": "speed"}]}}),
        json!({"store": {"provider": "kvrocks"}}),
        json!({"store": {"provider": "paper"}}),
        json!({"tls": {"secret": "codeq-tls"}}),
        json!({"replicaCount": 0}),
        json!({"ingress": {"enabled": true}}),
        json!({"imagee": {}}),
        json!({"secrets": {"PORT": 8080}}),
    ] {
        let mut all = yaml("helm/codeq/values.yaml");
        put(&mut all, &wrong);
        assert!(!schema().is_valid(&all), "{wrong}");
    }
}

#[test]
fn the_chart_is_of_this_version() {
    let chart = yaml("helm/codeq/Chart.yaml");
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn probes_and_health_checks_ask_what_is_served() {
    let pod = read("helm/codeq/templates/_pod.tpl");
    let asked: Vec<&str> = pod.lines().filter_map(|line| line.trim().strip_prefix("path: ")).collect();
    assert_eq!(asked, ["/livez", "/livez", "/readyz"]);
    let health = json!(["CMD", "/usr/bin/codeq", "health"]);
    assert_eq!(yaml("compose/single.yaml")["services"]["codeq"]["healthcheck"]["test"], health);
}

#[test]
fn the_replicas_are_three_behind_a_proxy() {
    let compose = yaml("compose/replicas.yaml");
    let proxy = read("compose/nginx.conf");
    let scraped = yaml("compose/prometheus.yaml");
    let targets = &scraped["scrape_configs"][0]["static_configs"][0]["targets"];
    for number in 1..=3 {
        let name = format!("codeq-{number}");
        let service = &compose["services"][&name];
        assert_eq!(service["environment"]["PERSISTENCE_PROVIDER"], "kvrocks", "{name}");
        assert!(proxy.contains(&format!("server {name}:8080")), "{name}");
        assert!(targets.as_array().expect("a list").contains(&json!(format!("{name}:8080"))), "{name}");
    }
    for volume in ["grafana", "prometheus", "kvrocks", "proxy"] {
        assert!(compose["services"][volume].is_object(), "{volume}");
    }
}

#[test]
fn the_examples_for_several_servers_fit_the_chart() {
    for name in ["sentinel", "cluster", "servers"] {
        fits_the_chart(&yaml(&format!("helm/examples/{name}.yaml")));
    }
    for wrong in [
        json!({"store": {"provider": "kvrocks", "kvrocks": {"sentinel": {"master": "codeq"}}}}),
        json!({"store": {"provider": "kvrocks", "kvrocks": {"backends": {"p7": {"address": "a:1"}}, "defaultShard": "p7"}}}),
        json!({"store": {"provider": "kvrocks", "kvrocks": {"backends": {"one": {}}, "defaultShard": "one"}}}),
    ] {
        let mut all = yaml("helm/codeq/values.yaml");
        put(&mut all, &wrong);
        assert!(!schema().is_valid(&all), "{wrong}");
    }
}

/// What Compose makes of a value, with the secrets that somebody made as the file says.
fn filled_in(value: &str) -> String {
    let secrets = [("CODEQ_PRODUCER_TOKEN", "c5f0e1"), ("WEBHOOK_HMAC_SECRET", "whsec_Zm9yIGEgdGVzdA==")];
    let asks = |name: &str| format!("${{{name}:?see the head of this file}}");
    secrets.iter().fold(value.to_owned(), |value, (name, secret)| value.replace(&asks(name), secret))
}

/// A secret that is in a file of ours is known to everybody who has it.
#[test]
fn no_compose_file_has_a_secret_of_its_own() {
    for name in ["single", "replicas", "sentinel", "cluster"] {
        let text = read(&format!("compose/{name}.yaml"));
        let compose = yaml(&format!("compose/{name}.yaml"));
        let services = compose["services"].as_object().expect("services");
        let servers = services.values().filter(|service| service["image"] == "codeq:latest");
        let mut count = 0;
        for server in servers {
            for variable in ["PRODUCER_AUTH_CONFIG", "WEBHOOK_HMAC_SECRET"] {
                let value = server["environment"][variable].as_str().expect("a text");
                assert_ne!(filled_in(value), value, "{name}: {variable} asks for no secret");
            }
            count += 1;
        }
        assert!(count > 0 && text.contains("> deploy/compose/.env"), "{name} says where they come from");
    }
}

/// Nobody is there in a test: what is wrong is that, and no setting.
#[test]
fn the_settings_of_pairs_and_clusters_are_accepted() {
    let sentinel = yaml("compose/sentinel.yaml");
    let cluster = yaml("compose/cluster.yaml");
    for (compose, said) in [(&sentinel, "no Sentinel names a master"), (&cluster, "node-1:6379")] {
        let mut cli = super::Cli::new();
        for (name, value) in compose["services"]["codeq-1"]["environment"].as_object().expect("variables") {
            cli = cli.with(name, &filled_in(value.as_str().expect("a text")));
        }
        let file = cli.home.path().join("config.yaml");
        let settings = compose["configs"]["codeq"]["content"].as_str().unwrap_or("{}");
        std::fs::write(&file, settings).expect("the directory is ours");
        let output = cli.with("PORT", "0").run(&["doctor", "--config", file.to_str().expect("a plain name")]);
        let told = format!("{}{}", output.stdout, output.stderr);
        assert!(told.contains(said), "{told}");
    }
}

/// A server and its replica are not one machine, and Sentinels decide by majority.
#[test]
fn pairs_and_clusters_have_their_parts() {
    let services = |compose: &Value, prefix: &str| {
        let services = compose["services"].as_object().expect("services");
        services.keys().filter(|name| name.starts_with(prefix)).count()
    };
    let (sentinel, cluster) = (yaml("compose/sentinel.yaml"), yaml("compose/cluster.yaml"));
    assert_eq!((services(&sentinel, "store-"), services(&sentinel, "sentinel-")), (2, 3));
    assert_eq!(services(&cluster, "node-"), 6);
}

/// Settings in deploy/ that the server would refuse are found by starting one with them.
#[test]
fn the_settings_of_the_single_server_are_accepted() {
    let environment = yaml("compose/single.yaml")["services"]["codeq"]["environment"].clone();
    let mut cli = super::Cli::new();
    for (name, value) in environment.as_object().expect("variables") {
        let value = filled_in(value.as_str().expect("a text")).replace("/var/lib/codeq", "./codeq");
        cli = cli.with(name, &value);
    }
    let said = cli.with("PORT", "0").ok(&["doctor"]);
    assert!(said.contains("./codeq/data can be made"), "{said}");
}
