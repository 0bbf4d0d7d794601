//! Trace context and counts of gRPC streams.

use super::collector::{Collector, only};
use super::tracing;
use crate::harness::Server;
use crate::streams::talk::connect;
use crate::streams::{config, task};
use codeq_api::grpc::producer::producer_stream_client::ProducerStreamClient;
use codeq_api::grpc::producer::server_event::Event as Answer;
use codeq_api::grpc::producer::{CreateTask, Hello, ProducerEvent, ServerEvent, producer_event::Event};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Streaming};

const OF_STREAM: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OF_TASK: &str = "00-11111111111111111111111111111111-2222222222222222-01";

fn traced(collector: &Collector) -> Server {
    let mut config = config();
    let more = tracing(&collector.address);
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    Server::serve(config)
}

/// A producer whose metadata carries a trace, greeted.
async fn open(server: &Server) -> (mpsc::Sender<ProducerEvent>, Streaming<ServerEvent>) {
    let mut client = ProducerStreamClient::new(connect(&server.producer_streams).await);
    let (sender, events) = mpsc::channel(16);
    let mut request = Request::new(ReceiverStream::new(events));
    request.metadata_mut().insert("traceparent", OF_STREAM.parse().expect("a value"));
    let mut answers = client.stream(request).await.expect("a stream").into_inner();
    send(&sender, Event::Hello(Hello { token: "p".into() })).await;
    assert!(matches!(next(&mut answers).await, Answer::HelloAck(_)));
    (sender, answers)
}

async fn send(sender: &mpsc::Sender<ProducerEvent>, event: Event) {
    sender.send(ProducerEvent { event: Some(event) }).await.expect("the stream is open");
}

async fn next(answers: &mut Streaming<ServerEvent>) -> Answer {
    answers.message().await.expect("no error").expect("an answer").event.expect("an event")
}

#[tokio::test]
async fn creates_belong_to_the_trace_of_the_message_or_of_the_stream() {
    let collector = Collector::start().await;
    let server = traced(&collector);
    let (sender, mut answers) = open(&server).await;
    for (trace_parent, trace) in [("", &OF_STREAM[3..35]), (OF_TASK, &OF_TASK[3..35])] {
        let create = CreateTask {
            command: "c".into(),
            payload: "1".into(),
            trace_parent: trace_parent.into(),
            ..CreateTask::default()
        };
        send(&sender, Event::Create(create)).await;
        let Answer::CreateAck(ack) = next(&mut answers).await else { panic!("no ack") };
        let task: Value = task(&server, &ack.task_id).await;
        let of_trace = |span: &super::collector::Span| span.trace == trace;
        let spans = collector.wait(|all| all.iter().any(of_trace)).await;
        let spans: Vec<_> = spans.into_iter().filter(of_trace).collect();
        let created = only(&spans, "codeq.task.create");
        assert_eq!(task["traceParent"], format!("00-{trace}-{}-01", created.id));
    }
}

#[tokio::test]
async fn open_streams_are_counted() {
    let collector = Collector::start().await;
    let server = traced(&collector);
    server_counts(&server, 0).await;
    let (sender, answers) = open(&server).await;
    server_counts(&server, 1).await;
    drop((sender, answers));
    server_counts(&server, 0).await;
}

async fn server_counts(server: &Server, producers: usize) {
    server.until_metric(&format!("codeq_grpc_streams{{service=\"producer\"}} {producers}")).await;
}
