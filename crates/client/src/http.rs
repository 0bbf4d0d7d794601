//! One HTTP request and its answer.

use crate::backoff::Backoff;
use crate::{Connection, Error, Token, refusal};
use codeq_api::error::ErrorBody;
use reqwest::{Client, Method, Response, header};
use std::time::Duration;
use tokio::time::Instant;

/// The HTTP API of one server.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    base: String,
    token: Token,
    timeout: Duration,
    /// Who works, as `Codeq-Worker` tells it.
    worker: Option<header::HeaderValue>,
}

/// An answer that is not an error.
pub(crate) struct Answer {
    pub status: u16,
    pub replayed: bool,
    /// The unique key was taken.
    pub deduplicated: bool,
    pub text: String,
}

impl Http {
    pub fn new(connection: &Connection) -> Result<Http, Error> {
        let base = connection.base.clone().ok_or(Error::NeedsHttp)?;
        let url = reqwest::Url::parse(&base).map_err(|error| Error::Settings(format!("{base}: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(Error::Settings(format!("{base}: not an http or https URL")));
        }
        let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let client = client.connect_timeout(connection.timeout).build();
        let client = client.map_err(|error| Error::Settings(error.to_string()))?;
        let (token, timeout) = (connection.token.clone(), connection.timeout);
        Ok(Http { client, base, token, timeout, worker: None })
    }

    /// Every request says who works.
    pub fn of_worker(self, name: &str) -> Result<Http, Error> {
        let name = header::HeaderValue::from_str(name);
        let name = name.map_err(|_| Error::Settings("a worker's name is visible ASCII".into()))?;
        Ok(Http { worker: Some(name), ..self })
    }

    pub async fn get(&self, path: &str, wait: Duration) -> Result<Answer, Error> {
        self.call(Method::GET, path, None, wait).await
    }

    pub async fn post(&self, path: &str, body: String, wait: Duration) -> Result<Answer, Error> {
        self.call(Method::POST, path, Some(body), wait).await
    }

    /// The bytes of an answer that is no text.
    pub async fn bytes(&self, path: &str) -> Result<Vec<u8>, Error> {
        let token = self.token.get().await?;
        let request = self.client.get(format!("{}/v1/codeq{path}", self.base));
        let response = request.bearer_auth(token).timeout(self.timeout).send().await;
        let response = response.map_err(|error| unsent(&error))?;
        if !response.status().is_success() {
            return Err(read(response).await.err().unwrap_or_else(|| Error::unavailable("no answer")));
        }
        let bytes = response.bytes().await.map_err(|error| Error::broken(&error))?;
        Ok(bytes.to_vec())
    }

    /// Opens a stream of events, which has no end.
    pub async fn listen(
        &self,
        path: &str,
        query: &[(&str, String)],
        last_id: Option<&str>,
    ) -> Result<Response, Error> {
        let token = self.token.get().await?;
        let mut url = reqwest::Url::parse(&format!("{}/v1/codeq{path}", self.base))
            .map_err(|error| Error::Settings(error.to_string()))?;
        url.query_pairs_mut().extend_pairs(query);
        let mut request = self.client.get(url).bearer_auth(&token);
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let opened = tokio::time::timeout(self.timeout, request.send()).await;
        let response = opened.map_err(|_| Error::unavailable("no answer in time"))?;
        let response = response.map_err(|error| unsent(&error))?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(read(response).await.err().unwrap_or_else(|| Error::unavailable("no answer"))),
        }
    }

    /// Sends the request until there is an answer, at most until `deadline`.
    pub async fn repeat(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        deadline: Instant,
    ) -> Result<Answer, Error> {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.call(method.clone(), path, body.clone(), Duration::ZERO).await {
                Err(error) if error.is_retryable() => error,
                other => return other,
            };
            let pause = backoff.next(error.retry_after());
            if Instant::now() + pause >= deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends the request; a second time if the token was refused and there is a new one.
    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        wait: Duration,
    ) -> Result<Answer, Error> {
        let token = self.token.get().await?;
        let first = self.send(&method, path, &token, body.clone(), wait).await;
        match first {
            Err(Error::Unauthorized { .. }) if self.token.replaces(&token).await => {
                let token = self.token.get().await?;
                self.send(&method, path, &token, body, wait).await
            }
            other => other,
        }
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        token: &str,
        body: Option<String>,
        wait: Duration,
    ) -> Result<Answer, Error> {
        let request = self.client.request(method.clone(), format!("{}/v1/codeq{path}", self.base));
        let request = request.bearer_auth(token).timeout(self.timeout + wait);
        let request = match &self.worker {
            Some(worker) => request.header("codeq-worker", worker),
            None => request,
        };
        let request = match body {
            Some(body) => request.body(body),
            None => request,
        };
        let response = request.send().await.map_err(|error| unsent(&error))?;
        read(response).await
    }
}

/// A request that could not even be built will not be better the next time.
fn unsent(error: &reqwest::Error) -> Error {
    match error.is_builder() {
        true => Error::Settings(error.to_string()),
        false => Error::broken(error),
    }
}

async fn read(response: Response) -> Result<Answer, Error> {
    let status = response.status().as_u16();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let is_true = |name: &str| header(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let (replayed, deduplicated) = (is_true("idempotent-replayed"), is_true("codeq-deduplicated"));
    let request_id = header("x-request-id").map(ToOwned::to_owned);
    let retry_after = header(header::RETRY_AFTER.as_str()).and_then(|value| value.parse().ok());
    let text = response.text().await.map_err(|error| Error::broken(&error))?;
    match status {
        200..300 => Ok(Answer { status, replayed, deduplicated, text }),
        _ => Err(refused(status, &text, retry_after.map(Duration::from_secs), request_id)),
    }
}

fn refused(status: u16, text: &str, asked: Option<Duration>, request_id: Option<String>) -> Error {
    // A proxy in between answers with something else.
    let body: ErrorBody<'_> = serde_json::from_str(text).unwrap_or_default();
    let message = if body.error.is_empty() { format!("status {status}") } else { body.error.into_owned() };
    match refusal::classify(status, &body.code, &message) {
        Error::Unavailable { message, .. } => Error::Unavailable { message, retry_after: asked },
        Error::Refused { status, code, message, .. } => Error::Refused { status, code, message, request_id },
        other => other,
    }
}

/// What cannot be read is an answer we do not have.
pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::unavailable(format!("unreadable answer: {error}")))
}

pub(crate) fn json(body: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(body).map_err(|error| Error::Json(error.to_string()))
}

/// A path segment holds nothing that could end it.
pub(crate) fn segment(id: &str) -> Result<&str, Error> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    if !id.is_empty() && id.bytes().all(is_plain) {
        return Ok(id);
    }
    Err(Error::refused(404, "task_not_found", "not the id of a task"))
}
