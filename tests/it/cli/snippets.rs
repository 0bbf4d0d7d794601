//! Code and configurations that the documentation gives away: they do what they are said to do.

use super::Cli;
use super::docs::{ROOT, pages, read};
use crate::harness::Server;
use codeq_server::config::{Mode, Sources, load};
use std::path::Path;
use std::process::Command;

/// The first block of this language on a page.
fn code(page: &str, language: &str) -> String {
    let text = read(page);
    let block = text.split_once(&format!("```{language}\n")).and_then(|(_, rest)| rest.split_once("```"));
    block.unwrap_or_else(|| panic!("{page} has a block of {language}")).0.to_owned()
}

/// `scripts/sdks.sh` runs the guide with a package of this tree.
#[test]
fn the_worker_of_the_readme_is_the_one_of_the_guide() {
    assert_eq!(code("README.md", "python"), code("docs/guides/python-worker.md", "python"));
}

/// The receiver of the page in Go, against the headers and the body with which receivers test themselves.
#[test]
fn the_go_of_the_webhook_page_verifies_what_it_should() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    super::write(&directory.path().join("go.mod"), "module verify\n\ngo 1.22\n");
    super::write(
        &directory.path().join("verify.go"),
        &format!("{}\nfunc main() {{}}\n", code("docs/webhooks.md", "go")),
    );
    let check = r#"package main

import (
	"net/http"
	"testing"
	"time"
)

func TestVerify(t *testing.T) {
	body := []byte(`{"taskId":"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11","eventType":"render_video","status":"COMPLETED","result":{"ok":true},"error":"","artifacts":[],"completedAt":"2026-03-01T12:00:05.25Z"}`)
	header := http.Header{}
	header.Set("webhook-id", "msg_0f1e2d3c4b5a69788796a5b4c3d2e1f0")
	header.Set("webhook-timestamp", "1772366405")
	header.Set("webhook-signature", "v1,HMByih2xZo7UhiZ1GDTJOMfQknnhIDElUta2wE0aNP4=")
	now := time.Unix(1772366410, 0)
	for _, secret := range []string{"s3cr3t-for-docs", "whsec_czNjcjN0LWZvci1kb2Nz"} {
		if err := Verify(secret, header, body, now); err != nil {
			t.Fatal(err)
		}
	}
	if Verify("other", header, body, now) == nil || Verify("s3cr3t-for-docs", header, append(body, 'x'), now) == nil {
		t.Fatal("a forgery passed")
	}
	if Verify("s3cr3t-for-docs", header, body, now.Add(time.Hour)) == nil {
		t.Fatal("an old one passed")
	}
}
"#;
    super::write(&directory.path().join("verify_test.go"), check);
    let mut go = Command::new("go");
    go.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local").current_dir(directory.path());
    let run =
        go.args(["test", "-count=1", "./..."]).output().expect("go is there: scripts/test.sh installs it");
    let said = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
}

/// The receiver has a test of its own.
#[test]
fn the_rust_of_the_webhook_page_is_that_of_the_receiver() {
    let receiver = read("crates/server/examples/receiver.rs");
    assert!(receiver.contains(&code("docs/webhooks.md", "rust")), "the page shows another verify");
}

/// Starts the receiver of the page, calls it twice as a sender that repeats itself, and once as a forger.
#[test]
fn the_receiver_of_foreign_webhooks_makes_one_task_of_one_event() {
    let code = code("docs/guides/webhooks-in.md", "python");
    let server = Server::dev();
    let cli = Cli::of(&server);
    let driver = r#"
import threading, urllib.error
server = HTTPServer(("127.0.0.1", 0), Hook)
threading.Thread(target=server.serve_forever, daemon=True).start()
def call(body, signature):
    request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}/", body, {"x-signature": signature})
    try:
        return urllib.request.urlopen(request, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code
body = b'{"id":"evt_1","amount":7}'
signature = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
assert [call(body, signature), call(body, signature), call(body, "forged")] == [202, 202, 401]
"#;
    let code = code.replace("if __name__ == \"__main__\":", "if False:");
    let mut python = Command::new("python3");
    python.env("CODEQ_URL", &server.base).args(["-c", &format!("{code}{driver}")]);
    let run = python.output().expect("python3");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(cli.ok(&["queue", "inspect", "payment.event"]).contains("READY: 1 |"));
}

/// The headers and the body with which receivers are told to test themselves.
const CHECK: &str = r#"
BODY = b'{"taskId":"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11","eventType":"render_video","status":"COMPLETED","result":{"ok":true},"error":"","artifacts":[],"completedAt":"2026-03-01T12:00:05.25Z"}'
HEADERS = {
    "webhook-id": "msg_0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "webhook-timestamp": "1772366405",
    "webhook-signature": "v1,HMByih2xZo7UhiZ1GDTJOMfQknnhIDElUta2wE0aNP4=",
    "x-codeq-signature": "54cc4d3832250c0c402f7dba237dd14bb8f09295882368299df9126f78f49617",
}
verify("s3cr3t-for-docs", HEADERS, BODY, now=1772366410)
for (secret, body, now) in [("other", BODY, 1772366410), ("s3cr3t-for-docs", BODY + b" ", 1772366410),
                            ("s3cr3t-for-docs", BODY, 1772369999)]:
    try:
        verify(secret, HEADERS, body, now=now)
    except ValueError:
        continue
    raise SystemExit("a forgery passed")
"#;

#[test]
fn the_python_of_the_webhook_page_verifies_what_it_should() {
    let code = code("docs/webhooks.md", "python");
    let run = Command::new("python3").args(["-c", &format!("{code}{CHECK}")]).output().expect("python3");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn the_javascript_of_the_webhook_page_verifies_what_it_should() {
    let code = code("docs/webhooks.md", "js");
    let check = r#"
const body = Buffer.from('{"taskId":"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11","eventType":"render_video","status":"COMPLETED","result":{"ok":true},"error":"","artifacts":[],"completedAt":"2026-03-01T12:00:05.25Z"}');
const headers = {
  "webhook-id": "msg_0f1e2d3c4b5a69788796a5b4c3d2e1f0",
  "webhook-timestamp": "1772366405",
  "webhook-signature": "v1,HMByih2xZo7UhiZ1GDTJOMfQknnhIDElUta2wE0aNP4=",
};
verify("s3cr3t-for-docs", headers, body, 1772366410);
verify("whsec_czNjcjN0LWZvci1kb2Nz", headers, body, 1772366410);
for (const [secret, given, now] of [["other", body, 1772366410], ["s3cr3t-for-docs", Buffer.from("x"), 1772366410], ["s3cr3t-for-docs", body, 1772369999]]) {
  let passed = true;
  try { verify(secret, headers, given, now); } catch { passed = false; }
  if (passed) throw new Error("a forgery passed");
}
"#;
    let mut node = Command::new("node");
    let run = node.args(["--input-type=module", "-e", &format!("{code}{check}")]).output().expect("node");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// Blocks of YAML that are a configuration of codeQ, or a part of one.
fn configurations(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    // Values of the chart, and an object of Kubernetes.
    let foreign = ["keda:", "store:", "apiVersion:"];
    blocks
        .map(|(block, _)| block)
        .filter(move |block| !block.lines().any(|line| foreign.iter().any(|key| line.starts_with(key))))
}

/// What a part needs besides, to be a whole.
fn missing(block: &str) -> Vec<(String, String)> {
    let mut env = vec![("WEBHOOK_HMAC_SECRET", "whsec_VGhpcyBpcyBub3QgYSBwbGFjZWhvbGRlciE=")];
    if !block.contains("producerAuth") && !block.contains("identityJwksUrl") {
        env.push(("PRODUCER_AUTH_PROVIDER", "static"));
        env.push(("PRODUCER_AUTH_CONFIG", r#"{"token":"t","raw":{"tenantId":"acme"}}"#));
    }
    if !block.contains("workerAuth") && !block.contains("workerJwksUrl") {
        env.push(("ALLOW_PRODUCER_AS_WORKER", "true"));
    }
    if block.contains("sharding:") && !block.contains("persistenceProvider") {
        env.push(("PERSISTENCE_PROVIDER", "kvrocks"));
    }
    env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// One of them lacked a secret, and the server refused it as pasted.
#[test]
fn every_configuration_of_the_documentation_is_accepted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("codeq.yaml");
    let mut found = Vec::new();
    pages(&Path::new(ROOT).join("docs"), &mut found);
    let mut count = 0;
    for page in found {
        let text = std::fs::read_to_string(&page).expect("a page");
        for block in configurations(&text) {
            // Whoever pastes it puts a secret in the place of the placeholder, which would be refused.
            let own = block
                .replace("whsec_...", "whsec_Zm9yIGEgdGVzdA==")
                .replace("REPLACE_WITH_YOUR_OWN", "c5f0e1");
            super::write(&file, &own);
            let (file, env) = (Some(file.clone()), missing(block));
            let loaded = load(Sources { mode: Mode::Serve, file, env, flags: Vec::new() });
            let warnings =
                loaded.unwrap_or_else(|error| panic!("{}: {error}\n{block}", page.display())).warnings;
            assert!(warnings.is_empty(), "{}: {warnings:?}\n{block}", page.display());
            count += 1;
        }
    }
    assert!(count >= 8, "{count} configurations were read");
}

/// Command lines that are named in passing: inline code, and blocks that nobody runs.
fn named(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for rest in text.split("`codeq ").skip(1) {
        found.extend(rest.split_once('`').map(|(line, _)| format!("codeq {line}")));
    }
    for (block, _) in text.split("```text\n").skip(1).filter_map(|rest| rest.split_once("```")) {
        let block = block.replace("\\\n", " ");
        found.extend(block.lines().filter(|line| line.starts_with("codeq ")).map(str::to_owned));
    }
    // A line break, a placeholder, the page of help itself, a version, and the usage that help prints are no command lines.
    let odd = ["\n", "{}", "...", "codeq help", "codeq COMMAND", "codeq 2", "[OPTIONS]", " <"];
    found.retain(|line| !odd.iter().any(|odd| line.contains(odd)));
    found
}

fn is_understood(cli: &Cli, line: &str) -> bool {
    let binary = Path::new(env!("CARGO_BIN_EXE_codeq")).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.env_clear().env("PATH", path).env("HOME", cli.path("home")).current_dir(cli.path("."));
    // Flags and commands that are not known are refused before help is shown.
    shell.args(["-c", &format!("{line} --help")]).output().expect("sh is there").status.success()
}

/// Documentation, help and advice name commands and flags that there are.
#[test]
fn every_command_line_that_is_named_is_understood() {
    let cli = Cli::new();
    let mut found = vec![Path::new(ROOT).join("README.md"), Path::new(ROOT).join("SECURITY.md")];
    pages(&Path::new(ROOT).join("docs"), &mut found);
    let sources =
        ["client/advice.rs", "client/connection.rs", "task/replay.rs", "doctor/faults.rs", "doctor/auth.rs"];
    found.extend(sources.map(|name| Path::new(ROOT).join("crates/codeq/src").join(name)));
    let (mut seen, mut faults) = (std::collections::BTreeSet::new(), Vec::new());
    for page in found {
        let text =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        for line in named(&text).into_iter().filter(|line| seen.insert(line.clone())) {
            // Some name a flag without its value.
            if !is_understood(&cli, &line) && !is_understood(&cli, &format!("{line} x")) {
                faults.push(format!("{}: {line}", page.display()));
            }
        }
    }
    assert!(seen.len() > 50, "{} lines were found", seen.len());
    assert!(faults.is_empty(), "nobody understands {faults:#?}");
}
