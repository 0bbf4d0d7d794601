//! The profile file: what is written, who may read it, and what wins over it.

use super::stand_in::StandIn;
use super::{Cli, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const NO_TOKEN: &str = "[ERROR] token is required (run `codeq auth login` or set token)";

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn init_writes_a_profile_for_its_owner_only() {
    let cli = Cli::new();
    let said = cli.ok(&["init", "--no-prompt", "--base-url", "https://q.example.com", "--iam-api-key", "k"]);
    let file = cli.path(".codeq/config.yaml");
    assert_eq!(said, format!("[OK] Initialized profile 'default' at {}\n", file.display()));
    assert_eq!((mode(&file), mode(&cli.path(".codeq"))), (0o600, 0o700));
    let text = std::fs::read_to_string(&file).expect("it is there");
    for line in [
        "currentProfile: default",
        "baseUrl: https://q.example.com",
        "iamApiKey: k",
        "method: POST",
        "contentType: application/json",
        "tokenPath: idToken",
        "tokenPath: accessToken",
        "audience: codeq-producer",
    ] {
        assert!(text.lines().any(|found| found.trim() == line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_directory_can_be_chosen_and_other_profiles_are_kept() {
    let cli = Cli::new();
    let directory = cli.path("elsewhere");
    let cli = cli.with("CODEQ_CONFIG_DIR", directory.to_str().expect("plain"));
    cli.ok(&["init", "--no-prompt", "--base-url", "http://a.example.com"]);
    let said = cli.ok(&["init", "--no-prompt", "--profile", "b", "--base-url", "http://b.example.com"]);
    assert!(said.contains("'b'") && said.contains("elsewhere/config.yaml"), "{said}");
    assert!(cli.ok(&["auth", "show"]).contains("• Base URL: http://b.example.com\n"));
    let first = cli.ok(&["--profile", "default", "auth", "show"]);
    assert!(
        first.starts_with("codeq Profile: default\n") && first.contains("http://a.example.com"),
        "{first}"
    );
}

#[test]
fn a_directory_that_others_use_keeps_its_permissions() {
    let cli = Cli::new();
    let directory = cli.path("shared");
    std::fs::create_dir(&directory).expect("the home is ours");
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    write(&directory.join("other"), "");
    let cli = cli.with("CODEQ_CONFIG_DIR", directory.to_str().expect("plain"));
    cli.ok(&["init", "--no-prompt"]);
    assert_eq!((mode(&directory), mode(&directory.join("config.yaml"))), (0o755, 0o600));
}

#[test]
fn tokens_are_set_shown_shortened_and_cleared() {
    let cli = Cli::new();
    let wanted = "[ERROR] provide --producer-token and/or --worker-token (or --admin)";
    assert_eq!(cli.fails(&["auth", "set"]), wanted);
    let said = cli.ok(&["auth", "set", "--producer-token", "abcdefghijkl"]);
    assert_eq!(said, "[OK] Credentials updated for 'default'\n");
    let shown = cli.ok(&["auth", "show"]);
    let expected = "codeq Profile: default\n• Base URL: http://localhost:8080\n• IAM URL: <unset>\n\
        • API Key: <unset>\n• Login URL: <unset>\n• Token Path: idToken\n• Exchange URL: <unset>\n\
        • Exchange Token Path: accessToken\n• Audience: codeq-producer\n• Token: abcd...ijkl\n• Admin: false\n";
    assert_eq!(shown, expected);
    cli.ok(&["auth", "set", "--worker-token", "12345678", "--admin"]);
    let shown = cli.ok(&["auth", "show"]);
    assert!(shown.contains("• Token: ****\n") && shown.contains("• Admin: true\n"), "{shown}");
    assert!(shown.ends_with("• Producer Token: abcd...ijkl\n• Worker Token: ****\n"), "{shown}");
    assert_eq!(cli.ok(&["auth", "clear", "--worker"]), "[OK] Tokens cleared for 'default'\n");
    assert!(cli.ok(&["auth", "show"]).contains("• Token: abcd...ijkl\n"));
    cli.ok(&["auth", "clear"]);
    assert!(cli.ok(&["auth", "show"]).contains("• Token: <unset>\n"));
}

/// The token that a `task get` with these arguments and this environment sends.
fn token_sent(cli: &Cli, server: &StandIn, arguments: &[&str]) -> String {
    cli.ok(&[&["task", "get", "x"], arguments].concat());
    let asked = server.asked();
    asked.last().expect("it was asked").authorization.trim_start_matches("Bearer ").to_owned()
}

#[test]
fn a_flag_wins_over_the_environment_over_the_profile_over_the_default() {
    let server = StandIn::start(|_| (200, "{}".into()));
    let cli = Cli::at(&server.base);
    assert_eq!(token_sent(&cli, &server, &[]), "dev-token");
    cli.ok(&["auth", "set", "--worker-token", "of-worker"]);
    assert_eq!(token_sent(&cli, &server, &[]), "of-worker");
    cli.ok(&["auth", "set", "--producer-token", "of-profile"]);
    assert_eq!(token_sent(&cli, &server, &[]), "of-profile");
    let cli = cli.with("CODEQ_PRODUCER_TOKEN", "of-environment");
    assert_eq!(token_sent(&cli, &server, &[]), "of-environment");
    assert_eq!(token_sent(&cli, &server, &["--producer-token", "of-flag"]), "of-flag");
    // In front of the command as well.
    cli.ok(&["--producer-token", "in-front", "task", "get", "x"]);
    assert_eq!(server.asked().last().expect("asked").authorization, "Bearer in-front");
}

#[test]
fn a_blank_variable_says_nothing() {
    let server = StandIn::start(|_| (200, "{}".into()));
    let cli = Cli::at(&server.base).with("CODEQ_PRODUCER_TOKEN", "");
    assert_eq!(token_sent(&cli, &server, &[]), "dev-token");
}

#[test]
fn a_remote_server_gets_no_token_that_nobody_gave() {
    let cli = Cli::at("http://codeq.invalid");
    for arguments in [&["task", "get", "x"][..], &["worker", "start", "--events", "x"]] {
        let said = cli.fails(arguments);
        assert_eq!(said.lines().next(), Some(NO_TOKEN));
        assert!(said.contains("server: http://codeq.invalid") && said.contains("next: "), "{said}");
    }
}

/// `localhost:8080` was taken for a URL of the scheme `localhost`, and answered with "token is required".
#[test]
fn an_address_without_a_scheme_is_understood_or_told() {
    let server = StandIn::start(|_| (200, "{}".into()));
    let bare = server.base.trim_start_matches("http://").to_owned();
    assert_eq!(Cli::at(&bare).ok(&["task", "get", "x"]), "{}\n");
    let said = Cli::at("codeq.example.com:8080").fails(&["task", "get", "x"]);
    assert!(said.contains("write it as https://HOST or http://HOST"), "{said}");
}

#[test]
fn a_broken_profile_file_is_named() {
    let cli = Cli::new();
    std::fs::create_dir(cli.path(".codeq")).expect("the home is ours");
    write(&cli.path(".codeq/config.yaml"), "profiles: [");
    assert!(cli.fails(&["auth", "show"]).contains("config.yaml"));
}
