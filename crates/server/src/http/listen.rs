//! Accepting connections, and ending them in good order.

use super::Entry;
use super::unread::Unread;
use super::watched::{PacedBody, TimedConnection};
use crate::config::ListenAddress;
use crate::seats::{Seat, Seats};
use crate::tls::{Inside, Tls, Transport};
use axum::body::Body;
use axum::http::header::EXPECT;
use codeq_store::supervisor::vital;
use hyper::body::Body as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulConnection;
use std::convert::Infallible;
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bytes of a request's head.
const HEAD_BYTES: usize = 64 * 1024;
/// Header lines of a request.
const HEAD_LINES: usize = 100;
/// How long to leave a listener alone that cannot accept (no file handles, for instance).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// All interfaces are both families where the system has both.
pub async fn bind(address: &ListenAddress) -> std::io::Result<TcpListener> {
    match &address.host {
        Some(host) => TcpListener::bind((host.as_str(), address.port)).await,
        None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, address.port)).await {
            Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port)).await
            }
            bound => bound,
        },
    }
}

/// What all listeners share.
#[derive(Clone)]
pub struct Doors {
    pub seats: Arc<Seats>,
    /// `None`: bytes travel as they are.
    pub tls: Option<Arc<Tls>>,
}

/// A listener at work.
pub struct Listening {
    pub address: SocketAddr,
    stop: CancellationToken,
    abort: CancellationToken,
    connections: TaskTracker,
}

/// Serves `entry` until stopped, as many connections at once as there are seats.
pub fn listen(listener: TcpListener, entry: Entry, doors: &Doors) -> std::io::Result<Listening> {
    accept(listener, doors, Inside::Http1, move |stream, seat, stop, abort| {
        serve(stream, seat, entry.clone(), stop, abort)
    })
}

/// Has `serve` serve every connection until stopped, as long as there are seats; beyond that callers wait in
/// the kernel's queue. At the first token a connection is to end in good order, at the second at once.
pub fn accept<F>(
    listener: TcpListener,
    doors: &Doors,
    inside: Inside,
    serve: impl Fn(Transport, Arc<Seat>, CancellationToken, CancellationToken) -> F + Send + Sync + 'static,
) -> std::io::Result<Listening>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listening = Listening {
        address: listener.local_addr()?,
        stop: CancellationToken::new(),
        abort: CancellationToken::new(),
        connections: TaskTracker::new(),
    };
    let (stop, abort) = (listening.stop.clone(), listening.abort.clone());
    let connections = listening.connections.clone();
    let Doors { seats, tls } = doors.clone();
    let serve = Arc::new(serve);
    vital("accepting connections", async move {
        let accepting = async {
            loop {
                let seat = seats.reserve().await;
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let seat = Arc::new(seat.occupy());
                        let dismissed = seat.dismissed();
                        let (stop, abort) = (stop.clone(), abort.clone());
                        match tls.clone() {
                            None => {
                                let served = serve(Transport::Plain(stream), seat, stop, abort);
                                connections.spawn(dismissed.run_until_cancelled_owned(served));
                            }
                            Some(tls) => {
                                let serve = serve.clone();
                                let served = async move {
                                    if let Some(stream) = tls.greet(stream, inside).await {
                                        serve(stream, seat, stop, abort).await;
                                    }
                                };
                                connections.spawn(dismissed.run_until_cancelled_owned(served));
                            }
                        }
                    }
                    Err(error) => {
                        tracing::warn!(err = %error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            () = stop.cancelled() => {}
        }
    });
    Ok(listening)
}

impl Listening {
    /// Accepts nothing more, lets requests in flight finish for so long, then cuts them off.
    pub async fn drain(self, patience: Duration) {
        self.stop.cancel();
        self.connections.close();
        if tokio::time::timeout(patience, self.connections.wait()).await.is_err() {
            self.abort.cancel();
            self.connections.wait().await;
        }
    }
}

/// Not an async function: its frame would hold everything once more for as long as the connection lasts.
fn serve(
    stream: Transport,
    seat: Arc<Seat>,
    entry: Entry,
    stop: CancellationToken,
    abort: CancellationToken,
) -> impl Future<Output = ()> {
    // Answers are small and complete: waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let (stream, pace) = TimedConnection::new(stream, seat);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(pace.clone());
        let (entry, pace) = (entry.clone(), pace.clone());
        async move {
            let is_held_back = request.headers().contains_key(EXPECT);
            let request = request.map(|body| {
                let body = Unread::new(body, is_held_back);
                Body::new(PacedBody::new(body, pace.clone()))
            });
            let response = entry.serve(request).await;
            pace.is_answered(response.body().size_hint().exact().is_some());
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_LINES)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    // On the heap, or every frame on the way would hold a copy of it.
    see_out(Box::pin(connection), stop, abort)
}

/// Runs a connection to its end: once told to stop it finishes what is in flight, unless that is aborted.
pub async fn see_out<C>(mut connection: Pin<Box<C>>, stop: CancellationToken, abort: CancellationToken)
where
    C: GracefulConnection<Error: Display>,
{
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = connection.as_mut() => outcome,
                () = abort.cancelled() => Ok(()),
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(err = %error, "connection ended");
    }
}
