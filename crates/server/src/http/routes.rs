//! The route table: the whole surface in one place.

use super::call::Call;
use super::error::Error;
use super::{
    Limits, admin, audit, backup, batches, clock, docs, events, health, history, policies, produce, repair,
    schedules, search, store, subscribe, transfer, ui, webhooks, work, workers,
};
use crate::auth::{Access, Admin, Operator, Producer, Reader, Scope, Worker};
use crate::rate::RateScope;
use axum::http::Method;
use axum::response::Response;
use axum::routing::MethodFilter;
use std::pin::Pin;

pub type Reply = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>;
type Handler<C> = Box<dyn Fn(Call, C) -> Reply + Send + Sync>;

/// What a caller must be. A handler's argument states the right it needs.
pub enum Endpoint {
    /// No token.
    Open(Box<dyn Fn(Call) -> Reply + Send + Sync>),
    /// Any valid token.
    Any(Handler<Reader>),
    Producer(Handler<Producer>),
    Worker(Scope, Handler<Worker>),
    Admin(Handler<Admin>),
    Operator(Handler<Operator>),
}

/// Which bound of [`Limits`] the body has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyLimit {
    Body,
    Submit,
    Topic,
    Import,
}

/// Bytes of a topic's policy.
const TOPIC_BYTES: usize = 1024 * 1024;
/// Bytes of an import, which is read line by line.
const IMPORT_BYTES: usize = 64 << 30;

impl BodyLimit {
    pub fn bytes(self, limits: &Limits) -> usize {
        match self {
            BodyLimit::Body => limits.body,
            BodyLimit::Submit => limits.submit,
            BodyLimit::Topic => TOPIC_BYTES,
            BodyLimit::Import => IMPORT_BYTES,
        }
    }
}

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub limit: BodyLimit,
    pub rate: Option<(RateScope, &'static str)>,
    /// What it does is written down as the deed of an operator; admin routes do so anyway.
    pub is_deed: bool,
    /// The answer holds tasks that go back if it is not written.
    pub lends: bool,
    pub endpoint: Endpoint,
}

impl Route {
    fn new(method: Method, path: &'static str, endpoint: Endpoint) -> Route {
        Route { method, path, limit: BodyLimit::Body, rate: None, is_deed: false, lends: false, endpoint }
    }

    fn rated(self, scope: RateScope, operation: &'static str) -> Route {
        Route { rate: Some((scope, operation)), ..self }
    }

    fn lending(self) -> Route {
        Route { lends: true, ..self }
    }

    fn limited(self, limit: BodyLimit) -> Route {
        Route { limit, ..self }
    }

    fn deed(self) -> Route {
        Route { is_deed: true, ..self }
    }

    /// Whether a success leaves a record in the audit.
    pub fn is_noted(&self) -> bool {
        let is_admin = matches!(self.endpoint, Endpoint::Admin(_));
        self.access() == Access::Change && (is_admin || self.is_deed)
    }

    pub fn access(&self) -> Access {
        if self.method == Method::GET { Access::Read } else { Access::Change }
    }

    pub fn filter(&self) -> MethodFilter {
        MethodFilter::try_from(self.method.clone()).expect("the table holds plain methods")
    }

    /// The right, in words: `none`, `any`, `producer`, `admin`, `operator`, or the scope of a worker route.
    pub fn right(&self) -> &'static str {
        match &self.endpoint {
            Endpoint::Open(_) => "none",
            Endpoint::Any(_) => "any",
            Endpoint::Producer(_) => "producer",
            Endpoint::Worker(scope, _) => scope.word(),
            Endpoint::Admin(_) => "admin",
            Endpoint::Operator(_) => "operator",
        }
    }
}

fn get(path: &'static str, endpoint: Endpoint) -> Route {
    Route::new(Method::GET, path, endpoint)
}

fn post(path: &'static str, endpoint: Endpoint) -> Route {
    Route::new(Method::POST, path, endpoint)
}

fn delete(path: &'static str, endpoint: Endpoint) -> Route {
    Route::new(Method::DELETE, path, endpoint)
}

fn boxed<C, F>(handler: impl Fn(Call, C) -> F + Send + Sync + 'static) -> Handler<C>
where
    F: Future<Output = Result<Response, Error>> + Send + 'static,
{
    Box::new(move |call, caller| Box::pin(handler(call, caller)))
}

fn open<F>(handler: impl Fn(Call) -> F + Send + Sync + 'static) -> Endpoint
where
    F: Future<Output = Result<Response, Error>> + Send + 'static,
{
    Endpoint::Open(Box::new(move |call| Box::pin(handler(call))))
}

fn any<F>(handler: impl Fn(Call, Reader) -> F + Send + Sync + 'static) -> Endpoint
where
    F: Future<Output = Result<Response, Error>> + Send + 'static,
{
    Endpoint::Any(boxed(handler))
}

fn producer<F>(handler: impl Fn(Call, Producer) -> F + Send + Sync + 'static) -> Endpoint
where
    F: Future<Output = Result<Response, Error>> + Send + 'static,
{
    Endpoint::Producer(boxed(handler))
}

fn worker<F>(scope: Scope, handler: impl Fn(Call, Worker) -> F + Send + Sync + 'static) -> Endpoint
where
    F: Future<Output = Result<Response, Error>> + Send + 'static,
{
    Endpoint::Worker(scope, boxed(handler))
}

fn admin<F>(handler: impl Fn(Call, Admin) -> F + Send + Sync + 'static) -> Endpoint
where
    F: Future<Output = Result<Response, Error>> + Send + 'static,
{
    Endpoint::Admin(boxed(handler))
}

fn operator<F>(handler: impl Fn(Call, Operator) -> F + Send + Sync + 'static) -> Endpoint
where
    F: Future<Output = Result<Response, Error>> + Send + 'static,
{
    Endpoint::Operator(boxed(handler))
}

/// Only where a test moves the clock; anywhere else there is no such path.
pub fn test_clock() -> Route {
    post("/v1/codeq/test/clock", admin(clock::advance))
}

pub fn table() -> Vec<Route> {
    use Scope::{Abandon, Claim, Heartbeat, Nack, Result, Subscribe};
    vec![
        post("/v1/codeq/tasks", producer(produce::create)).rated(RateScope::Producer, "create_task"),
        post("/v1/codeq/tasks/batch", producer(produce::create_batch))
            .rated(RateScope::Producer, "create_task"),
        post("/v1/codeq/tasks/claim", worker(Claim, work::claim)).rated(RateScope::Worker, "claim").lending(),
        post("/v1/codeq/tasks/claim/batch", worker(Claim, work::claim_batch))
            .rated(RateScope::Worker, "claim")
            .lending(),
        post("/v1/codeq/tasks/{id}/heartbeat", worker(Heartbeat, work::heartbeat)),
        post("/v1/codeq/tasks/{id}/abandon", worker(Abandon, work::abandon)),
        post("/v1/codeq/tasks/{id}/nack", worker(Nack, work::nack)),
        post("/v1/codeq/tasks/{id}/result", worker(Result, work::submit)).limited(BodyLimit::Submit),
        post("/v1/codeq/tasks/{id}/cancel", producer(repair::cancel_own)),
        post("/v1/codeq/tasks/batch/heartbeat", worker(Heartbeat, work::heartbeat_batch)),
        post("/v1/codeq/tasks/batch/results", worker(Result, work::submit_batch)).limited(BodyLimit::Submit),
        get("/v1/codeq/tasks/{id}", any(produce::get)),
        get("/v1/codeq/tasks/{id}/result", any(produce::result)),
        get("/v1/codeq/tasks/{id}/artifacts/{name}", any(produce::artifact)),
        post("/v1/codeq/workers/subscriptions", worker(Subscribe, subscribe::subscribe)),
        post("/v1/codeq/workers/subscriptions/{id}/heartbeat", worker(Subscribe, subscribe::renew)),
        get("/v1/codeq/schedules", producer(schedules::list)),
        Route::new(Method::PUT, "/v1/codeq/schedules/{scheduleName}", producer(schedules::put)).deed(),
        get("/v1/codeq/schedules/{scheduleName}", producer(schedules::get)),
        delete("/v1/codeq/schedules/{scheduleName}", producer(schedules::delete)).deed(),
        post("/v1/codeq/schedules/{scheduleName}/trigger", producer(schedules::trigger))
            .rated(RateScope::Producer, "create_task"),
        post("/v1/codeq/schedules/{scheduleName}/pause", producer(schedules::pause)).deed(),
        post("/v1/codeq/schedules/{scheduleName}/resume", producer(schedules::resume)).deed(),
        get("/v1/codeq/schedules/{scheduleName}/next", producer(schedules::next)),
        post("/v1/codeq/schedules/{scheduleName}/backfill", producer(schedules::backfill)).deed(),
        post("/v1/codeq/batches", producer(batches::create)).rated(RateScope::Producer, "create_task"),
        get("/v1/codeq/batches/{batchId}", producer(batches::get)),
        delete("/v1/codeq/batches/{batchId}", producer(batches::cancel)),
        post("/v1/codeq/batches/{batchId}/close", producer(batches::close)),
        get("/v1/codeq/batches/{batchId}/members", producer(batches::members)),
        get("/v1/codeq/events", any(events::listen)),
        get("/v1/codeq/raft/status", any(health::raft_status)),
        get("/v1/codeq/admin/queues", admin(admin::queues)),
        get("/v1/codeq/admin/queues/{command}", admin(admin::queue)),
        Route::new(Method::PUT, "/v1/codeq/admin/queues/{command}/policy", admin(policies::put))
            .limited(BodyLimit::Topic),
        get("/v1/codeq/admin/queues/{command}/policy", admin(policies::get)),
        delete("/v1/codeq/admin/queues/{command}/policy", admin(policies::delete)),
        get("/v1/codeq/admin/queues/{command}/lanes", admin(policies::lanes)),
        post("/v1/codeq/admin/tasks/cleanup", admin(admin::cleanup)).rated(RateScope::Admin, "cleanup"),
        Route::new(Method::PUT, "/v1/codeq/admin/topics/{topicName}", admin(admin::put_topic))
            .limited(BodyLimit::Topic),
        get("/v1/codeq/admin/topics/{topicName}", admin(admin::topic)),
        delete("/v1/codeq/admin/topics/{topicName}", admin(admin::delete_topic)),
        get("/v1/codeq/admin/history", admin(history::history)),
        get("/v1/codeq/admin/store", admin(store::store)),
        get("/v1/codeq/admin/workers", admin(workers::list)),
        get("/v1/codeq/admin/audit", admin(audit::list)),
        get("/v1/codeq/admin/tasks", admin(search::list)),
        post("/v1/codeq/admin/tasks/cancel", admin(repair::cancel_all)),
        get("/v1/codeq/admin/tasks/{id}/explain", admin(search::explain)),
        get("/v1/codeq/admin/tasks/{id}/attempts", admin(search::attempts)),
        post("/v1/codeq/admin/tasks/{id}/cancel", admin(repair::cancel)),
        post("/v1/codeq/admin/tasks/{id}/run-now", admin(repair::run_now)),
        get("/v1/codeq/admin/dlq/{command}", admin(search::dead_letters)),
        delete("/v1/codeq/admin/dlq/{command}", admin(repair::remove_all)),
        get("/v1/codeq/admin/dlq/{command}/groups", admin(search::groups)),
        post("/v1/codeq/admin/dlq/{command}/requeue", admin(repair::requeue_all)),
        post("/v1/codeq/admin/dlq/{command}/{id}/requeue", admin(repair::requeue)),
        delete("/v1/codeq/admin/dlq/{command}/{id}", admin(repair::remove)),
        get("/v1/codeq/admin/failed/{command}", admin(search::failed)),
        get("/v1/codeq/admin/failed/{command}/groups", admin(search::failed_groups)),
        post("/v1/codeq/admin/failed/{command}/requeue", admin(repair::requeue_failed)),
        post("/v1/codeq/admin/failed/{command}/{id}/requeue", admin(repair::requeue)),
        post("/v1/codeq/admin/queues/{command}/pause", admin(repair::pause)),
        post("/v1/codeq/admin/queues/{command}/resume", admin(repair::resume)),
        get("/v1/codeq/admin/operations", admin(repair::operations)),
        get("/v1/codeq/admin/operations/{id}", admin(repair::operation)),
        post("/v1/codeq/admin/operations/{id}/cancel", admin(repair::cancel_operation)),
        get("/v1/codeq/admin/backup", operator(backup::backup)),
        get("/v1/codeq/admin/export", admin(transfer::export)),
        post("/v1/codeq/admin/import", admin(transfer::import)).limited(BodyLimit::Import),
        get("/v1/codeq/admin/webhooks", admin(webhooks::list)),
        post("/v1/codeq/admin/webhooks/redeliver", admin(webhooks::redeliver_all)),
        post("/v1/codeq/admin/webhooks/{id}/redeliver", admin(webhooks::redeliver)),
        get("/healthz", open(health::live)),
        get("/livez", open(health::live)),
        get("/readyz", open(health::ready)),
        get("/metrics", open(health::metrics)),
        get("/openapi.json", open(docs::openapi)),
        get("/docs", open(docs::page)),
        get("/docs/docs.css", open(docs::style)),
        get("/docs/docs.js", open(docs::script)),
        get("/ui", open(ui::page)),
        get("/ui/{*asset}", open(ui::asset)),
    ]
}
