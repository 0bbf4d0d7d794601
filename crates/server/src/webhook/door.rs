//! The only way out: a single attempt to deliver a message to an address.
//!
//! Promises: the address that was checked is the address that is dialled; no redirect, proxy or cookie;
//! an attempt ends within its time; of the answer at most 64 KiB are read. Not promised: how many attempts
//! run at once, which is [`super::outbound`]'s business.

use super::addresses::is_refused;
use super::resolver::{Guarded, Lookup, Refused};
use super::sign::Signer;
use crate::telemetry::traces;
use bytes::Bytes;
use codeq_store::Clock;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response};
use std::collections::HashSet;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use url::{Host, Url};

/// Bytes of an answer that are read, so that its connection can be used again.
const ANSWER_BYTES: usize = 64 * 1024;
/// Bytes of an answer that are kept for whoever looks at deliveries.
pub const ANSWER_HEAD_BYTES: usize = 1024;
/// How long the rest of an answer may take once its status is known.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How long a connection is kept that no one uses.
const IDLE: Duration = Duration::from_secs(10);
/// Connections kept per host.
const IDLE_CONNECTIONS: usize = 8;
/// Hosts whose refusal has been logged; when the list is full it is cleared and logging starts over.
const LOGGED_HOSTS: usize = 1000;

const USER_AGENT: &str = concat!("codeq/", env!("CARGO_PKG_VERSION"));
const OWN_TIMESTAMP: HeaderName = HeaderName::from_static("x-codeq-timestamp");
const OWN_SIGNATURE: HeaderName = HeaderName::from_static("x-codeq-signature");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

pub struct DoorOptions {
    pub secret: String,
    pub timeout: Duration,
    pub allows_private: bool,
    pub lookup: Lookup,
    pub clock: Arc<dyn Clock>,
}

pub struct OutboundClient {
    plain: Client,
    /// `None` where the system has no certificates to trust.
    secure: Option<Client>,
    signer: Option<Signer>,
    timeout: Duration,
    allows_private: bool,
    clock: Arc<dyn Clock>,
    refused: Mutex<HashSet<String>>,
}

/// One message to one address.
#[derive(Clone, Debug)]
pub struct Message {
    pub url: Arc<str>,
    /// The same on every attempt.
    pub id: String,
    pub body: Arc<str>,
    /// The trace of this attempt, if tracing is on.
    pub trace: Option<traces::webhook::Headers>,
}

/// How an attempt went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// In a few words without the address; `None`: it was taken.
    pub error: Option<String>,
    /// Somebody answered, and soon. What they said does not matter.
    pub is_prompt: bool,
    /// What they said, if somebody answered.
    pub answer: Option<ReceiverAnswer>,
}

/// How a receiver answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiverAnswer {
    pub status: u16,
    /// Its first bytes as text.
    pub head: Box<str>,
}

struct Body(Arc<str>);

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl OutboundClient {
    /// The error is a start-up text.
    pub fn new(options: DoorOptions) -> Result<OutboundClient, String> {
        let builder = || client(&options);
        let plain = builder().tls_certs_only([]).build();
        Ok(OutboundClient {
            plain: plain.map_err(|error| format!("webhooks: {error}"))?,
            secure: builder().build().ok(),
            signer: Signer::new(&options.secret),
            timeout: options.timeout,
            allows_private: options.allows_private,
            clock: options.clock,
            refused: Mutex::default(),
        })
    }

    pub async fn send(&self, message: Message) -> Attempt {
        let started = Instant::now();
        let sent = self.post(message).await;
        let is_slow = started.elapsed() >= self.timeout / 2;
        match sent {
            Ok(answer) => {
                let is_taken = (200..300).contains(&answer.status);
                let error = (!is_taken).then(|| format!("status {}", answer.status));
                Attempt { error, is_prompt: !is_slow, answer: Some(answer) }
            }
            Err(error) => Attempt { error: Some(error), is_prompt: false, answer: None },
        }
    }

    /// The answer, or why there is none.
    async fn post(&self, message: Message) -> Result<ReceiverAnswer, String> {
        let url = Url::parse(&message.url).map_err(|_| "invalid url")?;
        let host = url.host_str().unwrap_or_default().to_owned();
        if !self.allows_private && aim(&url).is_refused() {
            self.log_refused(&host);
            return Err(Refused.to_string());
        }
        let client = match url.scheme() {
            "http" => &self.plain,
            _ => self.secure.as_ref().ok_or("no system certificates for https")?,
        };
        let headers = self.headers(&message);
        let request = client.post(url).headers(headers).body(Bytes::from_owner(Body(message.body)));
        let response = request.send().await.map_err(|error| {
            let reason = failed(&error);
            if reason == Refused.to_string() {
                self.log_refused(&host);
            }
            reason
        })?;
        let status = response.status().as_u16();
        Ok(ReceiverAnswer { status, head: finish(response).await })
    }

    fn headers(&self, message: &Message) -> HeaderMap {
        let timestamp = self.clock.now().millis().div_euclid(1000).to_string();
        let text =
            |text: &str| HeaderValue::from_str(text).expect("ids, digits and base64 make header values");
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ID, text(&message.id));
        headers.insert(TIMESTAMP, text(&timestamp));
        if let Some(signer) = &self.signer {
            let signed = signer.sign(&message.id, &timestamp, message.body.as_bytes());
            headers.insert(OWN_TIMESTAMP, text(&timestamp));
            headers.insert(OWN_SIGNATURE, text(&signed.own));
            headers.insert(SIGNATURE, text(&signed.standard));
        }
        if let Some(trace) = &message.trace {
            trace_headers(trace, &mut headers);
        }
        headers
    }

    fn log_refused(&self, host: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= LOGGED_HOSTS {
            refused.clear();
        }
        if refused.insert(host.to_owned()) {
            tracing::warn!(host, "webhook address refused; see webhooks.allowPrivateAddresses");
        }
    }
}

fn trace_headers(trace: &traces::webhook::Headers, headers: &mut HeaderMap) {
    let texts = [
        ("traceparent", trace.context.trace_parent.as_str()),
        ("tracestate", trace.context.trace_state.as_str()),
        ("baggage", trace.baggage.as_deref().unwrap_or_default()),
    ];
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

fn client(options: &DoorOptions) -> ClientBuilder {
    let resolver = Guarded { lookup: options.lookup.clone(), allows_private: options.allows_private };
    Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .user_agent(USER_AGENT)
        .timeout(options.timeout)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE)
        .dns_resolver(Arc::new(resolver))
}

/// What an address leads to, as far as it can be told without asking who a name is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Aim {
    /// The host is an address, however it was written: the connector dials it without asking the resolver.
    Address(IpAddr),
    /// The host is a name; the resolver checks what it stands for.
    Name,
    /// Nothing that could be dialled.
    Nowhere,
}

impl Aim {
    /// Whether it leads inside for certain.
    pub fn is_refused(&self) -> bool {
        matches!(self, Aim::Address(address) if is_refused(*address))
    }
}

pub fn aim(url: &Url) -> Aim {
    match url.host() {
        Some(Host::Ipv4(address)) => Aim::Address(address.into()),
        Some(Host::Ipv6(address)) => Aim::Address(address.into()),
        Some(Host::Domain(_)) => Aim::Name,
        None => Aim::Nowhere,
    }
}

/// Reads a little of the answer and gives its beginning. One that is longer or slower costs its connection, nothing
/// else.
async fn finish(mut response: Response) -> Box<str> {
    let mut head = Vec::new();
    let reading = async {
        let mut bytes = 0;
        while let Ok(Some(chunk)) = response.chunk().await {
            let wanted = ANSWER_HEAD_BYTES.saturating_sub(head.len()).min(chunk.len());
            head.extend_from_slice(&chunk[..wanted]);
            bytes += chunk.len();
            if bytes > ANSWER_BYTES {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(ANSWER_TIME, reading).await;
    String::from_utf8_lossy(&head).into()
}

/// One of a few words: addresses and library texts stay inside.
fn failed(error: &reqwest::Error) -> String {
    let causes = || std::iter::successors(error.source(), |&cause| cause.source());
    if causes().any(|cause| cause.is::<Refused>()) {
        return Refused.to_string();
    }
    let kind = causes().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(innermost).next();
    let reason = match kind {
        _ if error.is_timeout() => "timeout",
        Some(ErrorKind::ConnectionRefused) => "connection refused",
        Some(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            "connection reset"
        }
        Some(ErrorKind::InvalidData) => "tls failed",
        _ if error.is_connect() => "connection failed",
        _ => "request failed",
    };
    reason.to_owned()
}

/// Errors are wrapped in errors that say less.
fn innermost(error: &io::Error) -> ErrorKind {
    let inside = |error: &io::Error| error.get_ref()?.downcast_ref::<io::Error>().map(innermost);
    inside(error).unwrap_or_else(|| error.kind())
}

/// What bounds and breakers go by: the host and port of an address; empty if it has none.
pub fn host_of(url: &str) -> Arc<str> {
    let host = Url::parse(url)
        .ok()
        .and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default().unwrap_or(0))));
    host.unwrap_or_default().into()
}
