//! HTTP: translates requests into the broker's verbs and answers back. No rule lives here.
//!
//! [`routes::table`] is the whole surface: method, path, right, limit and handler of every route. A request
//! passes, in this order: request id, body limit, auth, right, rate limit, handler.

mod admin;
mod app;
mod audit;
mod backup;
mod batches;
mod call;
mod clock;
mod counted;
mod docs;
mod error;
mod events;
mod filter;
mod health;
mod history;
mod host;
mod listen;
mod options;
mod policies;
mod produce;
mod repair;
mod reply;
pub mod routes;
mod schedules;
mod search;
mod show;
mod store;
mod subscribe;
mod transfer;
mod ui;
mod unread;
mod watched;
mod webhooks;
mod work;
mod workers;

pub use app::{App, Limits};
pub use listen::{Doors, Listening, accept, bind, listen, see_out};

use crate::auth::Caller;
use audit::Noting;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, AUTHORIZATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::Response;
use call::Call;
use error::Error;
use routes::{Endpoint, Reply, Route};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower_service::Service;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// `read` in answers to a token that may read and nothing else, so that a client need not offer what would be refused.
const ACCESS: HeaderName = HeaderName::from_static("codeq-access");
/// Longest request id that is taken over from a caller.
const REQUEST_ID_BYTES: usize = 128;

/// Names a request in answers and logs.
#[derive(Clone)]
pub struct RequestId(pub HeaderValue);

impl RequestId {
    fn text(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

/// The routes as one service.
#[derive(Clone)]
pub struct Entry {
    router: Router,
    /// Requests in the name of another host are refused.
    is_local: bool,
}

impl Entry {
    pub fn new(app: Arc<App>) -> Entry {
        let is_local = app.is_local;
        let mut router = Router::new();
        let clock = app.test_clock.is_some().then(routes::test_clock);
        for route in routes::table().into_iter().chain(clock) {
            router = mount(router, &app, Arc::new(route));
        }
        let router = router.fallback(|request: Request| async move {
            let to_dashboard = ui::from_root(request.method(), request.uri(), request.headers());
            to_dashboard.unwrap_or_else(|| Error::route_not_found().respond(id_of(&request).text()))
        });
        Entry { router, is_local }
    }

    /// The port that only metrics are read from.
    pub fn metrics(app: Arc<App>) -> Entry {
        let is_local = app.is_local;
        let handler = move |request: Request| {
            let app = app.clone();
            async move {
                let rendered = health::render_metrics(&app).await;
                rendered.unwrap_or_else(|error| error.respond(id_of(&request).text()))
            }
        };
        let not_found =
            |request: Request| async move { Error::route_not_found().respond(id_of(&request).text()) };
        let router = Router::new().route("/metrics", axum::routing::get(handler)).fallback(not_found);
        Entry { router, is_local }
    }

    /// The same stack with nothing behind it: gives every body back. What benches compare with.
    pub fn echo() -> Entry {
        let handler = |request: Request| async move { Response::new(request.into_body()) };
        Entry { router: Router::new().route("/echo", axum::routing::post(handler)), is_local: false }
    }

    pub async fn serve(mut self, mut request: Request) -> Response {
        let id = request_id(&request);
        request.extensions_mut().insert(id.clone());
        trim_slash(request.uri_mut());
        let refused = if self.is_local { host::check(&request).err() } else { None };
        let mut response = match refused {
            Some(error) => error.respond(id.text()),
            None => match self.router.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
        };
        if response.status() == axum::http::StatusCode::METHOD_NOT_ALLOWED {
            let allow = response.headers().get(ALLOW).cloned();
            response =
                Error::method_not_allowed(allow.unwrap_or(HeaderValue::from_static(""))).respond(id.text());
        }
        response.headers_mut().insert(REQUEST_ID, id.0);
        response
    }
}

fn mount(router: Router, app: &Arc<App>, route: Arc<Route>) -> Router {
    let app = app.clone();
    let (path, filter) = (route.path, route.filter());
    let name: Arc<str> = format!("HTTP {} {path}", route.method).into();
    let handler = move |request: Request| {
        let (app, route, name) = (app.clone(), route.clone(), name.clone());
        async move {
            let started = Instant::now();
            let id = id_of(&request);
            let (mut head, body) = request.into_parts();
            let span = app.traces.request(&name, route.path, &mut head);
            let mut bearer = None;
            // On the heap and gone before the answer comes: a held claim waits for long.
            let admitted = Box::pin(admit(app.clone(), &route, head, body, &mut bearer)).await;
            let answered = match admitted {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            let answered = answered.and_then(|response| match &bearer {
                Some(caller) => counted::counted(response, &route, caller, &app.budget),
                None => Ok(response),
            });
            let tenant = bearer.as_ref().map_or("", |caller: &Arc<Caller>| &*caller.tenant);
            let mut response = answered.unwrap_or_else(|error| {
                app.complain(&error, &route, &id, tenant);
                error.respond(id.text())
            });
            if bearer.as_ref().is_some_and(|caller| caller.is_observer) {
                response.headers_mut().insert(ACCESS, HeaderValue::from_static("read"));
            }
            let (status, took) = (response.status().as_u16(), started.elapsed());
            app.metrics.request(route.path, status, took);
            if let Some(span) = span {
                span.end(status);
            }
            log(&route, &id, tenant, status, took);
            response
        }
    };
    router.route(path, axum::routing::on(filter, handler))
}

fn log(route: &Route, id: &RequestId, tenant: &str, status: u16, took: Duration) {
    tracing::debug!(
        requestId = id.text(),
        tenantId = tenant,
        method = route.method.as_str(),
        route = route.path,
        status,
        durationMs = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "request"
    );
}

/// Everything between routing and the handler, which is yet to run. `bearer` is filled in once the token was
/// accepted.
async fn admit(
    app: Arc<App>,
    route: &Route,
    head: Parts,
    body: Body,
    bearer: &mut Option<Arc<Caller>>,
) -> Result<Reply, Error> {
    let limit = route.limit.bytes(&app.limits);
    let mut call = Call { app: app.clone(), head, body, template: route.path, limit, share: None };
    call.check_length()?;
    // Dropped before the handler runs, see `Call::forget`.
    let header = authorization(&mut call.head.headers);
    let mut known = |caller: &Arc<Caller>, call: &mut Call| {
        *bearer = Some(caller.clone());
        call.is_from(caller)
    };
    let authorization = header.as_ref().map(HeaderValue::as_bytes);
    let access = route.access();
    match &route.endpoint {
        Endpoint::Open(handler) => Ok(handler(call)),
        Endpoint::Any(handler) => {
            let caller = app.gate.any(authorization).await?;
            drop(header);
            known(&caller.0, &mut call)?;
            Ok(handler(call, caller))
        }
        Endpoint::Producer(handler) => {
            let caller = app.gate.producer(authorization, access).await?;
            drop(header);
            known(&caller.0, &mut call)?;
            check_rate(&app, route, &caller.0).await?;
            let noting = Noting::of(&call, route, &caller.0);
            Ok(noting.around(app, handler(call, caller)))
        }
        Endpoint::Worker(scope, handler) => {
            let caller = app.gate.worker(authorization, *scope).await?;
            drop(header);
            known(&caller.0, &mut call)?;
            check_rate(&app, route, &caller.0).await?;
            Ok(handler(call, caller))
        }
        Endpoint::Operator(handler) => {
            let caller = app.gate.operator(authorization).await?;
            drop(header);
            known(&caller.0, &mut call)?;
            check_rate(&app, route, &caller.0).await?;
            Ok(handler(call, caller))
        }
        Endpoint::Admin(handler) => {
            let caller = app.gate.admin(authorization, access).await?;
            drop(header);
            known(&caller.0, &mut call)?;
            check_rate(&app, route, &caller.0).await?;
            let noting = Noting::of(&call, route, &caller.0);
            Ok(noting.around(app, handler(call, caller)))
        }
    }
}

async fn check_rate(app: &App, route: &Route, caller: &Caller) -> Result<(), Error> {
    match route.rate {
        // Boxed, because every held claim keeps the room for whatever its request may have waited for.
        Some((scope, operation)) if app.limiter(scope).is_some() => {
            Box::pin(app.check_rate(caller, scope, operation)).await
        }
        _ => Ok(()),
    }
}

/// Takes the header out. Two of them are not one to choose from: whoever stands before us may have judged
/// the other.
fn authorization(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let is_single = headers.get_all(AUTHORIZATION).iter().nth(1).is_none();
    let first = headers.remove(AUTHORIZATION)?;
    Some(if is_single { first } else { HeaderValue::from_static("several") })
}

fn id_of(request: &Request) -> RequestId {
    let known = request.extensions().get::<RequestId>().cloned();
    known.unwrap_or_else(|| RequestId(HeaderValue::from_static("")))
}

/// The caller's own id if it is one, else 32 random hex digits.
fn request_id(request: &Request) -> RequestId {
    let given = request.headers().get(REQUEST_ID).filter(|value| {
        (1..=REQUEST_ID_BYTES).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
    });
    let random = || {
        let text = format!("{:032x}", rand::random::<u128>());
        HeaderValue::from_str(&text).expect("hex digits make a header value")
    };
    RequestId(given.cloned().unwrap_or_else(random))
}

/// One trailing slash is ignored.
fn trim_slash(uri: &mut Uri) {
    let path = uri.path();
    if path.len() < 2 || !path.ends_with('/') || path.ends_with("//") {
        return;
    }
    let path = &path[..path.len() - 1];
    let trimmed = match uri.query() {
        Some(query) => Uri::builder().path_and_query(format!("{path}?{query}")).build(),
        None => Uri::builder().path_and_query(path).build(),
    };
    if let Ok(trimmed) = trimmed {
        *uri = trimmed;
    }
}
