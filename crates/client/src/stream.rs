//! Opening a stream: the channel, and the time a handshake may take.

use crate::{Connection, Error, limits};
use std::time::Duration;
use tokio::time::timeout;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

/// A new connection to `address`, which is `host:port`, perhaps with `http://` or, for TLS, `https://` before it. Every stream has a
/// connection of its own, so that a dead one is not used again.
pub(crate) async fn connect(address: &str, connection: &Connection) -> Result<Channel, Error> {
    let endpoint = endpoint(address)?
        .connect_timeout(connection.timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(limits::TCP_KEEPALIVE))
        .http2_keep_alive_interval(limits::PING_INTERVAL)
        .keep_alive_timeout(limits::PING_TIMEOUT)
        .keep_alive_while_idle(true);
    endpoint.connect().await.map_err(|error| Error::broken(&error))
}

/// Fails if `address` cannot be one.
pub(crate) fn endpoint(address: &str) -> Result<Endpoint, Error> {
    let bad = |reason: &dyn std::fmt::Display| Error::Settings(format!("stream address {address}: {reason}"));
    let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let endpoint = Endpoint::from_shared(url).map_err(|error| bad(&error))?;
    match address.starts_with("https://") {
        true => endpoint.tls_config(ClientTlsConfig::new().with_enabled_roots()).map_err(|error| bad(&error)),
        false => Ok(endpoint),
    }
}

/// The answer of the server, or the error that there was none in time.
pub(crate) async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(limit, answer)
        .await
        .unwrap_or_else(|_| Err(Error::unavailable("the stream did not answer in time")))
}
