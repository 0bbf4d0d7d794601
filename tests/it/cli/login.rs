//! `codeq auth login` against an identity provider that the test plays.

use super::Cli;
use super::stand_in::{Asked, StandIn};
use serde_json::json;

/// Signs Ann in, and exchanges her token.
fn provider() -> StandIn {
    StandIn::start(|asked: &Asked| match asked.path.split('?').next() {
        Some("/iam/signInWithPassword") if asked.json()["password"] == "s3\"cret" => {
            (200, json!({"idToken": "id-of-ann"}).to_string())
        }
        Some("/iam/signInWithPassword") => (400, r#"{"error":"INVALID_PASSWORD"}"#.into()),
        Some("/iam/token/exchange") if asked.json()["tenantId"] == "closed" => (403, "no such tenant".into()),
        Some("/iam/token/exchange") => (200, json!({"accessToken": "access-of-ann"}).to_string()),
        Some("/custom") => (200, json!({"data": {"tokens": ["deep-token"]}}).to_string()),
        _ => (404, "?".into()),
    })
}

fn cli(provider: &StandIn) -> Cli {
    Cli::new().with("CODEQ_IAM_BASE_URL", &format!("{}/iam", provider.base)).with("CODEQ_IAM_API_KEY", "k&1")
}

const ANN: [&str; 7] =
    ["auth", "login", "--email", "Ann@Example.com", "--password", "s3\"cret", "--no-prompt"];

#[test]
fn a_password_becomes_a_token_for_codeq() {
    let provider = provider();
    let cli = cli(&provider);
    let more = ["--tenant-id", "acme", "--scope", "codeq:admin", "--scope", "x"];
    let said = cli.ok(&[&ANN[..], &more].concat());
    assert_eq!(said, "[OK] Logged in. Token stored for 'ann_example_com'\n");
    let asked = provider.asked();
    assert_eq!((&*asked[0].method, &*asked[0].path), ("POST", "/iam/signInWithPassword?key=k%261"));
    assert_eq!(asked[0].json(), json!({"email": "Ann@Example.com", "password": "s3\"cret"}));
    assert_eq!(asked[1].path, "/iam/token/exchange?key=k%261");
    let wanted = json!({
        "idToken": "id-of-ann", "audience": "codeq-producer", "tenantId": "acme", "scopes": ["codeq:admin", "x"],
    });
    assert_eq!(asked[1].json(), wanted);
    let file = std::fs::read_to_string(cli.path(".codeq/config.yaml")).expect("it is kept");
    assert_eq!(file.matches("oken: access-of-ann").count(), 2, "{file}");
    assert!(!file.contains("s3\"cret") && file.contains("currentProfile: ann_example_com"), "{file}");
    assert!(cli.ok(&["auth", "show"]).contains("• Token: acce...-ann\n"));
}

#[test]
fn what_the_provider_says_is_passed_on() {
    let provider = provider();
    let cli = cli(&provider);
    let wrong = ["auth", "login", "--email", "a@b.c", "--password", "x", "--no-prompt"];
    assert_eq!(cli.fails(&wrong), r#"[ERROR] login failed (400): {"error":"INVALID_PASSWORD"}"#);
    let closed = cli.fails(&[&ANN[..], &["--tenant-id", "closed"]].concat());
    assert_eq!(closed, "[ERROR] token exchange failed (403): no such tenant");
    let nowhere = cli.fails(&[&ANN[..], &["--token-path", "a.b"]].concat());
    assert_eq!(nowhere, "[ERROR] token path not found");
    assert!(!cli.path(".codeq").exists(), "nothing is kept of what failed");
}

#[test]
fn any_provider_can_be_described() {
    let provider = provider();
    let url = format!("{}/custom?u={{{{email}}}}", provider.base);
    let said = Cli::new().ok(&[
        &ANN[..],
        &["--login-url", &url, "--method", "put", "--content-type", "application/x-www-form-urlencoded"],
        &["--payload", "p={{password}}", "--token-path", "data.tokens.0", "--header", "X-Key: v"],
        &["--no-exchange", "--save=false"],
    ]
    .concat());
    assert_eq!(said, "deep-token\n");
    let asked = &provider.asked()[0];
    assert_eq!((&*asked.method, &*asked.path), ("PUT", "/custom?u=Ann%40Example.com"));
    assert_eq!(asked.body, "p=s3%22cret");
    assert!(asked.headers.iter().any(|header| header.eq_ignore_ascii_case("x-key: v")), "{asked:?}");
}

#[test]
fn what_is_missing_is_named() {
    let cli = Cli::new();
    let login = ["auth", "login", "--no-prompt"];
    assert_eq!(cli.fails(&login), "[ERROR] email is required");
    assert_eq!(cli.fails(&[&login[..], &["--email", "a@b.c"]].concat()), "[ERROR] password is required");
    assert!(cli.fails(&ANN).starts_with("[ERROR] iam base url is required"));
}

#[test]
fn the_profile_can_be_named_and_keeps_its_server() {
    let provider = provider();
    let cli = cli(&provider);
    cli.ok(&["init", "--no-prompt", "--base-url", "https://q.example.com"]);
    let said = cli.ok(&[&ANN[..], &["--profile", "work"]].concat());
    assert_eq!(said, "[OK] Logged in. Token stored for 'work'\n");
    let shown = cli.ok(&["auth", "show"]);
    assert!(shown.starts_with("codeq Profile: work\n• Base URL: https://q.example.com\n"), "{shown}");
}

/// A pipe is not a terminal, and was not read: a script that piped its password got "password is required".
#[test]
fn a_password_and_the_answers_of_init_come_through_a_pipe() {
    let provider = provider();
    let cli = cli(&provider);
    let said = cli.piped(&["auth", "login", "--email", "Ann@Example.com"], "s3\"cret\n");
    assert_eq!(said, "[OK] Logged in. Token stored for 'ann_example_com'\n");
    let bare = Cli::new();
    bare.piped(&["init"], "https://q.example.com\nhttps://iam.example.com/v1\n12345678-key\n");
    let shown = bare.ok(&["auth", "show"]);
    assert!(shown.contains("• Base URL: https://q.example.com\n"), "{shown}");
    assert!(
        shown.contains("• Login URL: https://iam.example.com/v1/signInWithPassword?key=1234...-key\n"),
        "{shown}"
    );
    assert!(
        shown.contains("• Exchange URL: https://iam.example.com/v1/token/exchange?key=1234...-key\n"),
        "{shown}"
    );
}
