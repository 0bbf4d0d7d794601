//! gRPC: the producer's and the worker's stream, translated into the broker's verbs. No rule lives here.
//!
//! A stream is one [`session::Session`]: it greets, reads events, asks the broker and yields answers, and
//! runs only while the transport takes what it yields. So a client that does not read is not read from
//! either. Events that have arrived together become one call of the broker. What a producer may send is in
//! `produce.rs`, what a worker may send in `work.rs`; `held.rs` keeps the Readys that wait for tasks.
//!
//! Promise: every create and every report that was read is answered exactly once, also when the stream
//! ends by shutdown or by the token's expiry. Not promised: an order between answers.

mod arriving;
mod assignment;
mod claimer;
mod codec;
mod connection;
mod desk;
mod handshake;
mod held;
mod produce;
mod report;
mod scaler;
mod session;
mod strangers;
mod texts;
mod work;

use crate::auth::Gate;
use crate::broker::Broker;
use crate::budget::Budget;
use crate::config::{Config, ListenAddress};
use crate::http::{self, Doors, Listening};
use crate::metrics::Metrics;
use crate::shares::Shares;
use connection::listen;
use produce::Producing;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
pub use strangers::Lobby;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use work::Working;

/// Largest message that is read.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Largest first message: what a caller may send before its token is known.
const HELLO_BYTES: usize = 64 * 1024;
/// Events of one stream that are read but not answered; beyond that the stream is not read.
const UNANSWERED: usize = 10_000;
/// Readys of one stream that are held; one more ends the stream.
const HELD_READYS: usize = 10_000;

/// What every stream can reach.
pub struct StreamContext {
    pub gate: Arc<Gate>,
    pub broker: Arc<Broker>,
    pub metrics: Arc<Metrics>,
    pub budget: Arc<Budget>,
    pub lobby: Lobby,
    /// Streams of each tenant.
    pub shares: Arc<Shares>,
    /// Cancelled when the server shuts down.
    pub draining: CancellationToken,
    pub end_at_token_expiry: bool,
}

/// Addresses that are ours already; nothing is accepted yet.
pub struct Bound {
    worker: Option<TcpListener>,
    producer: Option<TcpListener>,
}

/// The streams at work.
pub struct Streams {
    pub worker: Option<SocketAddr>,
    pub producer: Option<SocketAddr>,
    listening: Vec<Listening>,
}

/// Takes the configured addresses; the error is the text of `init app`.
pub async fn bind(config: &Config) -> Result<Bound, String> {
    check_auth(config)?;
    Ok(Bound { worker: take(&config.streams.worker).await?, producer: take(&config.streams.producer).await? })
}

async fn take(address: &Option<ListenAddress>) -> Result<Option<TcpListener>, String> {
    let Some(address) = address else { return Ok(None) };
    let bound = http::bind(address).await;
    bound.map(Some).map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// A stream that could let nobody in is a mistake.
fn check_auth(config: &Config) -> Result<(), &'static str> {
    let has_producer = config.producer_auth.is_some();
    let has_worker = config.worker_auth.is_some() || (has_producer && config.allow_producer_as_worker);
    if config.streams.worker.is_some() && !has_worker {
        return Err("workerStreamAddr needs worker auth");
    }
    if config.streams.producer.is_some() && !has_producer {
        return Err("producerStreamAddr needs producer auth");
    }
    Ok(())
}

impl Bound {
    /// Serves until drained, as many connections as there are seats.
    pub fn serve(self, office: StreamContext, doors: &Doors) -> std::io::Result<Streams> {
        let office = Arc::new(office);
        let mut streams = Streams { worker: None, producer: None, listening: Vec::new() };
        if let Some(listener) = self.worker {
            let listening = listen::<Working>(listener, office.clone(), doors)?;
            tracing::info!(addr = %listening.address, "worker streaming gRPC enabled");
            streams.worker = Some(listening.address);
            streams.listening.push(listening);
        }
        if let Some(listener) = self.producer {
            let listening = listen::<Producing>(listener, office, doors)?;
            tracing::info!(addr = %listening.address, "producer streaming gRPC enabled");
            streams.producer = Some(listening.address);
            streams.listening.push(listening);
        }
        Ok(streams)
    }
}

impl Streams {
    /// Lets the streams end in good order for so long, then cuts them off. They end because the office
    /// drains; this only waits.
    pub async fn drain(self, patience: Duration) {
        let mut draining = tokio::task::JoinSet::new();
        for listening in self.listening {
            draining.spawn(listening.drain(patience));
        }
        draining.join_all().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Mode, Sources, load};

    fn config(keys: &[(&'static str, &str)]) -> Config {
        let flags = keys.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let sources = Sources { mode: Mode::Dev, file: None, env: Vec::new(), flags };
        load(sources).expect("a sound configuration").config
    }

    #[test]
    fn a_stream_needs_the_auth_of_its_side() {
        let both = [("workerStreamAddr", ":0"), ("producerStreamAddr", ":0")];
        let mut config = config(&both);
        assert_eq!(check_auth(&config), Ok(()));
        config.worker_auth = None;
        config.allow_producer_as_worker = false;
        assert_eq!(check_auth(&config), Err("workerStreamAddr needs worker auth"));
        config.allow_producer_as_worker = true;
        assert_eq!(check_auth(&config), Ok(()));
        config.producer_auth = None;
        assert_eq!(check_auth(&config), Err("workerStreamAddr needs worker auth"));
        config.streams.worker = None;
        assert_eq!(check_auth(&config), Err("producerStreamAddr needs producer auth"));
        config.streams.producer = None;
        assert_eq!(check_auth(&config), Ok(()));
    }
}
