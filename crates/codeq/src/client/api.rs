//! One request and its answer.

use super::advice::{Refused, Unreachable, address};
use anyhow::{Context, bail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// How long a request may take, not counting what it was asked to wait.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What a path segment or a query value may hold as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'*');

/// The HTTP API of one server.
#[derive(Clone)]
pub struct Api {
    client: Client,
    base: String,
    token: String,
    /// Nobody gave a token, so the one of `codeq dev` is sent.
    is_guessed: bool,
}

/// Names a PEM file with a certificate and its key, for servers that ask callers for one.
const CLIENT_CERTIFICATE: &str = "CODEQ_CLIENT_CERTIFICATE";

/// A path of segments, each written so that it stays one.
pub fn path(segments: &[&str]) -> String {
    segments.iter().map(|segment| format!("/{}", encoded(segment))).collect()
}

pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// A client for this address. It follows no redirects: a token is for one server only.
pub fn http_client(url: &str) -> anyhow::Result<Client> {
    let Ok(parsed) = Url::parse(url) else {
        bail!("{url} is not a URL; write it as https://HOST or http://HOST")
    };
    if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
        bail!("{url} is not an http or https URL; write it as https://HOST or http://HOST");
    }
    // Plain HTTP must also work where no system certificates are installed.
    let client = match parsed.scheme() {
        "http" => plain_client().tls_certs_only([]),
        _ => with_certificate(plain_client())?,
    };
    client.build().context("cannot make an HTTP client")
}

/// A client that takes any certificate: to ask this machine whether a server runs, and for nothing else.
pub fn unchecked_client() -> anyhow::Result<Client> {
    let client = with_certificate(plain_client())?.tls_danger_accept_invalid_certs(true);
    client.build().context("cannot make an HTTP client")
}

fn plain_client() -> ClientBuilder {
    Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none())
}

/// Shows the certificate of the user, if there is one.
fn with_certificate(client: ClientBuilder) -> anyhow::Result<ClientBuilder> {
    let Some(file) = std::env::var_os(CLIENT_CERTIFICATE).filter(|file| !file.is_empty()) else {
        return Ok(client);
    };
    let context = || format!("{CLIENT_CERTIFICATE}: {}", file.display());
    let pem = std::fs::read(&file).with_context(context)?;
    Ok(client.identity(reqwest::Identity::from_pem(&pem).with_context(context)?))
}

impl Api {
    pub fn new(base: &str, token: &str, is_guessed: bool) -> anyhow::Result<Api> {
        let (base, token) = (base.to_owned(), token.to_owned());
        Ok(Api { client: http_client(&base)?, base, token, is_guessed })
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// A request under `/v1/codeq`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}/v1/codeq{path}", self.base));
        request.bearer_auth(&self.token).timeout(TIMEOUT)
    }

    /// The body of a page outside of the API.
    pub async fn page(&self, path: &str) -> anyhow::Result<String> {
        self.text(self.client.get(format!("{}{path}", self.base)).timeout(TIMEOUT)).await
    }

    pub async fn get_text(&self, path: &str) -> anyhow::Result<String> {
        self.text(self.request(Method::GET, path)).await
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        read(&self.get_text(path).await?)
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> anyhow::Result<T> {
        read(&self.post_text(path, body.to_string()).await?)
    }

    pub async fn post_text(&self, path: &str, body: String) -> anyhow::Result<String> {
        self.text(self.request(Method::POST, path).body(body)).await
    }

    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        read(&self.text(self.request(Method::DELETE, path)).await?)
    }

    /// The body of an answer that is not an error; the request may be asked to wait.
    pub async fn get_waiting(&self, path: &str, wait: Duration) -> anyhow::Result<String> {
        self.text(self.request(Method::GET, path).timeout(TIMEOUT + wait)).await
    }

    /// The answer of a call that may be asked to wait: its status and its body, whatever they are.
    pub async fn wait(&self, path: &str, body: &Value, wait: Duration) -> anyhow::Result<(u16, String)> {
        let request = self.request(Method::POST, path).timeout(TIMEOUT + wait);
        answer(request.body(body.to_string())).await
    }

    /// Whether the server is there and takes the token: it is asked for a task that cannot exist.
    pub async fn check(&self) -> anyhow::Result<()> {
        match self.get_text("/tasks/00000000-0000-4000-8000-000000000000").await {
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.status == 404) => {
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// The body of an answer that is not an error.
    pub async fn text(&self, request: RequestBuilder) -> anyhow::Result<String> {
        let response = self.accepted(request).await?;
        Ok(response.text().await.map_err(plain)?.trim_end().to_owned())
    }

    /// An answer that is not an error, to be read by the caller.
    pub async fn accepted(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let response = request.send().await.map_err(plain)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, url) = (response.status().as_u16(), address(response.url()));
        let has_tenant = response.url().query_pairs().any(|(name, _)| name == "tenant");
        let body = response.text().await.map_err(plain)?.trim_end().to_owned();
        bail!(Refused { status, body, url, has_tenant, is_guessed: self.is_guessed })
    }
}

pub fn read<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    serde_json::from_str(text).with_context(|| format!("unreadable answer {text:?}"))
}

pub async fn answer(request: RequestBuilder) -> anyhow::Result<(u16, String)> {
    let response = request.send().await.map_err(plain)?;
    let status = response.status().as_u16();
    Ok((status, response.text().await.map_err(plain)?.trim_end().to_owned()))
}

/// The address without its query, which may hold a key, and the cause at the bottom.
fn plain(error: reqwest::Error) -> anyhow::Error {
    let url = error.url().map(address).unwrap_or_default();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let cause = if error.is_timeout() { "no answer in time".to_owned() } else { cause.to_string() };
    Unreachable { url, cause }.into()
}
