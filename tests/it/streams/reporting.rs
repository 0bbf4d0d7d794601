//! What a worker reports, and the acks.

use super::talk::{FromWorkerStream, Producer, ToWorkerStream, Worker, create};
use super::{config, server, task};
use crate::harness::Server;
use codeq_api::grpc::producer::CreateTask;
use codeq_api::grpc::worker::{
    Abandon, AbandonAck, Heartbeat, HeartbeatAck, Hello, Nack, NackAck, Result as Report, ResultAck,
    ResultBatch,
};
use serde_json::json;

fn completed(id: &str) -> Report {
    Report { task_id: id.into(), status: "COMPLETED".into(), ..Report::default() }
}

fn acked(id: &str) -> ResultAck {
    ResultAck { task_id: id.into(), ok: true, error_message: String::new() }
}

fn refused(id: &str, text: &str) -> ResultAck {
    ResultAck { task_id: id.into(), ok: false, error_message: text.into() }
}

async fn submit(worker: &mut Worker, report: Report) -> ResultAck {
    worker.send(ToWorkerStream::Result(report)).await;
    match worker.next().await {
        FromWorkerStream::ResultAck(ack) => ack,
        other => panic!("not an ack: {other:?}"),
    }
}

async fn submit_all(worker: &mut Worker, results: Vec<Report>) -> Vec<ResultAck> {
    worker.send(ToWorkerStream::ResultBatch(ResultBatch { results })).await;
    match worker.next().await {
        FromWorkerStream::ResultAckBatch(batch) => batch.acks,
        other => panic!("not a batch: {other:?}"),
    }
}

/// A task of `command` that the worker holds.
async fn lent(producer: &mut Producer, worker: &mut Worker, create: CreateTask) -> String {
    let command = create.command.clone();
    let id = producer.create(create).await;
    worker.ready(&[&command], 1).await;
    assert_eq!(worker.task().await.id, id);
    id
}

#[tokio::test]
async fn results_end_tasks() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    let id = lent(&mut producer, &mut worker, create(1, "c")).await;
    assert_eq!(submit(&mut worker, completed(&id)).await, acked(&id));
    let result = server.get(&format!("/v1/codeq/tasks/{id}/result"), "p").await.json;
    // Nothing was given, which is an empty object, which is left out.
    assert_eq!((&result["result"]["status"], result["result"].get("result")), (&json!("COMPLETED"), None));

    let id = lent(&mut producer, &mut worker, create(2, "c")).await;
    let failed = Report {
        status: "FAILED".into(),
        error: "boom".into(),
        result_json: r#"{"at": [1]}"#.into(),
        attempt: 1,
        ..completed(&id)
    };
    assert_eq!(submit(&mut worker, failed).await, acked(&id));
    let result = server.get(&format!("/v1/codeq/tasks/{id}/result"), "p").await.json;
    assert_eq!(
        (&result["result"]["error"], &result["result"]["result"]),
        (&json!("boom"), &json!({"at": [1]}))
    );
}

#[tokio::test]
async fn results_that_are_not_taken_say_why() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "a").await);
    let id = lent(&mut producer, &mut worker, create(1, "c")).await;
    let unknown = "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11";
    for nobody in [unknown, "", "no id"] {
        assert_eq!(submit(&mut worker, completed(nobody)).await, refused(nobody, "task not found"));
    }
    let table = [
        (Report { attempt: 2, ..completed(&id) }, "lease-lost"),
        (Report { attempt: -1, ..completed(&id) }, "lease-lost"),
        (
            Report { status: "DONE".into(), ..completed(&id) },
            r#"invalid status (must be COMPLETED or FAILED): "DONE""#,
        ),
        (
            Report { status: String::new(), ..completed(&id) },
            r#"invalid status (must be COMPLETED or FAILED): """#,
        ),
        (
            Report { status: "FAILED".into(), error: " ".into(), ..completed(&id) },
            "error required when status=FAILED",
        ),
        (Report { result_json: "[]".into(), ..completed(&id) }, "invalid result_json"),
        (Report { result_json: "{".into(), ..completed(&id) }, "invalid result_json"),
        (Report { result_json: vec![0xff].into(), ..completed(&id) }, "invalid result_json"),
    ];
    for (report, text) in table {
        assert_eq!(submit(&mut worker, report).await, refused(&id, text));
    }
    let mut other = Worker::of(&server, "w", "b").await;
    assert_eq!(submit(&mut other, completed(&id)).await, refused(&id, "not-owner"));
    let mut foreign = Worker::of(&server, "foreign", "a").await;
    assert_eq!(submit(&mut foreign, completed(&id)).await, refused(&id, "task not found"));
    assert_eq!(submit(&mut worker, completed(&id)).await, acked(&id));
    assert_eq!(submit(&mut worker, completed(&id)).await, refused(&id, "not-in-progress"));
}

#[tokio::test]
async fn batches_of_results_are_answered_in_order_and_bounded() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    let first = lent(&mut producer, &mut worker, create(1, "c")).await;
    let second = lent(&mut producer, &mut worker, create(2, "c")).await;
    // An empty batch has no answer.
    worker.send(ToWorkerStream::ResultBatch(ResultBatch::default())).await;
    let batch = vec![
        completed(&second),
        completed("nobody"),
        Report { result_json: "1".into(), ..completed(&first) },
        completed(&first),
        completed(&second),
    ];
    let expected = [
        acked(&second),
        refused("nobody", "task not found"),
        refused(&first, "invalid result_json"),
        acked(&first),
        refused(&second, "not-in-progress"),
    ];
    assert_eq!(submit_all(&mut worker, batch).await, expected);
    let acks = submit_all(&mut worker, vec![completed("x"); 1001]).await;
    assert_eq!(acks, vec![refused("x", "batch size exceeds maximum of 1000"); 1001]);
}

async fn nack(worker: &mut Worker, nack: Nack) -> NackAck {
    worker.send(ToWorkerStream::Nack(nack)).await;
    match worker.next().await {
        FromWorkerStream::NackAck(ack) => ack,
        other => panic!("not an ack: {other:?}"),
    }
}

#[tokio::test]
async fn nacks_tell_the_delay_or_the_dead_letter() {
    let mut config = config();
    config["backoffPolicy"] = "fixed".into();
    config["backoffBaseSeconds"] = 7.into();
    let server = Server::serve(config);
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    for (delay_seconds, applied) in [(0, 7), (-5, 7), (30, 30)] {
        let id = lent(&mut producer, &mut worker, create(1, "c")).await;
        let given = Nack {
            task_id: id.clone(),
            delay_seconds,
            reason: "later".into(),
            attempt: 1,
            ..Default::default()
        };
        let ack = nack(&mut worker, given).await;
        let expected =
            NackAck { task_id: id.clone(), ok: true, applied_delay_seconds: applied, ..NackAck::default() };
        assert_eq!(ack, expected);
        assert_eq!(task(&server, &id).await["error"], "later");
    }
    let id = lent(&mut producer, &mut worker, CreateTask { max_attempts: 1, ..create(1, "c") }).await;
    let ack = nack(&mut worker, Nack { task_id: id.clone(), ..Nack::default() }).await;
    assert_eq!(ack, NackAck { task_id: id.clone(), ok: true, dlq: true, ..NackAck::default() });
    for (task_id, attempt, text) in
        [(&*id, 0, "not-in-progress"), (&*id, 9, "lease-lost"), ("?", 0, "not-found")]
    {
        let ack = nack(&mut worker, Nack { task_id: task_id.into(), attempt, ..Nack::default() }).await;
        assert_eq!((ack.ok, &*ack.error_message), (false, text));
    }
}

#[tokio::test]
async fn heartbeats_and_abandons_are_acked() {
    let server = server();
    let (mut producer, mut worker) = (Producer::of(&server).await, Worker::of(&server, "w", "").await);
    let id = lent(&mut producer, &mut worker, CreateTask { max_attempts: 1, ..create(1, "c") }).await;
    let before = task(&server, &id).await["leaseUntil"].clone();
    for (task_id, attempt, text) in [(&*id, 1, ""), (&*id, 2, "lease-lost"), ("?", 0, "not-found")] {
        let beat = Heartbeat { task_id: task_id.into(), extend_seconds: 3600, attempt, ..Default::default() };
        worker.send(ToWorkerStream::Heartbeat(beat)).await;
        let expected = HeartbeatAck {
            task_id: task_id.into(),
            ok: text.is_empty(),
            error_message: text.into(),
            ..Default::default()
        };
        let FromWorkerStream::HeartbeatAck(ack) = worker.next().await else { panic!("an ack") };
        assert_eq!(ack.lease_until.is_empty(), !text.is_empty());
        assert_eq!(HeartbeatAck { lease_until: String::new(), ..ack }, expected);
    }
    assert_ne!(task(&server, &id).await["leaseUntil"], before);

    let abandon = |refund| Abandon { task_id: id.clone(), attempt: 0, refund, ..Default::default() };
    worker.send(ToWorkerStream::Abandon(abandon(true))).await;
    let back = AbandonAck { task_id: id.clone(), ok: true, ..AbandonAck::default() };
    assert_eq!(worker.next().await, FromWorkerStream::AbandonAck(back.clone()));
    worker.ready(&["c"], 1).await;
    assert_eq!(worker.task().await.attempts, 2);
    worker.send(ToWorkerStream::Abandon(abandon(false))).await;
    assert_eq!(worker.next().await, FromWorkerStream::AbandonAck(AbandonAck { dlq: true, ..back }));
    worker.send(ToWorkerStream::Abandon(abandon(false))).await;
    let FromWorkerStream::AbandonAck(ack) = worker.next().await else { panic!("no ack") };
    assert_eq!((ack.ok, &*ack.error_message), (false, "not-in-progress"));
}

#[tokio::test]
async fn a_worker_that_asked_for_it_is_told_at_once_that_a_task_is_to_stop() {
    let server = server();
    let mut producer = Producer::of(&server).await;
    let mut told = Worker::open(&server.worker_streams).await;
    let hello = Hello { token: "w".into(), worker_id: "a".into(), accepts_cancel: true, ..Hello::default() };
    told.send(ToWorkerStream::Hello(hello)).await;
    told.greeted().await;
    let mut untold = Worker::of(&server, "w", "b").await;
    let first = lent(&mut producer, &mut told, create(1, "c")).await;
    let second = lent(&mut producer, &mut untold, create(2, "c")).await;
    for id in [&second, &first] {
        let asked = json!({"graceSeconds": 60, "reason": "not needed"});
        let got = server.post(&format!("/v1/codeq/tasks/{id}/cancel"), "p", asked).await;
        assert_eq!(got.status, 200, "{}", got.text);
    }
    let FromWorkerStream::Cancel(cancel) = told.next().await else { panic!("no Cancel") };
    let said = (&*cancel.task_id, cancel.attempt, &*cancel.reason, cancel.deadline.is_some());
    assert_eq!(said, (&*first, 1, "not needed", true));
    // What it reports within the grace counts, and one that did not ask hears only answers.
    assert_eq!(submit(&mut told, completed(&first)).await, acked(&first));
    assert_eq!(submit(&mut untold, completed(&second)).await, acked(&second));
}
