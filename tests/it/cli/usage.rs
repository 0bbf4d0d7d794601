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
    for words in &found {
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.push("--help");
        let help = cli.ok(&words);
        assert!(help.contains("Example"), "{words:?}");
        let lines: Vec<&str> = help.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0].starts_with("--")) {
            let is_explained = pair[0].contains("  ") || !pair[1].is_empty();
            assert!(is_explained, "{words:?}: {} has no text", pair[0]);
        }
        for odd in ["so many", "So many", "unless told", "Whom", "anew", "who works", " is none", "--event "]
        {
            assert!(!help.contains(odd), "{words:?}: {odd:?} is not plain English");
        }
    }
}

/// Commands that print no data, or none but JSON.
const WITHOUT_JSON: [&str; 11] = [
    "auth clear",
    "auth login",
    "auth set",
    "completions",
    "dev",
    "init",
    "install",
    "serve",
    "store accept",
    "token jwks",
    "top",
];

#[test]
fn every_other_command_takes_json() {
    let cli = Cli::new();
    let mut found = Vec::new();
    commands(&cli, &[], &mut found);
    let is_group =
        |words: &[String]| found.iter().any(|other| other.len() > words.len() && other.starts_with(words));
    let mut without = Vec::new();
    for words in found.iter().filter(|words| !is_group(words)) {
        // A flag that is not known is refused before help is shown.
        let asked: Vec<&str> = words.iter().map(String::as_str).chain(["--json", "--help"]).collect();
        if cli.run(&asked).code != Some(0) {
            without.push(words.join(" "));
        }
    }
    without.sort_unstable();
    assert_eq!(without, WITHOUT_JSON);
}

/// Every example of every help, as somebody would paste it; help instead of the deed.
#[test]
fn examples_of_help_are_understood() {
    let cli = Cli::new();
    let mut found = Vec::new();
    commands(&cli, &[], &mut found);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_codeq")).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut faults = Vec::new();
    for words in &found {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = cli.ok(&words);
        let examples = help.split_once("\nExample").map_or("", |(_, examples)| examples);
        for line in examples.lines().map(str::trim).filter(|line| line.contains("codeq ")) {
            let mut shell = std::process::Command::new("bash");
            shell.env_clear().env("PATH", &path).env("HOME", cli.home.path()).current_dir(cli.home.path());
            // What happens to the output is the shell's part.
            let line = [" | cat", " | gzip", " > "]
                .iter()
                .fold(line, |line, rest| line.split(rest).next().unwrap_or(line));
            let run = shell.args(["-c", &format!("{line} --help")]).output().expect("bash is there");
            if !run.status.success() {
                faults.push(format!("{line}: {}", String::from_utf8_lossy(&run.stderr)));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn flags_of_the_connection_are_explained_once() {
    let cli = Cli::new();
    let page = cli.ok(&["help", "connection"]);
    assert_eq!(cli.ok(&["connection"]), page);
    for flag in ["--base-url", "CODEQ_WORKER_TOKEN", "NO_COLOR", "config.yaml"] {
        assert!(page.contains(flag), "{flag}: {page}");
    }
    for words in [&["task", "list"][..], &["backup"], &["queue", "watch"], &["events"]] {
        let help = cli.ok(&[words, &["--help"]].concat());
        assert!(!help.contains("--iam-api-key"), "{words:?}: {help}");
    }
    assert!(cli.ok(&["init", "--help"]).contains("--iam-api-key"));
    assert!(cli.ok(&["--help"]).contains("--base-url"));
}

/// The flags of some commands were listed as flags of the connection.
#[test]
fn every_flag_stands_under_its_own_heading() {
    let cli = Cli::new();
    for (words, wanted) in [
        ("backup", &["--to <TO>", "--rate"][..]),
        ("task create", &["--json", "--batch"]),
        ("task list", &["--json", "--limit", "--payload-contains"]),
        ("task cancel", &["--json", "--rate", "--dry-run"]),
        ("export", &["--json", "--to <FILE>"]),
    ] {
        let words: Vec<&str> = words.split(' ').chain(["--help"]).collect();
        let help = cli.ok(&words);
        let options = help.split_once("\nOptions:\n").expect("a heading").1;
        let own: String =
            options.lines().take_while(|line| line.is_empty() || line.starts_with(' ')).collect();
        for flag in wanted {
            assert!(own.contains(flag), "{words:?}: {flag} is not among {own}");
        }
    }
}

#[test]
fn a_slip_is_answered_with_what_was_meant() {
    let cli = Cli::new();
    assert!(cli.fails(&["taks"]).contains("'task'"));
    assert!(cli.fails(&["task", "create", "--comand", "x"]).contains("'--command'"));
    let said = cli.fails(&["dlq", "requeue", "demo", "--filter", "eror=x"]);
    assert!(said.contains("did you mean \"error\"?"), "{said}");
}

/// One thing had four names: --event, --events, --command and EVENT.
#[test]
fn a_command_is_named_the_same_way_everywhere() {
    let server = crate::harness::Server::memory();
    let cli = Cli::of(&server);
    for flag in ["--command", "--event"] {
        cli.create(&[flag, "demo", "--payload", "1"]);
    }
    let counts = "READY: 2 | DELAYED: 0 | IN_PROGRESS: 0 | DLQ: 0\n";
    for arguments in [&["queue", "inspect", "demo"][..], &["queue", "inspect", "--command", "demo"]] {
        assert_eq!(cli.ok(arguments), counts);
    }
    assert_eq!(cli.ok(&["dlq", "groups", "--command", "demo"]), "no dead letters\n");
    assert!(cli.ok(&["queue", "pause", "--command", "demo"]).starts_with("[OK] Paused demo"));
    let all =
        ["task create", "task list", "queue inspect", "dlq list", "worker run", "worker start", "token mint"];
    for words in all.map(|words| words.split(' ').collect::<Vec<_>>()) {
        let help = cli.ok(&[&words[..], &["--help"]].concat());
        let words = help.split_whitespace().filter(|word| word.contains("event")).collect::<Vec<_>>();
        assert!(help.to_lowercase().contains("command") && words.is_empty(), "{words:?}: {help}");
    }
}

/// Whatever prints data prints it for programs as well.
#[test]
fn every_command_that_prints_data_speaks_json() {
    let server = crate::harness::Server::memory();
    let cli = Cli::of(&server);
    let json = |arguments: &[&str]| -> serde_json::Value {
        let said = cli.ok(arguments);
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{arguments:?}: {said}"))
    };
    let made = json(&["task", "create", "--command", "demo", "--payload", "[1]", "--json"]);
    let id = made["id"].as_str().expect("an id");
    assert_eq!(json(&["task", "get", id, "--json"])["id"], id);
    assert_eq!(json(&["queue", "inspect", "demo", "--json"])["ready"], 1);
    assert_eq!(json(&["queue", "pause", "demo", "--json"])["paused"], true);
    assert_eq!(json(&["queue", "resume", "demo", "--json"])["paused"], false);
    assert_eq!(json(&["queue", "watch", "--count", "1", "--json"])[0]["command"], "demo");
    assert_eq!(json(&["task", "explain", id, "--json"])["state"], "ready");
    assert_eq!(json(&["task", "attempts", id, "--json"]), serde_json::json!([]));
    assert_eq!(json(&["webhook", "list", "--json"]), serde_json::json!([]));
    assert_eq!(json(&["operation", "list", "--json"]), serde_json::json!([]));
    assert_eq!(json(&["dlq", "groups", "--json"]), serde_json::json!([]));
    let health = json(&["health", "--url", &format!("{}/readyz", server.base), "--json"]);
    assert_eq!(health["ok"], true);
    assert_eq!(json(&["auth", "show", "--json"])["settings"]["baseUrl"], server.base.as_str());
    assert!(json(&["token", "keygen", "--json"])["kid"].is_string());
    assert!(json(&["token", "mint", "--tenant", "acme", "--json"])["token"].is_string());
}

#[test]
fn colours_can_be_turned_off() {
    let server = crate::harness::Server::memory();
    let cli = Cli::of(&server);
    let create = format!("{} task create --command demo --payload 1", env!("CARGO_BIN_EXE_codeq"));
    let said = |no_color: &str| {
        let mut command = std::process::Command::new("script");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", cli.home.path()).env("CODEQ_BASE_URL", &server.base).env("NO_COLOR", no_color);
        let output = command.args(["-qec", &create, "/dev/null"]).stdin(std::process::Stdio::null()).output();
        String::from_utf8(output.expect("script is there").stdout).expect("UTF-8")
    };
    assert!(said("").contains("\u{1b}[32m[OK]"));
    assert!(said("1").starts_with("[OK] Task created: "));
}

/// People read words; a program that reads the error gets the body as the server sent it.
#[test]
fn a_refusal_is_told_in_words_at_a_terminal() {
    let server = crate::harness::Server::memory();
    let cli = Cli::of(&server);
    let get = format!("{} task get 00000000-0000-4000-8000-000000000000", env!("CARGO_BIN_EXE_codeq"));
    let mut command = std::process::Command::new("script");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", cli.home.path()).env("CODEQ_BASE_URL", &server.base).env("NO_COLOR", "1");
    let output = command.args(["-qec", &get, "/dev/null"]).stdin(std::process::Stdio::null()).output();
    let said = String::from_utf8(output.expect("script is there").stdout).expect("UTF-8");
    assert!(said.starts_with("[ERROR] error (404): not found"), "{said}");
    assert!(!said.contains('{') && said.contains("next: ") && said.contains(&server.base), "{said}");
    assert!(cli.fails(&["task", "get", "x"]).contains(r#"{"error":"#));
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
