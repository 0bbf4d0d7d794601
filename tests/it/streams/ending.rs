//! How streams end: half-close, expiry, shutdown.

use super::issuing::Keys;
use super::talk::{
    FromProducerStream, FromWorkerStream, Producer, ToProducerStream, ToWorkerStream, Worker, create,
};
use super::{SCOPES, config, server, task};
use crate::harness::Server;
use codeq_api::grpc::worker::Result as Report;
use serde_json::json;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// All acks up to the end, and the end.
async fn acks(producer: &mut Producer) -> (u64, Status) {
    let mut acks = 0;
    loop {
        match producer.answer().await {
            Ok(Some(event)) => {
                let Some(FromProducerStream::CreateAck(ack)) = event.event else { panic!("not an ack") };
                assert!(ack.ok, "{}", ack.error_message);
                acks += 1;
            }
            Ok(None) => return (acks, Status::ok("")),
            Err(status) => return (acks, status),
        }
    }
}

#[tokio::test]
async fn a_half_close_flushes_the_acks_of_a_producer() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    for seq in 0..200 {
        producer.send(ToProducerStream::Create(create(seq, "c"))).await;
    }
    producer.half_close();
    let (acks, status) = acks(&mut producer).await;
    assert_eq!((acks, status.code()), (200, Code::Ok));
}

#[tokio::test]
async fn a_half_close_flushes_the_acks_of_a_worker_and_cancels_its_readys() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    let id = producer.create(create(1, "c")).await;
    worker.ready(&["c"], 1).await;
    worker.task().await;
    worker.ready(&["c"], 1).await;
    let result = Report { task_id: id.clone(), status: "COMPLETED".into(), ..Report::default() };
    worker.send(ToWorkerStream::Result(result)).await;
    worker.half_close();
    let FromWorkerStream::ResultAck(ack) = worker.next().await else { panic!("no ack") };
    assert!(ack.ok && ack.task_id == id);
    assert_eq!(worker.status().await.code(), Code::Ok);
    let id = producer.create(create(2, "c")).await;
    assert_eq!(task(&server, &id).await["status"], "PENDING");
}

/// A server whose tokens are signed, and a worker's token for so long.
async fn signed(seconds: i64, end_at_expiry: bool) -> (Server, String) {
    let keys = Keys::served().await;
    let mut config = config();
    config["workerAuthProvider"] = "jwks".into();
    config["workerAuthConfig"] = keys.provider();
    config["streams"] = json!({"endAtTokenExpiry": end_at_expiry});
    let server = Server::serve(config);
    let token = keys.token(seconds, json!({"sub": "w", "scope": SCOPES.join(" "), "eventTypes": ["*"]}));
    (server, token)
}

#[tokio::test]
async fn a_stream_ends_when_its_token_does_and_leases_run_on() {
    let (server, token) = signed(3, true).await;
    let started = Instant::now();
    let mut producer = Producer::of(&server).await;
    let mut worker = Worker::of(&server, &token, "").await;
    let id = producer.create(create(1, "c")).await;
    worker.ready(&["c"], 1).await;
    worker.task().await;
    worker.ready(&["c"], 1).await;
    let status = worker.status().await;
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "token expired"));
    assert!(started.elapsed() > Duration::from_millis(1500), "{:?}", started.elapsed());
    assert_eq!(task(&server, &id).await["status"], "IN_PROGRESS");
    // And the token opens no other.
    let mut again = Worker::open(&server.worker_streams).await;
    again.hello(&token, "").await;
    assert_eq!(again.status().await.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_stream_may_be_allowed_to_outlive_its_token() {
    let (server, token) = signed(2, false).await;
    let mut worker = Worker::of(&server, &token, "").await;
    worker.ready(&["c"], 1).await;
    let ended = tokio::time::timeout(Duration::from_secs(4), worker.status()).await;
    assert!(ended.is_err(), "{ended:?}");
}

#[tokio::test]
async fn a_token_that_expires_under_load_leaves_no_create_without_its_ack() {
    let keys = Keys::served().await;
    let mut config = config();
    config["producerAuthProvider"] = "multi".into();
    config["producerAuthConfig"] = json!({"providers": [
        {"type": "jwks", "config": keys.provider()},
        super::token("p", "producer", "acme", &[], &[]),
    ]});
    let server = Server::serve(config);
    let mut producer = Producer::open(&server.producer_streams).await;
    producer.hello(&keys.token(2, json!({"sub": "p"}))).await;
    producer.next().await;
    let (acked, status) = create_until_the_end(producer).await;
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "token expired"));
    let queue = server.get("/v1/codeq/admin/queues/c", "p").await.json;
    assert_eq!(queue["ready"], acked);
}

/// Creates as fast as it is answered; how many acks there were, and the end.
async fn create_until_the_end(mut producer: Producer) -> (u64, Status) {
    let mut acked = 0;
    loop {
        for seq in 0..100 {
            let create = codeq_api::grpc::producer::ProducerEvent {
                event: Some(ToProducerStream::Create(create(seq, "c"))),
            };
            if producer.try_send(create).await.is_err() {
                break;
            }
        }
        for _ in 0..100 {
            match producer.answer().await {
                Ok(Some(_)) => acked += 1,
                Ok(None) => return (acked, Status::ok("")),
                Err(status) => return (acked, status),
            }
        }
    }
}

#[tokio::test]
async fn shutdown_flushes_acks_and_then_says_so() {
    let mut server = server();
    let mut producer = Producer::of(&server).await;
    let worker = Worker::of(&server, "w", "").await;
    worker.ready(&["nothing"], 1).await;
    producer.create(create(0, "c")).await;
    let running = tokio::spawn(create_until_the_end(producer));
    let waiting = tokio::spawn(async move {
        let mut worker = worker;
        worker.status().await
    });
    server.until_claims_wait(1).await;
    let started = Instant::now();
    server.signal("TERM");
    let (acked, status) = running.await.expect("no panic");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "shutting down"));
    let status = waiting.await.expect("no panic");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "shutting down"));
    assert!(server.wait().success());
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    server.start_again();
    let queue = server.get("/v1/codeq/admin/queues/c", "p").await.json;
    assert_eq!(queue["ready"], acked + 1);
}

#[tokio::test]
async fn a_stream_that_is_not_read_does_not_hold_up_the_shutdown_for_long() {
    let mut server = server();
    let producer = Producer::of(&server).await;
    let sending = async {
        for seq in 0..50_000 {
            producer.send(ToProducerStream::Create(create(seq, "a b"))).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), sending).await;
    let started = Instant::now();
    assert!(server.terminate().success());
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}
