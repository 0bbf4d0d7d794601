//! The echo stream: acknowledges every create without looking at it.

use codeq_api::grpc::producer::producer_event::Event;
use codeq_api::grpc::producer::producer_stream_server::{ProducerStream, ProducerStreamServer};
use codeq_api::grpc::producer::server_event::Event as Answer;
use codeq_api::grpc::producer::{
    CreateAck, CreateAckBatch, CreateTask, HelloAck, ProducerEvent, ServerEvent,
};
use std::pin::Pin;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// The echo stream, in a process of its own; used by `bench grpc`.
#[derive(clap::Args)]
pub struct EchoStream {}

impl EchoStream {
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            println!("{}", serde_json::json!({"msg": "listening", "addr": listener.local_addr()?}));
            let server = tonic::transport::Server::builder()
                .tcp_nodelay(true)
                .initial_stream_window_size(1 << 20)
                .initial_connection_window_size(4 << 20)
                .add_service(ProducerStreamServer::new(Echo));
            Ok(server.serve_with_incoming(TcpListenerStream::new(listener)).await?)
        })
    }
}

struct Echo;

#[tonic::async_trait]
impl ProducerStream for Echo {
    type StreamStream = Pin<Box<dyn Stream<Item = Result<ServerEvent, Status>> + Send>>;

    async fn stream(
        &self,
        request: Request<Streaming<ProducerEvent>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let answers = request.into_inner().map(|event| {
            let event = match event?.event {
                Some(Event::Create(task)) => Answer::CreateAck(ack(task)),
                Some(Event::CreateBatch(batch)) => {
                    let acks = batch.tasks.into_iter().map(ack).collect();
                    Answer::CreateAckBatch(CreateAckBatch { acks })
                }
                _ => Answer::HelloAck(HelloAck::default()),
            };
            Ok(ServerEvent { event: Some(event) })
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

fn ack(task: CreateTask) -> CreateAck {
    let task_id = "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11".to_owned();
    CreateAck { seq: task.seq, ok: true, task_id, ..CreateAck::default() }
}
