//! TLS on every listener: real handshakes with certificates that openssl has made.

use crate::cli::Cli;
use crate::harness::{Answer, Server, answer};
use reqwest::{Certificate, Client, Identity, Method};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tonic::transport::{Channel, ClientTlsConfig};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Two authorities; a certificate of each for the loopback address, and one of the first for a caller.
const CERTIFY: &str = "
    key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
    echo subjectAltName=IP:127.0.0.1 > names
    for n in 1 2; do
        openssl req -x509 $key -days 30 -keyout ca$n.key -out ca$n.pem -subj /CN=authority$n
        openssl req $key -keyout server$n.key -out server.csr -subj /CN=server
        openssl x509 -req -in server.csr -CA ca$n.pem -CAkey ca$n.key -CAcreateserial -days 30 -extfile names -out server$n.pem
    done
    openssl req $key -keyout caller.key -out caller.csr -subj /CN=caller
    echo extendedKeyUsage=clientAuth > usage
    openssl x509 -req -in caller.csr -CA ca1.pem -CAkey ca1.key -CAcreateserial -days 30 -extfile usage -out caller.pem
    cat caller.pem caller.key > both.pem
";

struct Files(TempDir);

impl Files {
    fn new() -> Files {
        let files = Files(TempDir::new().expect("a temporary directory"));
        let mut shell = Command::new("sh");
        let output = shell.args(["-ec", CERTIFY]).current_dir(files.0.path()).output().expect("a shell");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        files.install("server1");
        files
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a plain name").to_owned()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).expect("openssl wrote it")
    }

    /// Puts this pair where the server looks, as a renewal does: key and certificate, each replaced whole.
    fn install(&self, name: &str) {
        for (kind, place) in [("key", "now.key"), ("pem", "now.pem")] {
            std::fs::copy(self.at(&format!("{name}.{kind}")), self.at("next")).expect("there is room");
            std::fs::rename(self.at("next"), self.at(place)).expect("the directory is ours");
        }
    }

    fn server(&self, tls: Value) -> Server {
        let mut files = json!({"certFile": self.at("now.pem"), "keyFile": self.at("now.key")});
        for (name, value) in tls.as_object().expect("an object") {
            files[name] = value.clone();
        }
        Server::serve(json!({
            "tls": files, "env": "dev", "allowProducerAsWorker": true, "workerStreamAddr": "127.0.0.1:0",
            "producerAuthProvider": "static",
            "producerAuthConfig": {"token": "t", "subject": "s", "raw": {"tenantId": "acme", "role": "ADMIN"}},
        }))
    }

    /// A caller that trusts one authority.
    fn client(&self, authority: &str) -> Client {
        self.callers(authority).build().expect("a client")
    }

    fn callers(&self, authority: &str) -> reqwest::ClientBuilder {
        let authority = Certificate::from_pem(&self.read(authority)).expect("a certificate");
        Client::builder().no_proxy().tls_certs_only([authority])
    }
}

fn https(server: &Server) -> String {
    server.base.replace("http://", "https://")
}

async fn post(client: &Client, server: &Server, path: &str, body: Value) -> Answer {
    let url = format!("{}/v1/codeq{path}", https(server));
    answer(client.request(Method::POST, url).bearer_auth("t").body(body.to_string())).await
}

async fn live(client: &Client, server: &Server) -> Result<u16, reqwest::Error> {
    Ok(client.get(format!("{}/livez", https(server))).send().await?.status().as_u16())
}

async fn stream(files: &Files, server: &Server, tls: ClientTlsConfig) -> Result<(), String> {
    let authority = tonic::transport::Certificate::from_pem(files.read("ca1.pem"));
    let address = server.worker_streams.replace("http://", "https://");
    let endpoint = Channel::from_shared(address).expect("an address");
    let endpoint = endpoint.tls_config(tls.ca_certificate(authority)).expect("a configuration");
    let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
    let asked = HealthCheckRequest { service: String::new() };
    let checked = HealthClient::new(channel).check(asked).await;
    checked.map(drop).map_err(|error| format!("{error:?}"))
}

#[tokio::test]
async fn tasks_and_streams_go_through_tls_and_nothing_goes_around_it() {
    let files = Files::new();
    let server = files.server(json!({}));
    let client = files.client("ca1.pem");
    let made = post(&client, &server, "/tasks", json!({"command": "RENDER", "payload": {}})).await;
    assert_eq!(made.status, 202, "{}", made.text);
    let claimed = post(&client, &server, "/tasks/claim", json!({"commands": ["RENDER"]})).await;
    assert_eq!(claimed.json["id"], made.json["id"]);
    stream(&files, &server, ClientTlsConfig::new()).await.expect("streams are served");

    assert!(live(&files.client("ca2.pem"), &server).await.is_err(), "another authority's certificate");
    let plain = server.request(Method::GET, "/livez").send().await;
    assert!(plain.is_err(), "{plain:?}");
}

/// A large answer is cut into records, and a large body arrives in many: nothing is lost at their borders.
#[tokio::test]
async fn large_bodies_pass_in_both_directions() {
    let files = Files::new();
    let server = files.server(json!({}));
    let client = files.client("ca1.pem");
    let text = "0123456789".repeat(90_000);
    let made = post(&client, &server, "/tasks", json!({"command": "BIG", "payload": {"text": text}})).await;
    assert_eq!(made.status, 202, "{}", made.text);
    let claimed = post(&client, &server, "/tasks/claim", json!({"commands": ["BIG"]})).await;
    let payload: Value =
        serde_json::from_str(claimed.json["payload"].as_str().expect("a text")).expect("JSON");
    assert_eq!(payload["text"], text);
}

#[tokio::test]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let files = Files::new();
    let server = files.server(json!({}));
    let kept = files.client("ca1.pem");
    assert_eq!(live(&kept, &server).await.expect("the first certificate"), 200);
    assert!(live(&files.client("ca2.pem"), &server).await.is_err());

    files.install("server2");
    server.until_said("TLS certificate reloaded").await;
    assert_eq!(live(&files.client("ca2.pem"), &server).await.expect("the second certificate"), 200);
    assert!(live(&files.client("ca1.pem"), &server).await.is_err());
    assert_eq!(live(&kept, &server).await.expect("connections that exist go on"), 200);

    let page = answer(files.client("ca2.pem").get(format!("{}/metrics", https(&server)))).await.text;
    let told =
        page.lines().find_map(|line| line.strip_prefix("codeq_tls_certificate_expiry_timestamp_seconds "));
    let expiry: f64 = told.expect("the metric").parse().expect("a number");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64();
    assert!((expiry - now - 30.0 * 86_400.0).abs() < 3600.0, "{expiry}");

    // Half a renewal: the key does not fit.
    std::fs::copy(files.at("server1.key"), files.at("now.key")).expect("there is room");
    server.until_said("TLS certificate not reloaded, the former one stays").await;
    assert_eq!(live(&files.client("ca2.pem"), &server).await.expect("the second certificate"), 200);
}

#[tokio::test]
async fn only_callers_with_a_certificate_of_the_named_authority_are_let_in() {
    let files = Files::new();
    let server = files.server(json!({"clientCaFile": files.at("ca1.pem")}));
    let identity = Identity::from_pem(&files.read("both.pem")).expect("a certificate and its key");
    let known = files.callers("ca1.pem").identity(identity).build().expect("a client");
    assert_eq!(live(&known, &server).await.expect("a known caller"), 200);
    assert!(live(&files.client("ca1.pem"), &server).await.is_err(), "a caller without a certificate");

    let identity = tonic::transport::Identity::from_pem(files.read("caller.pem"), files.read("caller.key"));
    stream(&files, &server, ClientTlsConfig::new().identity(identity)).await.expect("a known stream");
    assert!(stream(&files, &server, ClientTlsConfig::new()).await.is_err(), "a stream without a certificate");
}

/// Under TLS the end of a connection is a message that has to be opened to be seen.
#[tokio::test]
async fn a_task_for_a_worker_that_has_hung_up_goes_to_the_next_one() {
    let files = Files::new();
    let server = files.server(json!({}));
    let scrape = files.client("ca1.pem");
    for round in 0..5 {
        let client = files.client("ca1.pem");
        let claim = json!({"commands": ["RENDER"], "waitSeconds": 20});
        let waiting = {
            let url = format!("{}/v1/codeq/tasks/claim", https(&server));
            let request = client.post(url).bearer_auth("t").body(claim.to_string());
            tokio::spawn(request.send())
        };
        until_waiting(&scrape, &server, 1).await;
        waiting.abort();
        drop(client);
        until_waiting(&scrape, &server, 0).await;
        let made =
            post(&scrape, &server, "/tasks", json!({"command": "RENDER", "payload": {"n": round}})).await;
        let claimed = post(&scrape, &server, "/tasks/claim", claim).await;
        assert_eq!(claimed.json["id"], made.json["id"], "round {round}: {}", claimed.text);
        let id = claimed.json["id"].as_str().expect("an id");
        let ended = json!({"status": "COMPLETED", "result": {}});
        assert_eq!(post(&scrape, &server, &format!("/tasks/{id}/result"), ended).await.status, 200);
    }
}

async fn until_waiting(client: &Client, server: &Server, count: usize) {
    let line = format!("codeq_claims_waiting {count}");
    let waits = async {
        loop {
            let text = answer(client.get(format!("{}/metrics", https(server)))).await.text;
            if text.lines().any(|found| found == line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waits).await.expect("the claim is seen, and its end too");
}

#[test]
fn the_command_line_speaks_tls() {
    let files = Files::new();
    let server = files.server(json!({"clientCaFile": files.at("ca1.pem")}));
    let base = https(&server);
    let cli = Cli::at(&base).with("CODEQ_PRODUCER_TOKEN", "t");
    let told = cli.fails(&["queue", "list"]);
    assert!(told.contains("next: name the file of your authority with SSL_CERT_FILE"), "{told}");
    let cli = cli.with("SSL_CERT_FILE", &files.at("ca1.pem"));
    let cli = cli.with("CODEQ_CLIENT_CERTIFICATE", &files.at("both.pem"));
    cli.ok(&["task", "create", "--command", "RENDER", "--payload", "{}"]);
    assert!(cli.ok(&["queue", "list"]).contains("RENDER"));
    let ready = format!("{base}/readyz");
    cli.ok(&["health", "--url", &ready]);
    let stranger = Cli::new().with("CODEQ_CLIENT_CERTIFICATE", &files.at("both.pem"));
    assert!(stranger.fails(&["health", "--url", &ready]).contains("does not answer"));
    stranger.ok(&["health", "--url", &ready, "--insecure"]);
    let port = base.rsplit(':').next().expect("a port");
    let beside = stranger.with("CODEQ_PORT", port).with("CODEQ_TLS_CERT_FILE", &files.at("now.pem"));
    assert!(beside.ok(&["health"]).contains("ok"));
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let files = Files::new();
    let refused = |tls: Value, cause: &str| {
        let cli = Cli::new();
        let config = json!({
            "port": 0, "bindAddress": "127.0.0.1", "env": "dev", "allowProducerAsWorker": true, "tls": tls,
            "persistenceConfig": {"path": cli.path("data")},
            "producerAuthProvider": "static", "producerAuthConfig": {"token": "t", "raw": {"tenantId": "acme"}},
        });
        crate::cli::write(&cli.path("codeq.yaml"), &config.to_string());
        let told = cli.fails(&["serve", "--config", "codeq.yaml"]);
        assert!(told.contains(cause), "{told}");
        let report = cli.run(&["doctor", "--config", "codeq.yaml"]);
        assert!(report.code == Some(1) && report.stdout.contains(cause), "{report:?}");
    };
    let (pem, key) = (files.at("server1.pem"), files.at("server1.key"));
    refused(json!({"certFile": pem, "keyFile": files.at("server2.key")}), "server2.key: does not fit");
    refused(json!({"certFile": pem, "keyFile": files.at("none")}), "none: No such file");
    refused(json!({"certFile": key, "keyFile": key}), "server1.key: holds no certificate");
    refused(json!({"certFile": pem, "keyFile": pem}), "server1.pem: holds no private key");
    refused(json!({"certFile": pem}), "tls needs both certFile and keyFile");
    refused(json!({"clientCaFile": pem}), "tls.clientCaFile needs tls.certFile");
}

#[test]
fn a_doctor_tells_how_long_the_certificate_is_good_and_finds_the_server_behind_it() {
    let files = Files::new();
    let server = files.server(json!({}));
    let cli = Cli::new();
    let file = server.directory.path().join("config.yaml");
    let text = std::fs::read_to_string(&file).expect("the harness wrote it");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    let port = server.base.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    config["port"] = json!(port.expect("a port"));
    crate::cli::write(&cli.path("codeq.yaml"), &config.to_string());
    let said = cli.ok(&["doctor", "--config", "codeq.yaml"]);
    assert!(
        said.contains("the certificate is good until ") && said.contains("a codeQ server is running"),
        "{said}"
    );
}
