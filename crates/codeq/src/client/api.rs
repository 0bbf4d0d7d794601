//! One request and its answer.

use anyhow::{Context, bail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, Method, RequestBuilder, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// How long a request may take, not counting what it was asked to wait.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What a path segment or a query value may hold as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'*');

/// The server is there and says no.
#[derive(Debug, thiserror::Error)]
#[error("error ({status}): {body}")]
pub struct Refused {
    pub status: u16,
    pub body: String,
}

/// The HTTP API of one server.
#[derive(Clone)]
pub struct Api {
    client: Client,
    base: String,
    token: String,
}

/// A path of segments, each written so that it stays one.
pub fn path(segments: &[&str]) -> String {
    segments.iter().map(|segment| format!("/{}", encoded(segment))).collect()
}

pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// A client for this address. It follows no redirects: a token is for one server only.
pub fn http_client(url: &str) -> anyhow::Result<Client> {
    let parsed = Url::parse(url).with_context(|| format!("{url} is not a URL"))?;
    if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
        bail!("{url} is not an http or https URL");
    }
    let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    // Plain HTTP must also work where no system certificates are installed.
    let client = if parsed.scheme() == "http" { client.tls_certs_only([]) } else { client };
    client.build().context("cannot make an HTTP client")
}

impl Api {
    pub fn new(base: &str, token: &str) -> anyhow::Result<Api> {
        Ok(Api { client: http_client(base)?, base: base.to_owned(), token: token.to_owned() })
    }

    /// A request under `/v1/codeq`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}/v1/codeq{path}", self.base));
        request.bearer_auth(&self.token).timeout(TIMEOUT)
    }

    /// The body of a page outside of the API.
    pub async fn page(&self, path: &str) -> anyhow::Result<String> {
        text(self.client.get(format!("{}{path}", self.base)).timeout(TIMEOUT)).await
    }

    pub async fn get_text(&self, path: &str) -> anyhow::Result<String> {
        text(self.request(Method::GET, path)).await
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        read(&self.get_text(path).await?)
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> anyhow::Result<T> {
        read(&text(self.request(Method::POST, path).body(body.to_string())).await?)
    }

    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        read(&text(self.request(Method::DELETE, path)).await?)
    }

    /// The answer of a call that may be asked to wait: its status and its body, whatever they are.
    pub async fn wait(&self, path: &str, body: &Value, wait: Duration) -> anyhow::Result<(u16, String)> {
        let request = self.request(Method::POST, path).timeout(TIMEOUT + wait);
        answer(request.body(body.to_string())).await
    }
}

pub fn read<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    serde_json::from_str(text).with_context(|| format!("unreadable answer {text:?}"))
}

/// The body of an answer that is not an error.
pub async fn text(request: RequestBuilder) -> anyhow::Result<String> {
    match answer(request).await? {
        (200..300, body) => Ok(body),
        (status, body) => bail!(Refused { status, body }),
    }
}

pub async fn answer(request: RequestBuilder) -> anyhow::Result<(u16, String)> {
    let response = request.send().await.map_err(plain)?;
    let status = response.status().as_u16();
    Ok((status, response.text().await.map_err(plain)?.trim_end().to_owned()))
}

/// The URL may hold a key, and the causes say what happened.
fn plain(error: reqwest::Error) -> anyhow::Error {
    anyhow::Error::new(error.without_url())
}
