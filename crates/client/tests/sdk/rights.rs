//! Tokens: what a wrong one says, and how a right one replaces it.

use crate::server::{Server, TOKEN};
use crate::transport::{BOTH, Transport, run};
use codeq_client::{Connection, Error, Job, NewTask, Producer, Token, Worker};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const AT_ONCE: Duration = Duration::from_secs(5);

fn connection(transport: Transport, server: &Server, token: impl Into<Token>) -> Connection {
    let connection = Connection::new(token).http(&server.base);
    match transport {
        Transport::Http => connection,
        Transport::Stream => {
            connection.producer_stream(&server.producer_stream).worker_stream(&server.worker_stream)
        }
    }
}

async fn nothing(_: Job<()>) -> Result<(), String> {
    Ok(())
}

#[tokio::test]
async fn a_wrong_token_is_an_error_at_once_and_not_tried_again() {
    let server = Server::start();
    for transport in BOTH {
        let connection = connection(transport, &server, "wrong");
        let producer = Producer::new(&connection);
        let created = tokio::time::timeout(AT_ONCE, producer.create(NewTask::new("c", &()))).await;
        assert!(matches!(created.unwrap(), Err(Error::Unauthorized { .. })), "{transport:?}");
        let worker = Worker::new(&connection).handle("c", nothing).run();
        let ended = tokio::time::timeout(AT_ONCE, worker).await.unwrap();
        assert!(matches!(ended, Err(Error::Unauthorized { .. })), "{transport:?}");
    }
}

#[tokio::test]
async fn a_token_that_was_refused_is_replaced_by_a_new_one() {
    let server = Server::start();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let token = Token::renewed(move || {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        async move { Ok::<_, String>(if first { "expired".to_owned() } else { TOKEN.to_owned() }) }
    });
    let producer = Producer::http(&server.base, token);
    producer.create(NewTask::new("c", &())).await.unwrap();
    assert!(asked.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn a_source_of_tokens_that_fails_is_asked_again() {
    let server = Server::start();
    for transport in BOTH {
        let asked = AtomicUsize::new(0);
        let token = Token::renewed(move || {
            let fails = asked.fetch_add(1, Ordering::SeqCst) < 2;
            async move { if fails { Err("no issuer") } else { Ok(TOKEN.to_owned()) } }
        });
        let producer = Producer::new(&connection(transport, &server, token));
        producer.create(NewTask::new("c", &())).await.unwrap();
    }
}

#[tokio::test]
async fn a_worker_that_may_not_report_ends_and_says_why() {
    let server = Server::with(json!({
        "workerAuthProvider": "static",
        "workerAuthConfig": {
            "token": "mute", "subject": "mute", "eventTypes": ["known"], "scopes": ["codeq:claim"],
            "raw": {"tenantId": "dev-tenant"},
        },
    }));
    for transport in BOTH {
        let connection = connection(transport, &server, "mute");
        transport.producer(&server).create(NewTask::new("known", &())).await.unwrap();
        let error = run(Worker::new(&connection).handle("known", nothing)).ended().await.unwrap_err();
        assert_eq!(error.code(), "missing_scope", "{transport:?}");
        let error = run(Worker::new(&connection).handle("other", nothing)).ended().await.unwrap_err();
        assert_eq!(error.code(), "event_type_not_allowed", "{transport:?}");
    }
}

#[tokio::test]
async fn settings_that_cannot_work_are_told_by_the_first_call() {
    let settings = |error: Error| assert!(matches!(error, Error::Settings(_)), "{error}");
    settings(Producer::http("not a url", TOKEN).create(NewTask::new("c", &())).await.unwrap_err());
    settings(Producer::new(&Connection::new(TOKEN)).create(NewTask::new("c", &())).await.unwrap_err());
    settings(Producer::stream("no address", TOKEN).create(NewTask::new("c", &())).await.unwrap_err());
    settings(Worker::http("http://127.0.0.1:1", TOKEN).run().await.unwrap_err());
    settings(Worker::new(&Connection::new(TOKEN)).handle("c", nothing).run().await.unwrap_err());
    settings(Worker::stream("no address", TOKEN).handle("c", nothing).run().await.unwrap_err());
}
