//! The documentation: every command line in it is run, and every link in it leads somewhere.

use super::Cli;
use crate::harness::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn read(page: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The shell lines of a text. The server of the test stands for `codeq dev`.
fn shell_lines(text: &str, server: &Server) -> String {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let lines: String = blocks.map(|(block, _)| format!("{block}\n")).collect();
    lines.replace("\ncodeq dev\n", "\n").replace("http://127.0.0.1:8080", &server.base)
}

/// What the lines of a text print, run as somebody would who pastes them.
fn pasted(name: &str, text: &str) -> String {
    let server = Server::dev();
    let cli = Cli::of(&server);
    let binary = Path::new(env!("CARGO_BIN_EXE_codeq")).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let lines = format!("\n{}", shell_lines(text, &server)).replace("\ncodeq dev\n", "\n");
    assert!(lines.trim().len() > 10, "{name} has command lines");
    let mut shell = Command::new("bash");
    shell.env_clear().env("PATH", path).env("HOME", cli.home.path()).env("CODEQ_BASE_URL", &server.base);
    shell.current_dir(cli.home.path()).stdin(Stdio::null());
    let output = shell.args(["-euo", "pipefail", "-c", &lines]).output().expect("bash is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}\n{lines}\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn page(name: &str) -> String {
    pasted(name, &read(name))
}

#[test]
fn the_first_five_minutes_go_as_told() {
    let said = page("docs/start.md");
    assert!(
        said.contains("[OK] Task created: ") && said.contains("doubled") && said.contains("42"),
        "{said}"
    );
    assert!(said.contains("completed: The task is completed."), "{said}");
}

#[test]
fn dead_letters_are_found_and_replayed_as_told() {
    let said = page("docs/guides/retries.md");
    assert!(said.contains("card_<n> declined"), "{said}");
    assert!(said.contains("[OK] Task replayed: ") && said.contains("requeue"), "{said}");
}

#[test]
fn the_guides_go_as_told() {
    let said = page("docs/guides/idempotency.md");
    assert!(said.contains("READY: 1 |"), "{said}");
    assert!(page("docs/guides/files.md").contains("all is well"));
    let said = page("docs/guides/shell-workers.md");
    assert!(said.contains("resized") && said.contains("Task claimed"), "{said}");
    page("docs/guides/tenants.md");
    let said = page("docs/guides/unique.md");
    assert!(said.contains("READY: 1 | DELAYED: 0"), "{said}");
    let said = page("docs/guides/cancellation.md");
    assert!(said.contains("CANCELLED: not needed") && said.contains("CANCELLED: order withdrawn"), "{said}");
    assert!(
        said.contains("[OK] Task asked to stop: ") && said.contains(r#""reason":"order withdrawn""#),
        "{said}"
    );
    let said = page("docs/guides/limits.md");
    assert!(said.contains(r#""lane":"umbrella""#) && said.contains("The lane is ordered"), "{said}");
    let said = page("docs/guides/schedules.md");
    assert!(said.contains("every 1 s") && said.contains("[OK] Backfilling 7 ticks"), "{said}");
    assert!(page("docs/guides/production.md").contains("producer auth"));
    let said = page("docs/guides/webhooks-in.md");
    assert!(said.contains("READY: 1 |"), "{said}");
    assert!(page("docs/operating/tls.md").contains("the certificate is good until"));
    page("docs/guides/upgrading.md");
}

#[test]
fn who_comes_from_elsewhere_is_led_as_told() {
    for from in ["celery", "bullmq", "sidekiq"] {
        let said = page(&format!("docs/guides/migrating-{from}.md"));
        assert!(said.contains("completed"), "{from}: {said}");
    }
}

/// Starts the receiver of the page, calls it twice as a sender that repeats itself, and once as a forger.
#[test]
fn the_receiver_of_foreign_webhooks_makes_one_task_of_one_event() {
    let text = read("docs/guides/webhooks-in.md");
    let code = text.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```")).expect("code").0;
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

#[test]
fn a_webhook_arrives_as_told() {
    let said = page("docs/webhooks.md");
    assert!(said.contains(r#""eventType":"hook","status":"COMPLETED""#), "{said}");
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
    let page = read("docs/webhooks.md");
    let code = page.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```")).expect("code").0;
    let run = Command::new("python3").args(["-c", &format!("{code}{CHECK}")]).output().expect("python3");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn the_javascript_of_the_webhook_page_verifies_what_it_should() {
    let page = read("docs/webhooks.md");
    let code = page.split_once("```js\n").and_then(|(_, rest)| rest.split_once("```")).expect("code").0;
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

#[test]
fn the_pages_for_operators_go_as_told() {
    for name in ["docs/operating/incidents.md", "docs/reference/configuration.md", "docs/reference/http.md"] {
        page(name);
    }
    let said = page("docs/operating/backup.md");
    assert!(said.contains("no problems"), "{said}");
}

#[test]
fn the_benches_run_as_told() {
    page("docs/operating/sizing.md");
    page("docs/why/benchmarks.md");
    let said = page("docs/operating/scale.md");
    assert!(said.contains("cycle 2x2") && said.contains("idle 2x1"), "{said}");
}

#[test]
fn the_tour_of_the_command_line_goes_as_told() {
    page("docs/cli.md");
}

#[test]
fn the_readme_goes_as_told() {
    let said = page("README.md");
    let causes = said.lines().filter(|line| line.contains("no space left") || line.contains("timed out"));
    assert!(causes.count() >= 2, "{said}");
    assert_eq!(said.matches("[OK] Requeued 5 dead letters").count(), 2, "{said}");
    assert!(said.contains("READY: 0 | DELAYED: 0 | IN_PROGRESS: 0 | DLQ: 0"), "{said}");
}

/// The routes that the page lists are those of the description, no more and no less.
#[test]
fn the_reference_lists_every_route() {
    let described: serde_json::Value =
        serde_json::from_str(&read("crates/api/openapi.json")).expect("the description is JSON");
    let mut routes = Vec::new();
    for (path, item) in described["paths"].as_object().expect("paths") {
        let methods = item.as_object().expect("an item").keys();
        let methods = methods.filter(|name| ["get", "put", "post", "delete"].contains(&name.as_str()));
        routes.extend(methods.map(|method| format!("| {} | `{path}` |", method.to_uppercase())));
    }
    let page = read("docs/reference/http.md");
    let listed: Vec<&str> = page.lines().filter(|line| line.contains(" | `/")).collect();
    for route in &routes {
        assert!(listed.iter().any(|line| line.starts_with(route)), "{route} is not listed");
    }
    assert_eq!(listed.len(), routes.len(), "a route is listed that does not exist");
}

fn pages(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "md") {
            found.push(path);
        }
    }
}

#[test]
fn every_page_is_in_the_book_and_every_link_leads_somewhere() {
    let docs = Path::new(ROOT).join("docs");
    let mut found = Vec::new();
    pages(&docs, &mut found);
    let summary = read("docs/SUMMARY.md");
    for path in &found {
        let name = path.strip_prefix(&docs).expect("inside").to_str().expect("plain");
        // Decisions are for those who work on codeQ; their folder has a page of its own.
        let is_listed = summary.contains(&format!("({name})")) || name.starts_with("decisions/");
        assert!(is_listed || name == "SUMMARY.md", "{name} is not in SUMMARY.md");
    }
    found.push(Path::new(ROOT).join("README.md"));
    for path in &found {
        let text = std::fs::read_to_string(path).expect("a page");
        // Code has brackets of its own.
        let text: String = text.split("```").step_by(2).collect();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let target = path.parent().expect("a directory").join(file);
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
        }
    }
}
