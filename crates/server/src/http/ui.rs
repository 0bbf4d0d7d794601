//! The dashboard: files in the binary, and what the page has to know before it has a token.

use super::App;
use super::call::Call;
use super::error::Error;
use super::reply;
use crate::config::Oidc;
use axum::body::Body;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::LazyLock;
use url::Url;

/// What the page may do and reach, and how people sign in.
pub struct Dashboard {
    policy: HeaderValue,
    oidc: Option<Oidc>,
}

impl Dashboard {
    pub fn new(oidc: Option<Oidc>) -> Dashboard {
        let urls = oidc.iter().flat_map(|oidc| [Some(&oidc.issuer), oidc.token_url.as_ref()]).flatten();
        let origins: String = urls
            .filter_map(|url| Url::parse(url).ok())
            .map(|url| format!(" {}", url.origin().ascii_serialization()))
            .collect();
        let policy = format!(
            "default-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'{origins}; img-src 'self' \
             data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Dashboard { policy: HeaderValue::from_str(&policy).expect("an origin is plain text"), oidc }
    }
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

struct Asset {
    kind: &'static str,
    text: &'static str,
    etag: HeaderValue,
}

macro_rules! assets {
    ($($name:literal: $kind:expr,)*) => {
        [$(($name, $kind, include_str!(concat!("../../../../dashboard/", $name))),)*]
    };
}

static ASSETS: LazyLock<HashMap<&'static str, Asset>> = LazyLock::new(|| {
    let files = assets! {
        "index.html": HTML,
        "app.css": CSS,
        "parts.css": CSS,
        "icon.svg": SVG,
        "main.js": SCRIPT,
        "api.js": SCRIPT,
        "chart.js": SCRIPT,
        "content.js": SCRIPT,
        "dialog.js": SCRIPT,
        "dom.js": SCRIPT,
        "events.js": SCRIPT,
        "format.js": SCRIPT,
        "oidc.js": SCRIPT,
        "operations.js": SCRIPT,
        "poll.js": SCRIPT,
        "selection.js": SCRIPT,
        "states.js": SCRIPT,
        "table.js": SCRIPT,
        "tasks.js": SCRIPT,
        "theme.js": SCRIPT,
        "views/overview.js": SCRIPT,
        "views/attention.js": SCRIPT,
        "views/history.js": SCRIPT,
        "views/welcome.js": SCRIPT,
        "views/again.js": SCRIPT,
        "views/batches.js": SCRIPT,
        "views/graph.js": SCRIPT,
        "views/queue.js": SCRIPT,
        "views/task.js": SCRIPT,
        "views/telling.js": SCRIPT,
        "views/dead.js": SCRIPT,
        "views/search.js": SCRIPT,
        "views/chips.js": SCRIPT,
        "views/saved.js": SCRIPT,
        "views/tail.js": SCRIPT,
        "views/webhooks.js": SCRIPT,
        "views/policy.js": SCRIPT,
        "views/schedules.js": SCRIPT,
        "views/plan.js": SCRIPT,
        "views/workers.js": SCRIPT,
        "views/audit.js": SCRIPT,
        "views/signin.js": SCRIPT,
        "views/store.js": SCRIPT,
    };
    files.into_iter().map(|(name, kind, text)| (name, Asset { kind, text, etag: etag(text) })).collect()
});

/// Names the content, so that a browser asks again and gets it only when it has changed.
fn etag(text: &str) -> HeaderValue {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let hex: String = digest.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{hex}\"")).expect("hex digits make a header value")
}

/// What the page asks for first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageConfig<'a> {
    version: &'static str,
    /// Only `codeq dev` with its well-known tokens tells one.
    #[serde(skip_serializing_if = "Option::is_none")]
    dev_token: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oidc: Option<PageOidc<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageOidc<'a> {
    issuer: &'a str,
    client_id: &'a str,
    scopes: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_url: Option<&'a str>,
}

impl<'a> PageOidc<'a> {
    fn of(oidc: &'a Oidc) -> PageOidc<'a> {
        PageOidc {
            issuer: &oidc.issuer,
            client_id: &oidc.client_id,
            scopes: &oidc.scopes,
            token_url: oidc.token_url.as_deref(),
        }
    }
}

pub async fn page(call: Call) -> Result<Response, Error> {
    file(&call, "index.html")
}

pub async fn asset(call: Call) -> Result<Response, Error> {
    match call.head.uri.path().strip_prefix("/ui/") {
        Some("config.json") => Ok(config(&call.app)),
        Some(name) if name != "index.html" => file(&call, name),
        _ => Err(Error::route_not_found()),
    }
}

fn config(app: &App) -> Response {
    let oidc = app.dashboard.oidc.as_ref().map(PageOidc::of);
    let body = PageConfig { version: env!("CARGO_PKG_VERSION"), dev_token: app.dev_token, oidc };
    with_headers(app, reply::ok(&body), HeaderValue::from_static("no-store"))
}

fn file(call: &Call, name: &str) -> Result<Response, Error> {
    let asset = ASSETS.get(name).ok_or_else(Error::route_not_found)?;
    let is_known = call.head.headers.get(IF_NONE_MATCH) == Some(&asset.etag);
    let mut response = match is_known {
        true => Response::new(Body::empty()),
        false => reply::with_type(StatusCode::OK, HeaderValue::from_static(asset.kind), asset.text),
    };
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    response.headers_mut().insert(ETAG, asset.etag.clone());
    Ok(with_headers(&call.app, response, HeaderValue::from_static("no-cache")))
}

fn with_headers(app: &App, mut response: Response, cache: HeaderValue) -> Response {
    let same_origin = HeaderName::from_static("cross-origin-opener-policy");
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, app.dashboard.policy.clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(same_origin, HeaderValue::from_static("same-origin"));
    headers.insert(CACHE_CONTROL, cache);
    response
}

/// Who opens the bare address in a browser wants to see something.
pub fn from_root(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let is_browser = matches!(*method, Method::GET | Method::HEAD) && accept.contains("text/html");
    if uri.path() != "/" || !is_browser {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/ui"));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// What a browser fetches at most, before any compression: the bar is for what is sent.
    const ASSET_BYTES: usize = 350_000;

    #[test]
    fn all_assets_together_are_small() {
        let bytes: usize = ASSETS.values().map(|asset| asset.text.len()).sum();
        assert!(bytes < ASSET_BYTES, "{bytes} bytes");
    }

    fn names(directory: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).expect("the dashboard is there") {
            let entry = entry.expect("a file");
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => names(&entry.path(), &format!("{name}/"), found),
                false => found.push(name),
            }
        }
    }

    #[test]
    fn every_file_of_the_dashboard_is_served_and_together_they_are_small() {
        let mut found = Vec::new();
        names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard"), "", &mut found);
        let mut served: Vec<&str> = ASSETS.keys().copied().collect();
        found.sort();
        served.sort_unstable();
        assert_eq!(found, served);
        let bytes: usize = ASSETS.values().map(|asset| asset.text.len()).sum();
        assert!(bytes < 300_000, "{bytes} bytes");
    }
}
