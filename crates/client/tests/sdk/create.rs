//! Producers.

use crate::server::{PATIENCE, Server};
use crate::transport::{BOTH, Transport};
use codeq_client::{Error, NewTask, Producer};
use serde_json::json;
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn everything_a_task_is_asked_to_be_arrives() {
    let server = Server::start();
    for transport in BOTH {
        let producer = transport.producer(&server);
        let task = NewTask::raw("shape", r#"{"n" : 9007199254740993}"#)
            .priority(7)
            .webhook("http://127.0.0.1:1/hook")
            .header("origin", "test")
            .max_attempts(3)
            .run_at(SystemTime::now() + Duration::from_secs(3600));
        let created = producer.create(task).await.unwrap();
        let task = producer.get(&created.id).await.unwrap();
        assert_eq!(task.payload, r#"{"n" : 9007199254740993}"#, "{transport:?}");
        assert_eq!((task.priority, task.max_attempts), (7, 3));
        assert_eq!(task.webhook, "http://127.0.0.1:1/hook");
        assert_eq!(task.headers, vec![("origin".to_owned(), "test".to_owned())]);
        assert_eq!(task.last_known_location, "DELAYED_ZSET");
    }
}

#[tokio::test]
async fn a_batch_of_any_size_is_answered_in_order_and_item_by_item() {
    let server = Server::start();
    for transport in BOTH {
        let producer = transport.producer(&server);
        let tasks = (0..2500).map(|n| match n {
            7 => NewTask::new("not a command", &n),
            8 => NewTask::raw("many", "{"),
            _ => NewTask::new("many", &n),
        });
        let answers = producer.create_all(tasks).await;
        assert_eq!(answers.len(), 2500);
        assert_eq!(answers[7].as_ref().unwrap_err().code(), "invalid_command", "{transport:?}");
        assert!(matches!(answers[8], Err(Error::Json(_))));
        for n in [0, 6, 9, 99, 100, 1000, 2499] {
            let task = producer.get(&answers[n].as_ref().unwrap().id).await.unwrap();
            assert_eq!(task.payload, n.to_string(), "{transport:?}");
        }
    }
    assert_eq!(server.stats("many").await["ready"], 2 * 2498);
}

#[tokio::test]
async fn a_batch_that_no_message_could_hold_is_cut() {
    let server = Server::start();
    let payload = "x".repeat(1_000_000);
    for transport in BOTH {
        let tasks = (0..40).map(|_| NewTask::new("heavy", &payload));
        let answers = transport.producer(&server).create_all(tasks).await;
        assert!(
            answers.iter().all(Result::is_ok),
            "{transport:?}: {:?}",
            answers.iter().find(|a| a.is_err())
        );
    }
    assert_eq!(server.stats("heavy").await["ready"], 80);
}

#[tokio::test]
async fn a_key_of_ones_own_creates_once_and_says_so() {
    let server = Server::start();
    for transport in BOTH {
        let producer = transport.producer(&server);
        let task = NewTask::new("keyed", &1).idempotency_key(format!("{transport:?}"));
        let first = producer.create(task.clone()).await.unwrap();
        let second = producer.create(task).await.unwrap();
        assert_eq!(first.id, second.id);
        assert!(!first.replayed && second.replayed);
        let unkeyed = NewTask::new("keyed", &1);
        let (third, fourth) = (producer.create(unkeyed.clone()).await, producer.create(unkeyed).await);
        assert_ne!(third.unwrap().id, fourth.unwrap().id, "two calls without a key are two tasks");
    }
}

#[tokio::test]
async fn refusals_are_the_same_over_both_transports() {
    let server = Server::start();
    let far = SystemTime::now() + Duration::from_secs(400 * 86_400);
    for transport in BOTH {
        let producer = transport.producer(&server);
        let refused = async |task: NewTask| match producer.create(task).await {
            Err(Error::Refused { status, code, .. }) => (status, code),
            other => panic!("{transport:?}: {other:?}"),
        };
        let code = |code: &str| (400, code.to_owned());
        assert_eq!(refused(NewTask::new("no good", &1)).await, code("invalid_command"));
        assert_eq!(refused(NewTask::new("c", &1).webhook("ftp://x")).await, code("invalid_webhook_url"));
        assert_eq!(refused(NewTask::new("c", &1).run_at(far)).await, code("invalid_run_at"));
        let key = "k".repeat(256);
        assert_eq!(
            refused(NewTask::new("c", &1).idempotency_key(key)).await,
            code("invalid_idempotency_key")
        );
        let large = "x".repeat(1024 * 1024 + 1);
        assert_eq!(refused(NewTask::new("c", &large)).await, (413, "payload_too_large".to_owned()));
    }
}

#[tokio::test]
async fn reads_need_the_base_url_and_say_so() {
    let server = Server::start();
    let producer = Producer::stream(&server.producer_stream, crate::server::TOKEN);
    let created = producer.create(NewTask::new("c", &json!({}))).await.unwrap();
    assert_eq!(producer.get(&created.id).await.unwrap_err(), Error::NeedsHttp);
    let error = producer.wait_for_result(&created.id, PATIENCE).await.unwrap_err();
    assert!(error.to_string().contains("Connection::http"), "{error}");
}

#[tokio::test]
async fn waiting_ends_with_the_time_or_at_once_for_an_unknown_task() {
    let server = Server::start();
    let producer = Transport::Http.producer(&server);
    let created = producer.create(NewTask::new("never", &1)).await.unwrap();
    let waited = producer.wait_for_result(&created.id, Duration::from_millis(300)).await;
    assert_eq!(waited.unwrap_err(), Error::NotFinished);
    for unknown in ["5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11", "../x", ""] {
        let waited = producer.wait_for_result(unknown, PATIENCE).await;
        assert_eq!(waited.unwrap_err().code(), "task_not_found", "{unknown}");
    }
}
