//! The documentation: every command line in it is run, and every link in it leads somewhere.

use super::Cli;
use crate::harness::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

pub fn read(page: &str) -> String {
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
    let said = page("docs/guides/batches.md");
    assert!(said.contains("HELD_SET") && said.contains(r#""state":"closed""#), "{said}");
    let said = page("docs/guides/schedules.md");
    assert!(said.contains("every 1 s") && said.contains("[OK] Backfilling 7 ticks"), "{said}");
    assert!(page("docs/guides/production.md").contains("producer auth"));
    let said = page("docs/guides/webhooks-in.md");
    assert!(said.contains("READY: 1 |"), "{said}");
    assert!(page("docs/operating/tls.md").contains("the certificate is good until"));
    page("docs/guides/upgrading.md");
    let said = page("docs/guides/testing.md");
    assert!(said.contains("READY: 0 | DELAYED: 1") && said.contains("READY: 1 | DELAYED: 0"), "{said}");
}

#[test]
fn who_comes_from_elsewhere_is_led_as_told() {
    for from in &LISTED[..3] {
        let said = page(from);
        assert!(said.contains("completed"), "{from}: {said}");
    }
}

#[test]
fn a_webhook_arrives_as_told() {
    let said = page("docs/webhooks.md");
    assert!(said.contains(r#""eventType":"hook","status":"COMPLETED""#), "{said}");
}

#[test]
fn the_pages_for_operators_go_as_told() {
    for name in &LISTED[3..] {
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

#[test]
fn a_failover_of_redis_goes_as_told() {
    let said = page("docs/operating/kvrocks.md");
    assert_eq!(said.matches("[OK] Task created: ").count(), 2, "{said}");
    assert!(said.contains("READY: 2 |"), "{said}");
}

/// Pages whose lines no test of this file runs, and why.
const NOT_PASTED: [(&str, &str); 6] = [
    ("docs/guides/go-worker.md", "scripts/sdks.sh runs it with a package of this tree"),
    ("docs/guides/python-worker.md", "scripts/sdks.sh runs it with a package of this tree"),
    ("docs/guides/rust-worker.md", "scripts/sdks.sh runs it with a package of this tree"),
    ("docs/guides/typescript-worker.md", "scripts/sdks.sh runs it with a package of this tree"),
    ("docs/operating/deploy.md", "needs Docker, Kubernetes, systemd and root"),
    ("docs/sdk.md", "compiles the examples, which the tests of codeq-client do as well"),
];

/// Pages that tests run from a list.
const LISTED: [&str; 6] = [
    "docs/guides/migrating-celery.md",
    "docs/guides/migrating-bullmq.md",
    "docs/guides/migrating-sidekiq.md",
    "docs/operating/incidents.md",
    "docs/reference/configuration.md",
    "docs/reference/http.md",
];

/// A page with command lines that nobody runs goes wrong unseen.
#[test]
fn every_page_with_command_lines_is_run_or_says_why_not() {
    let own = include_str!("docs.rs");
    let mut found = vec![Path::new(ROOT).join("README.md")];
    pages(&Path::new(ROOT).join("docs"), &mut found);
    for path in found {
        let name = path.strip_prefix(ROOT).expect("inside").to_str().expect("plain");
        let has_lines = std::fs::read_to_string(&path).expect("a page").contains("```sh\n");
        let is_run = own.contains(&format!("page(\"{name}\")")) || LISTED.contains(&name);
        let is_excused = NOT_PASTED.iter().any(|(page, why)| *page == name && !why.is_empty());
        assert!(!has_lines || is_run || is_excused, "no test runs the lines of {name}");
    }
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

/// Print it anew with `codeq reference > docs/reference/cli.md`.
#[test]
fn the_reference_of_the_command_line_is_what_the_command_line_says() {
    let printed = Cli::new().ok(&["reference"]);
    let page = read("docs/reference/cli.md");
    let differs = printed.lines().zip(page.lines()).find(|(now, then)| now != then);
    assert_eq!(differs, None, "print docs/reference/cli.md anew: codeq reference > docs/reference/cli.md");
    assert_eq!(printed.lines().count(), page.lines().count(), "print docs/reference/cli.md anew");
}

pub fn pages(directory: &Path, found: &mut Vec<PathBuf>) {
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
        let is_listed = summary.contains(&format!("({name})"));
        assert!(is_listed || name == "SUMMARY.md", "{name} is not in SUMMARY.md, so it is not in the book");
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
