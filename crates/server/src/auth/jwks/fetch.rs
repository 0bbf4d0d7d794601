//! Asking the endpoint for its keys.

use super::keys::{self, Key};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// A longer answer is no key set.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Where the keys are. Follows no redirects and uses no proxy: the answer is trusted, so it must
/// come from the address that was configured.
pub struct Source {
    client: Client,
    url: Url,
}

impl Source {
    /// The error is a start-up text.
    pub fn new(url: &str, timeout: Duration) -> Result<Source, String> {
        let url =
            Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or("jwksURL must be a valid http(s) URL")?;
        let builder = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .timeout(timeout)
            // Minutes pass between two fetches; a connection kept so long would rather be dead.
            .pool_max_idle_per_host(0);
        // Plain HTTP must also work where no system certificates are installed.
        let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
        let client = builder.build().map_err(|_| "jwks: no system certificates for https".to_owned())?;
        Ok(Source { client, url })
    }

    /// For the log; the rest of the address may hold a password.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The error is the text of the 503 answer.
    pub async fn fetch(&self) -> Result<Vec<Key>, String> {
        let mut response = self.client.get(self.url.clone()).send().await.map_err(|error| failed(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("JWKS endpoint returned status {}", response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
            if body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err("failed to fetch JWKS: response too large".to_owned());
            }
            body.extend_from_slice(&chunk);
        }
        keys::read(&body).ok_or_else(|| "failed to fetch JWKS: invalid response".to_owned())
    }
}

/// One of a few words: addresses and library texts stay inside.
fn failed(error: &reqwest::Error) -> String {
    let reason = match io_kind(error) {
        _ if error.is_timeout() => "timeout",
        Some(ErrorKind::ConnectionRefused) => "connection refused",
        Some(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => "connection reset",
        _ if error.is_connect() => "connection failed",
        _ => "request failed",
    };
    format!("failed to fetch JWKS: {reason}")
}

fn io_kind(error: &reqwest::Error) -> Option<ErrorKind> {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind).next()
}
