//! Connections: HTTP/2 without TLS, one service and its health on each address.

use super::Office;
use super::codec::Wire;
use super::session::{Role, Session};
use crate::http::{Listening, accept, see_out};
use crate::telemetry::traces::http::Carried;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::{Grpc, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower_service::Service;

/// What one stream may send before it is read: a fast stream is not held up by the way to and fro.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for all streams of a connection together.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Streams of one connection.
const STREAMS: u32 = 4096;
const FRAME_BYTES: u32 = 64 * 1024;
/// A connection that has been silent for so long is asked whether it lives.
const KEEPALIVE: Duration = Duration::from_secs(2 * 60 * 60);
/// A connection has to open its first stream within this time: silence must not hold a seat.
const FIRST_STREAM: Duration = Duration::from_secs(10);
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(20);
const HEALTH: &str = "/grpc.health.v1.Health/";

/// The services of one address.
#[derive(Clone)]
struct Entry {
    office: Arc<Office>,
    health: HealthServer<HealthService>,
}

pub fn listen<R: Role>(
    listener: TcpListener,
    office: Arc<Office>,
    most: usize,
) -> std::io::Result<Listening> {
    let reporter = HealthReporter::new();
    let health = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
    tokio::spawn(report_health(reporter, R::SERVICE, office.draining.clone()));
    let entry = Entry { office, health };
    accept(listener, most, move |stream, stop, abort| serve::<R>(stream, entry.clone(), stop, abort))
}

/// Serving until the server shuts down.
async fn report_health(reporter: HealthReporter, service: &'static str, draining: CancellationToken) {
    reporter.set_service_status(service, ServingStatus::Serving).await;
    draining.cancelled().await;
    for name in [service, ""] {
        reporter.set_service_status(name, ServingStatus::NotServing).await;
    }
}

async fn serve<R: Role>(stream: TcpStream, entry: Entry, stop: CancellationToken, abort: CancellationToken) {
    // Acks are small: waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let has_asked = CancellationToken::new();
    let service = {
        let has_asked = has_asked.clone();
        service_fn(move |request: hyper::Request<Incoming>| {
            has_asked.cancel();
            let entry = entry.clone();
            async move { Ok::<_, Infallible>(entry.answer::<R>(request).await) }
        })
    };
    let connection = builder().serve_connection(TokioIo::new(stream), service);
    let silent = tokio::time::timeout(FIRST_STREAM, has_asked.cancelled());
    tokio::select! {
        () = see_out(Box::pin(connection), stop, abort) => {}
        () = silence(silent) => tracing::debug!("a connection without a stream was cut off"),
    }
}

/// Ends only if nothing was asked for in time.
async fn silence(asked: impl Future<Output = Result<(), tokio::time::error::Elapsed>>) {
    if asked.await.is_ok() {
        std::future::pending().await
    }
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_frame_size(FRAME_BYTES)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_ANSWER);
    builder
}

impl Entry {
    async fn answer<R: Role>(mut self, request: hyper::Request<Incoming>) -> hyper::Response<Body> {
        let path = request.uri().path();
        if path.starts_with(HEALTH) {
            return match self.health.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
        }
        let is_ours =
            path.strip_prefix('/').and_then(|path| path.strip_prefix(R::SERVICE)) == Some("/Stream");
        if !is_ours {
            return Status::unimplemented("").into_http();
        }
        let is_known = Arc::new(AtomicBool::new(false));
        let carried = self.office.broker.traces().carried(request.headers());
        let opening = Opening { office: self.office, is_known: is_known.clone(), carried };
        let grpc = Grpc::new(Wire::<R::Event, R::Answer>::new(is_known));
        let mut grpc =
            grpc.max_decoding_message_size(super::MESSAGE_BYTES).max_encoding_message_size(usize::MAX);
        grpc.streaming(Greeter::<R>(opening, std::marker::PhantomData), request).await
    }
}

/// What a stream begins with.
pub struct Opening {
    pub office: Arc<Office>,
    /// Set once the token is accepted: from then on large messages are read.
    pub is_known: Arc<AtomicBool>,
    /// Trace context of the metadata, if tracing is on.
    pub carried: Option<Carried>,
}

struct Greeter<R>(Opening, std::marker::PhantomData<fn() -> R>);

impl<R: Role> StreamingService<R::Event> for Greeter<R> {
    type Response = R::Answer;
    type ResponseStream = Session<R>;
    type Future = Ready<Result<Response<Session<R>>, Status>>;

    /// The answer begins before the Hello is read: clients may wait for its head before they send.
    fn call(&mut self, request: Request<Streaming<R::Event>>) -> Self::Future {
        let opening = Opening {
            office: self.0.office.clone(),
            is_known: self.0.is_known.clone(),
            carried: self.0.carried.clone(),
        };
        ready(Ok(Response::new(Session::new(opening, request.into_inner()))))
    }
}
