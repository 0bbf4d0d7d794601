//! A collector of traces: the OTLP service, remembering what it was sent.

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// Longer than any test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Span {
    /// Of the resource.
    pub service: String,
    pub tracer: String,
    pub name: String,
    pub trace: String,
    pub id: String,
    /// Empty for the first of a trace.
    pub parent: String,
    pub state: String,
    pub attributes: BTreeMap<String, Value>,
    pub is_error: bool,
    pub started: u64,
    pub ended: u64,
}

#[derive(Clone, Default)]
pub struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    arrived: Arc<Notify>,
    pub address: String,
}

impl Collector {
    pub async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let collector = Collector { address, ..Collector::default() };
        let service = TraceServiceServer::new(collector.clone());
        let serving = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
        collector
    }

    pub fn all(&self) -> Vec<Span> {
        self.spans.lock().expect("no one panics holding it").clone()
    }

    /// Everything, once it holds a span that satisfies `is` for each name.
    pub async fn until(&self, names: &[&str]) -> Vec<Span> {
        let has = |all: &[Span], name: &&str| all.iter().any(|span| span.name == **name);
        self.wait(|all| names.iter().all(|name| has(all, name))).await
    }

    pub async fn wait(&self, is_enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let waiting = async {
            loop {
                let arrived = self.arrived.notified();
                let all = self.all();
                if is_enough(&all) {
                    return all;
                }
                arrived.await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("not enough came: {:#?}", self.all()))
    }
}

/// The one span of this name.
pub fn only<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {spans:#?}");
    found[0]
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = Vec::new();
        for of_resource in request.into_inner().resource_spans {
            let resource = attributes(of_resource.resource.unwrap_or_default().attributes);
            let service = resource["service.name"].as_str().expect("a name").to_owned();
            for of_scope in of_resource.scope_spans {
                let tracer = of_scope.scope.unwrap_or_default().name;
                spans.extend(of_scope.spans.into_iter().map(|span| Span {
                    service: service.clone(),
                    tracer: tracer.clone(),
                    name: span.name,
                    trace: hex(&span.trace_id),
                    id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    state: span.trace_state,
                    attributes: attributes(span.attributes),
                    is_error: span.status.is_some_and(|status| status.code == 2),
                    started: span.start_time_unix_nano,
                    ended: span.end_time_unix_nano,
                }));
            }
        }
        self.spans.lock().expect("no one panics holding it").extend(spans);
        self.arrived.notify_waiters();
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, Value> {
    let value = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => json!(text),
        Some(any_value::Value::IntValue(number)) => json!(number),
        Some(any_value::Value::BoolValue(is)) => json!(is),
        other => panic!("{other:?}"),
    };
    pairs.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}
