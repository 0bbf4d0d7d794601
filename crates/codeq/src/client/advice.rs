//! Errors in words: what was asked where, and the next step.

use reqwest::Url;
use serde::Deserialize;
use std::io::IsTerminal;

/// The server is there and says no.
#[derive(Debug, thiserror::Error)]
#[error("error ({status}): {}", words(body, std::io::stderr().is_terminal()))]
pub struct Refused {
    pub status: u16,
    pub body: String,
    /// Without its query.
    pub url: String,
    /// Another tenant than the token's was asked for.
    pub has_tenant: bool,
    /// The token was the one of `codeq dev`, because nobody gave one.
    pub is_guessed: bool,
}

/// There was no answer.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach {url}: {cause}")]
pub struct Unreachable {
    pub url: String,
    pub cause: String,
}

/// Nobody gave a token for a server that is not on this machine.
#[derive(Debug, thiserror::Error)]
#[error("token is required (run `codeq auth login` or set token)")]
pub struct NoToken {
    pub base: String,
}

/// A flag that the command cannot do without was not given.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct MissingFlag {
    text: &'static str,
    /// As it is to be written.
    flag: &'static str,
}

impl MissingFlag {
    pub fn new(text: &'static str, flag: &'static str) -> MissingFlag {
        MissingFlag { text, flag }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Body {
    error: String,
    code: String,
}

/// Begins the error of a payload that is no JSON.
pub const NO_PAYLOAD: &str = "invalid payload JSON";
/// What every code means, and what to do about it.
const ERRORS: &str = include_str!("../../../../docs/errors.md");
/// Bytes of a body that is no refusal of ours, such as the page of a proxy, that somebody at a terminal sees.
const FOREIGN_BYTES: usize = 300;

/// The body of a refusal: in words for somebody at a terminal, as it came for a program that reads it.
pub fn words(body: &str, is_terminal: bool) -> String {
    if !is_terminal {
        return body.to_owned();
    }
    let Body { error, code } = serde_json::from_str(body).unwrap_or_default();
    match (error.is_empty(), code.is_empty()) {
        (true, _) => codeq_queue::limits::cut(body.trim(), FOREIGN_BYTES).to_owned(),
        (false, true) => error,
        (false, false) => format!("{error} ({code})"),
    }
}

/// Where a request went, without its query, which may hold a key.
pub fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string().trim_end_matches('/').to_owned()
}

/// The lines below an error: the address, and what to do next.
pub fn advice(error: &anyhow::Error) -> Vec<String> {
    if let Some(NoToken { base }) = error.downcast_ref() {
        return vec![
            format!("server: {base}"),
            "next: pass --producer-token or --worker-token, set CODEQ_PRODUCER_TOKEN, or correct --base-url; \
             see `codeq help connection`"
                .into(),
        ];
    }
    if let Some(MissingFlag { flag, .. }) = error.downcast_ref() {
        return vec![format!("next: add {flag}; --help shows examples")];
    }
    if let Some(Unreachable { cause, .. }) = error.downcast_ref()
        && cause.to_ascii_lowercase().contains("certificate")
    {
        return vec![
            "next: name the file of your authority with SSL_CERT_FILE, or your own certificate with \
             CODEQ_CLIENT_CERTIFICATE if the server asks for one"
                .into(),
        ];
    }
    if error.downcast_ref::<Unreachable>().is_some() {
        return vec![
            "next: start a server with `codeq dev`, or name yours with --base-url or CODEQ_BASE_URL".into(),
        ];
    }
    if error.to_string() == NO_PAYLOAD {
        return vec![
            "next: quote it for the shell, such as --payload '{\"n\":1}', or keep it in a file: --payload @FILE"
                .into(),
        ];
    }
    let Some(refused) = error.downcast_ref::<Refused>() else { return Vec::new() };
    let mut lines = vec![format!("server: {}", refused.url)];
    let next = next_step(refused).map(|next| format!("next: {next}"));
    lines.extend(next.or_else(|| Some(format!("hint: {}", documented(&refused.code())?))));
    lines
}

impl Refused {
    fn code(&self) -> String {
        serde_json::from_str::<Body>(&self.body).unwrap_or_default().code
    }
}

/// What the page about errors says about a code, in its last column.
fn documented(code: &str) -> Option<String> {
    let has_code = |line: &&str| !code.is_empty() && line.contains(&format!("| `{code}` |"));
    let row = ERRORS.lines().find(has_code)?;
    let cell = row.trim_end_matches([' ', '|']).rsplit(" | ").next()?;
    let is_news = !cell.starts_with("See the ");
    is_news.then(|| without_links(cell))
}

/// `[text](address)` as `text`.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((name, after)) = link.split_once("](") else { break };
        let Some((_, after)) = after.split_once(')') else { break };
        plain += before;
        plain += name;
        rest = after;
    }
    plain + rest
}

fn next_step(refused: &Refused) -> Option<String> {
    let code = refused.code();
    let step = match (refused.status, code.as_str()) {
        (401, _) if refused.is_guessed => {
            "no token was given, so `dev-token` was sent, and only `codeq dev` accepts that one: \
             pass --producer-token, or run `codeq auth set`"
        }
        (401, _) => {
            "the token is expired, malformed or of another server: run `codeq auth login` or `codeq auth set`"
        }
        (403, _) => return Some(missing_right(refused)),
        (404, "result_not_found") => {
            "the task has no result yet; wait for it with `codeq task result ID --wait 30`"
        }
        (404, "task_not_found" | "not_found") if refused.url.contains("/tasks/") => {
            "the task never existed, has expired, was deleted, or belongs to another tenant: see `codeq task list`"
        }
        (404, "delivery_not_found") => {
            "only failed callbacks can be delivered again: see `codeq webhook list --state failed`"
        }
        (404, "") => "this may not be a codeQ server, or an older one: check --base-url",
        (409, "already_terminal") => "the task has already ended: see `codeq task explain ID`",
        (409, _) if refused.url.contains("/tasks/") => "see where the task is: `codeq task explain ID`",
        (429, _) => "too many requests; try again in a moment",
        (500.., _) => "the server is not well: see `codeq health` and its log",
        _ => return None,
    };
    Some(step.into())
}

fn missing_right(refused: &Refused) -> String {
    let needed = match &refused.url {
        url if url.ends_with("/admin/backup") => {
            "a backup holds every tenant, so the token needs the scope codeq:operator"
        }
        _ if refused.has_tenant => "other tenants need a token with the scope codeq:operator",
        url if url.contains("/admin/") => "the token needs role ADMIN or the scope codeq:admin",
        _ => "the token lacks the right for this command",
    };
    format!("{needed}; see `codeq token mint --help`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, path: &str, code: &str) -> anyhow::Error {
        let body = format!(r#"{{"error":"x","code":"{code}"}}"#);
        let url = format!("http://h/v1/codeq{path}");
        Refused { status, body, url, has_tenant: false, is_guessed: false }.into()
    }

    #[test]
    fn a_refusal_is_told_in_words_to_people_and_as_it_came_to_programs() {
        let body = r#"{"error":"task not found","code":"not_found"}"#;
        assert_eq!(words(body, true), "task not found (not_found)");
        assert_eq!(words(r#"{"error":"token is malformed"}"#, true), "token is malformed");
        assert_eq!(words("<html>\n", true), "<html>");
        assert_eq!(words(&"x".repeat(9999), true).len(), FOREIGN_BYTES);
        assert_eq!(words(body, false), body);
    }

    #[test]
    fn every_refusal_names_the_server_and_most_a_next_step() {
        for (error, wanted) in [
            (refused(403, "/admin/backup", ""), "codeq:operator"),
            (refused(403, "/admin/queues", ""), "codeq:admin"),
            (refused(404, "/tasks/x/result", "result_not_found"), "--wait 30"),
            (refused(404, "/tasks/x/result", "task_not_found"), "never existed"),
            (refused(400, "/tasks", "invalid_command"), "hint: 1 to 128 characters of"),
            (refused(404, "/admin/queues/x/policy", "policy_not_found"), "hint: 404. Nothing restricts"),
            (refused(404, "/tasks/x", "not_found"), "never existed"),
            (refused(409, "/admin/tasks/x/cancel", "already_terminal"), "already ended"),
            (refused(503, "/tasks", ""), "codeq health"),
        ] {
            let lines = advice(&error);
            assert!(lines[0].starts_with("server: http://h/"), "{lines:?}");
            assert!(lines[1].contains(wanted), "{lines:?}");
        }
        assert_eq!(advice(&refused(400, "/tasks", "invalid_filter")).len(), 1, "the text says it all");
        assert_eq!(without_links("See [fair](concepts.md#a) and [b] (c)."), "See fair and [b] (c).");
        assert!(advice(&anyhow::anyhow!("anything else")).is_empty());
    }
}
