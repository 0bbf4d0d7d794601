//! Where the server is, who we are, and how patient.

use crate::Token;
use std::time::Duration;

/// The settings that producers and workers share.
///
/// ```
/// use codeq_client::{Connection, Producer};
/// use std::time::Duration;
///
/// let connection = Connection::new("dev-token")
///     .http("http://127.0.0.1:8080")
///     .producer_stream("127.0.0.1:9092")
///     .timeout(Duration::from_secs(5));
/// // Creates go over the stream, reads over HTTP.
/// let producer = Producer::new(&connection);
/// ```
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) token: Token,
    pub(crate) base: Option<String>,
    pub(crate) producer_stream: Option<String>,
    pub(crate) worker_stream: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) give_up_after: Duration,
}

impl Connection {
    /// A connection that does not know yet where to.
    pub fn new(token: impl Into<Token>) -> Connection {
        Connection {
            token: token.into(),
            base: None,
            producer_stream: None,
            worker_stream: None,
            timeout: Duration::from_secs(10),
            give_up_after: Duration::from_secs(60),
        }
    }

    /// The base URL of the HTTP API, `http://host:port` or `https://host`.
    pub fn http(mut self, base_url: impl Into<String>) -> Connection {
        self.base = Some(base_url.into().trim_end_matches('/').to_owned());
        self
    }

    /// The address of the producer stream: `host:port`, or `https://host:port` for TLS. Creates then go over it.
    pub fn producer_stream(mut self, address: impl Into<String>) -> Connection {
        self.producer_stream = Some(address.into());
        self
    }

    /// The address of the worker stream: `host:port`, or `https://host:port` for TLS. Workers then use it and not HTTP.
    pub fn worker_stream(mut self, address: impl Into<String>) -> Connection {
        self.worker_stream = Some(address.into());
        self
    }

    /// How long one request may take, not counting a wait that it asks for (default: 10 s).
    pub fn timeout(mut self, timeout: Duration) -> Connection {
        self.timeout = timeout;
        self
    }

    /// How long a call whose outcome is unknown is repeated before it fails (default: 60 s). Workers reconnect
    /// without end, and repeat a report as long as they hold the lease.
    pub fn give_up_after(mut self, time: Duration) -> Connection {
        self.give_up_after = time;
        self
    }
}
