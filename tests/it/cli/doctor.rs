//! `codeq doctor`: a healthy set-up, and broken ones with the next step for each.

use super::stand_in::{Asked, StandIn};
use super::{Cli, write};
use crate::harness::Server;
use serde_json::{Value, json};
use std::net::TcpListener;

/// The settings of a server that would start, with these instead.
fn config(cli: &Cli, more: Value) {
    let mut config = json!({
        "port": 0, "bindAddress": "127.0.0.1", "webhookHmacSecret": "s", "allowProducerAsWorker": true,
        "persistenceConfig": {"path": cli.path("data")},
        "producerAuthProvider": "static", "producerAuthConfig": {"token": "t", "raw": {"tenantId": "acme"}},
    });
    for (key, value) in more.as_object().expect("settings are an object") {
        config[key] = value.clone();
    }
    write(&cli.path("codeq.yaml"), &config.to_string());
}

/// The check with this name, as JSON; and whether all is well.
fn examined(cli: &Cli, name: &str) -> (Value, bool) {
    let run = cli.run(&["doctor", "--config", "codeq.yaml", "--json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    assert_eq!(run.code, Some(if report["ok"] == true { 0 } else { 1 }), "{run:?}");
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["name"] == name);
    (found.unwrap_or_else(|| panic!("{name}: {report}")).clone(), report["ok"] == true)
}

/// The check fails, names its cause and the next step, in text as well.
#[track_caller]
fn is_broken(cli: &Cli, name: &str, cause: &str) {
    let (check, is_well) = examined(cli, name);
    assert!(!is_well && check["status"] == "error", "{check}");
    assert!(check["text"].as_str().expect("a text").contains(cause), "{check}");
    let next = check["next"].as_str().expect("a failure has a next step");
    let run = cli.run(&["doctor", "--config", "codeq.yaml"]);
    assert!(run.stdout.contains("[ERROR] ") && run.stdout.contains(&format!("next: {next}")), "{run:?}");
    assert!(run.stderr.starts_with("[ERROR] ") && run.stderr.contains("check"), "{run:?}");
}

#[test]
fn a_healthy_set_up_is_well() {
    let issuer = StandIn::start(|_| (200, json!({"keys": [{"kty": "RSA"}]}).to_string()));
    let cli = Cli::new();
    config(
        &cli,
        json!({
            "producerAuthProvider": "", "producerAuthConfig": null, "identityAudience": "a",
            "identityJwksUrl": issuer.base, "identityIssuer": "i",
        }),
    );
    let said = cli.ok(&["doctor", "--config", "codeq.yaml"]);
    assert!(!said.contains("[ERROR]"), "{said}");
    for name in [
        "config",
        "producer auth",
        "worker auth",
        "store",
        "lock",
        "disk space",
        "disk speed",
        "clock",
        "port",
    ] {
        assert!(said.lines().any(|line| line.contains(&format!(" {name} "))), "{name}: {said}");
    }
    assert!(!cli.path("data").exists(), "a doctor changes nothing");
}

#[test]
fn a_running_server_is_no_fault() {
    let server = Server::dev();
    let cli = Cli::new();
    let port: u16 = server.base.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    config(&cli, json!({"port": port, "persistenceConfig": {"path": server.data()}}));
    let said = cli.ok(&["doctor", "--config", "codeq.yaml"]);
    assert!(
        said.contains("held by the running server") && said.contains("a codeQ server is running"),
        "{said}"
    );
}

#[test]
fn development_needs_no_configuration() {
    let cli = Cli::new().with("PORT", "0");
    cli.ok(&["doctor", "--dev"]);
    assert!(cli.run(&["doctor"]).stdout.contains("producer auth is not configured"));
}

#[test]
fn a_wrong_setting_is_named() {
    let cli = Cli::new();
    config(&cli, json!({"durability": "sometimes"}));
    is_broken(&cli, "config", "durability must be fsync or os");
    write(&cli.path("codeq.yaml"), "port: [");
    is_broken(&cli, "config", "codeq.yaml");
}

/// Three faults were one line with semicolons, and a misspelt key hid the others.
#[test]
fn every_fault_is_told_with_its_own_next_step() {
    let cli = Cli::new();
    config(&cli, json!({"prot": 1, "logLevel": "loud", "durability": "sometimes"}));
    let run = cli.run(&["doctor", "--config", "codeq.yaml", "--json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    let faults: Vec<&Value> = report["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .filter(|check| check["name"] == "config")
        .collect();
    assert_eq!(faults.len(), 3, "{report}");
    assert_eq!(faults[0]["text"], "unknown key prot");
    assert!(faults[0]["next"].as_str().expect("a text").starts_with("did you mean port?"), "{report}");
}

#[test]
fn a_server_that_refuses_its_settings_says_what_was_meant() {
    let cli = Cli::new();
    config(&cli, json!({"prot": 1, "logLevel": "loud"}));
    let said = cli.fails(&["serve", "--config", "codeq.yaml"]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("[ERROR] load config: unknown key prot; logLevel must be"), "{said}");
    assert_eq!(lines[1], "  codeq.yaml:1: unknown key prot; did you mean port?");
    assert_eq!(lines[2], "  codeq.yaml:1: logLevel must be debug, info, warn or error");
    assert!(lines[3].starts_with("  next: `codeq doctor`"), "{said}");
}

#[test]
fn the_secret_of_an_example_is_refused() {
    let cli = Cli::new();
    config(&cli, json!({"webhookHmacSecret": "whsec_REPLACE_WITH_BASE64"}));
    is_broken(&cli, "config", "webhookHmacSecret is a placeholder");
    let said = cli.fails(&["serve", "--config", "codeq.yaml"]);
    assert!(said.contains("webhookHmacSecret is a placeholder"), "{said}");
}

/// Tokens that everybody can read in an example, and the one of `codeq dev` outside of development.
#[test]
fn a_token_that_everybody_knows_is_refused() {
    let cli = Cli::new();
    let fixed = |token: &str| json!({"token": token, "raw": {"tenantId": "acme"}});
    let providers = json!({"providers": [{"type": "static", "config": fixed("change-me-producer")},
        {"type": "static", "config": fixed("t")}]});
    for (config, more, text) in [
        (fixed("change-me-producer"), json!({}), "producerAuthConfig.token is a placeholder"),
        (fixed("dev-token"), json!({}), "producerAuthConfig.token is the token of `codeq dev`"),
        (
            providers,
            json!({"producerAuthProvider": "multi"}),
            "producerAuthConfig.providers[0].config.token is a placeholder",
        ),
        // As it comes from the environment: a text with JSON in it.
        (json!(fixed("REPLACE_ME").to_string()), json!({}), "producerAuthConfig.token is a placeholder"),
    ] {
        let mut settings = json!({"producerAuthConfig": config});
        settings.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        self::config(&cli, settings);
        is_broken(&cli, "config", text);
        assert!(cli.fails(&["serve", "--config", "codeq.yaml"]).contains(text), "{text}");
    }
    config(&cli, json!({"env": "dev", "producerAuthConfig": fixed("dev-token")}));
    assert!(examined(&cli, "config").1, "development has the token of development");
}

#[test]
fn an_issuer_that_is_away_or_has_no_keys_is_named() {
    let cli = Cli::new();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let settings = |url: &str| json!({"producerAuthProvider": "jwks", "producerAuthConfig": {"jwksUrl": url, "issuer": "i", "audience": "a"}});
    config(&cli, settings(&format!("http://{free}/jwks.json")));
    is_broken(&cli, "producer auth", "/jwks.json: ");
    let empty = StandIn::start(|_| (200, r#"{"keys":[]}"#.into()));
    config(&cli, settings(&empty.base));
    is_broken(&cli, "producer auth", "holds no keys");
    config(&cli, json!({"producerAuthProvider": "jwks", "producerAuthConfig": {"issuer": "i"}}));
    is_broken(&cli, "auth", "jwksURL is required");
}

/// A page that cannot sign anybody in is told here, not by the first person who tries.
#[test]
fn an_issuer_of_the_dashboard_that_would_not_work_is_told() {
    let host = |asked: &Asked| {
        let host = asked
            .headers
            .iter()
            .find_map(|line| line.to_lowercase().strip_prefix("host: ").map(String::from));
        host.expect("a host")
    };
    let issuer = StandIn::start(move |asked| {
        let own = format!("http://{}", host(asked));
        let (name, token) = match asked.path.split('/').nth(1) {
            Some("other") => ("https://elsewhere.example".to_owned(), format!("{own}/token")),
            Some("far") => (format!("{own}/far"), "https://token.example/token".to_owned()),
            Some("none") => return (404, String::new()),
            _ => (own.clone(), format!("{own}/token")),
        };
        (200, json!({"issuer": name, "token_endpoint": token}).to_string())
    });
    let cli = Cli::new();
    let told = |place: &str| {
        let oidc = json!({"issuer": format!("{}{place}", issuer.base), "clientId": "c"});
        config(&cli, json!({"dashboard": {"oidc": oidc}}));
        let (check, is_well) = examined(&cli, "dashboard");
        assert!(is_well, "the server works without it: {check}");
        format!("{} {} {}", check["status"], check["text"], check["next"])
    };
    assert!(told("").contains("people sign in at"));
    assert!(told("/other").contains("says that it is"));
    assert!(told("/far").contains("set dashboard.oidc.tokenUrl: https://token.example/token"));
    assert!(told("/none").contains("answers 404"));
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let cli = Cli::new();
    config(&cli, json!({"persistenceConfig": {"path": "/proc/no/such/place"}}));
    is_broken(&cli, "store", "cannot write in /proc");
    std::fs::create_dir(cli.path("data")).expect("the home is ours");
    write(&cli.path("data/letters.txt"), "dear");
    config(&cli, json!({}));
    is_broken(&cli, "store", "not a codeQ data directory");
}

#[test]
fn a_directory_that_another_server_uses_is_named() {
    let server = Server::dev();
    let cli = Cli::new();
    config(&cli, json!({"persistenceConfig": {"path": server.data()}}));
    is_broken(&cli, "lock", "data directory is in use");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it listens").port();
    std::thread::spawn(move || taken.incoming().flatten().for_each(drop));
    let cli = Cli::new();
    config(&cli, json!({"port": port}));
    is_broken(&cli, "port", "cannot listen on 127.0.0.1:");
    config(&cli, json!({"workerStreamAddr": format!("127.0.0.1:{port}")}));
    is_broken(&cli, "worker port", "cannot listen on 127.0.0.1:");
}

#[test]
fn a_clock_far_from_the_issuers_is_named() {
    use std::io::{Read, Write};
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it listens"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let body = r#"{"keys":[{"kty":"RSA"}]}"#;
            let head = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close";
            let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    let cli = Cli::new();
    let jwks = json!({"jwksUrl": url, "issuer": "i", "audience": "a"});
    config(&cli, json!({"producerAuthProvider": "jwks", "producerAuthConfig": jwks}));
    is_broken(&cli, "clock", "s from the clock of the issuer");
}

#[test]
fn a_kvrocks_that_is_away_is_named() {
    let cli = Cli::new();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let kvrocks = json!({"persistenceProvider": "kvrocks", "persistenceConfig": {"addr": free.to_string()}});
    config(&cli, kvrocks);
    is_broken(&cli, "store", "kvrocks at 127.0.0.1:");
}
