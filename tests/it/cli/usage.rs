//! Help, versions, and what cannot be understood.

use super::Cli;

#[test]
fn without_arguments_there_is_help() {
    let run = Cli::new().run(&[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    for command in
        ["dev", "serve", "init", "auth", "task", "worker", "queue", "dlq", "token", "doctor", "install"]
    {
        assert!(run.stdout.contains(&format!("\n  {command} ")), "{command}: {}", run.stdout);
    }
}

#[test]
fn the_version_is_one_line() {
    assert_eq!(Cli::new().ok(&["--version"]), format!("codeq {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn usage_errors_are_errors_like_any_other() {
    let cli = Cli::new();
    for arguments in [
        &["nonsense"][..],
        &["task", "nonsense"],
        &["task", "get"],
        &["queue", "inspect"],
        &["task", "create", "--nonsense"],
        &["serve", "--base-url", "http://x"],
        &["install", "--target", "moon"],
        &["completions", "tcl"],
    ] {
        cli.fails(arguments);
    }
}

/// Every command, found by walking through the help.
fn commands(cli: &Cli, at: &[&str], found: &mut Vec<Vec<String>>) {
    let help = cli.ok(&[at, &["--help"]].concat());
    found.push(at.iter().map(|&word| word.to_owned()).collect());
    let names =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        commands(cli, &[at, &[name]].concat(), found);
    }
}

#[test]
fn every_command_explains_itself_with_examples() {
    let cli = Cli::new();
    let mut found = Vec::new();
    commands(&cli, &[], &mut found);
    assert!(found.len() > 35, "{found:?}");
    for words in found.iter().filter(|words| words.first().is_none_or(|first| first != "bench")) {
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.push("--help");
        assert!(cli.ok(&words).contains("Example"), "{words:?}");
    }
}

#[test]
fn shells_get_their_completions() {
    let cli = Cli::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = cli.ok(&["completions", shell]);
        assert!(script.contains("codeq") && script.contains("requeue"), "{shell}");
    }
    let script = cli.path("codeq.bash");
    super::write(&script, &cli.ok(&["completions", "bash"]));
    let checked = std::process::Command::new("bash").arg("-n").arg(&script).status();
    assert!(checked.expect("bash is there").success());
}

#[test]
fn health_tells_a_server_from_none() {
    let server = crate::harness::Server::memory();
    let cli = Cli::new();
    assert_eq!(
        cli.ok(&["health", "--url", &format!("{}/readyz", server.base)]),
        "[OK] {\"status\":\"ok\"}\n"
    );
    assert!(cli.fails(&["health", "--url", &format!("{}/nothing", server.base)]).contains("(404)"));
    let base = server.base.clone();
    drop(server);
    assert!(cli.fails(&["health", "--url", &base]).contains("does not answer"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let cli = Cli::new();
    let mut command = cli.command(&["completions", "zsh"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("the binary starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("it was ours").success());
}
