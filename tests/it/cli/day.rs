//! The README's "A day of operations", line by line.

use super::Cli;
use crate::harness::Server;
use std::process::{Command, Stdio};

const README: &str = include_str!("../../../README.md");

/// The shell lines between the heading and the next one.
fn lines() -> String {
    let section = README.split_once("## A day of operations\n").expect("the README has the section").1;
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.map(|(block, _)| block).collect()
}

#[test]
fn the_day_goes_as_the_readme_tells_it() {
    let server = Server::dev();
    let cli = Cli::of(&server);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_codeq")).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell.env_clear().env("PATH", path).env("HOME", cli.home.path()).env("CODEQ_BASE_URL", &server.base);
    shell.current_dir(cli.home.path()).stdin(Stdio::null());
    let output = shell.args(["-euo", "pipefail", "-c", &lines()]).output().expect("bash is there");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    let groups: Vec<&str> =
        said.lines().filter(|line| line.contains("no space left") || line.contains("timed out")).collect();
    assert!(groups.len() >= 2, "{said}");
    for line in [
        "[INFO] Would requeue 5 dead letters of resize",
        "[OK] Requeued 5 dead letters of resize",
        "READY: 0 | DELAYED: 0 | IN_PROGRESS: 0 | DLQ: 0",
    ] {
        assert!(said.lines().any(|found| found == line), "{line} is not in\n{said}\n{errors}");
    }
    assert_eq!(said.matches("[OK] Requeued 5 dead letters").count(), 2, "{said}");
}
