//! Connections: HTTP/2, one service, its health and KEDA's scaler on each address.

use super::StreamContext;
use super::arriving::{Arriving, Known};
use super::codec::Wire;
use super::scaler;
use super::session::{Role, Session};
use super::strangers::{Doorstep, Guest, Restrained};
use crate::http::{Doors, Listening, accept, see_out};
use crate::seats::Seat;
use crate::telemetry::traces::http::Carried;
use crate::tls::{Inside, Transport};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
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
    office: Arc<StreamContext>,
    health: HealthServer<HealthService>,
}

pub fn listen<R: Role>(
    listener: TcpListener,
    office: Arc<StreamContext>,
    doors: &Doors,
) -> std::io::Result<Listening> {
    let reporter = HealthReporter::new();
    let health = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
    tokio::spawn(report_health(reporter, R::SERVICE, office.draining.clone()));
    let entry = Entry { office, health };
    accept(listener, doors, Inside::Http2, move |stream, seat, stop, abort| {
        serve::<R>(stream, seat, entry.clone(), stop, abort)
    })
}

/// Serving until the server shuts down.
async fn report_health(reporter: HealthReporter, service: &'static str, draining: CancellationToken) {
    reporter.set_service_status(service, ServingStatus::Serving).await;
    draining.cancelled().await;
    for name in [service, ""] {
        reporter.set_service_status(name, ServingStatus::NotServing).await;
    }
}

async fn serve<R: Role>(
    stream: Transport,
    seat: Arc<Seat>,
    entry: Entry,
    stop: CancellationToken,
    abort: CancellationToken,
) {
    // Acks are small: waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let has_asked = CancellationToken::new();
    let doorstep = Doorstep::new(seat);
    let service = {
        let (has_asked, doorstep) = (has_asked.clone(), doorstep.clone());
        service_fn(move |request: hyper::Request<Incoming>| {
            has_asked.cancel();
            let (entry, guest) = (entry.clone(), doorstep.enter());
            async move { Ok::<_, Infallible>(entry.answer::<R>(request, guest).await) }
        })
    };
    let stream = Restrained { stream, doorstep };
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
    async fn answer<R: Role>(
        mut self,
        request: hyper::Request<Incoming>,
        guest: Option<Guest>,
    ) -> hyper::Response<Body> {
        let Some(guest) = guest else {
            return Status::resource_exhausted("too many streams without a Hello").into_http();
        };
        let path = request.uri().path();
        if path.starts_with(HEALTH) {
            return match self.health.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
        }
        if path.starts_with(scaler::SERVICE) {
            return match scaler::service(self.office).call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
        }
        let is_ours =
            path.strip_prefix('/').and_then(|path| path.strip_prefix(R::SERVICE)) == Some("/Stream");
        if !is_ours {
            return Status::unimplemented("").into_http();
        }
        let known = Known::default();
        let carried = self.office.broker.traces().carried(request.headers());
        let opening = Opening { office: self.office, known: known.clone(), guest, carried };
        let grpc = Grpc::new(Wire::<R::Event, R::Answer>::new());
        let mut grpc =
            grpc.max_decoding_message_size(super::MESSAGE_BYTES).max_encoding_message_size(usize::MAX);
        let request = request.map(|body| Arriving::new(body, known));
        grpc.streaming(Greeter::<R>(Some(opening), std::marker::PhantomData), request).await
    }
}

/// What a stream begins with.
pub struct Opening {
    pub office: Arc<StreamContext>,
    /// Set once the token is accepted.
    pub known: Known,
    pub guest: Guest,
    /// Trace context of the metadata, if tracing is on.
    pub carried: Option<Carried>,
}

struct Greeter<R>(Option<Opening>, std::marker::PhantomData<fn() -> R>);

impl<R: Role> StreamingService<R::Event> for Greeter<R> {
    type Response = R::Answer;
    type ResponseStream = Session<R>;
    type Future = Ready<Result<Response<Session<R>>, Status>>;

    /// The answer begins before the Hello is read: clients may wait for its head before they send.
    fn call(&mut self, request: Request<Streaming<R::Event>>) -> Self::Future {
        let opening = self.0.take().ok_or_else(|| Status::internal("a stream is opened once"));
        ready(opening.map(|opening| Response::new(Session::new(opening, request.into_inner()))))
    }
}
