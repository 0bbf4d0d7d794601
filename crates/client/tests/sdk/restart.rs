//! A server that is killed and comes back.

use crate::proxy::Proxy;
use crate::server::{PATIENCE, Server, TOKEN, until};
use crate::transport::{BOTH, Transport, run};
use codeq_client::{Connection, Error, Job, NewTask, Producer};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_create_whose_answer_was_lost_with_the_server_makes_one_task() {
    for transport in BOTH {
        let mut server = Server::start();
        let proxy = Proxy::to(match transport {
            Transport::Http => server.base.trim_start_matches("http://"),
            Transport::Stream => &server.producer_stream,
        });
        let proxy = proxy.await;
        let producer = Producer::new(&match transport {
            Transport::Http => Connection::new(TOKEN).http(format!("http://{}", proxy.address)),
            Transport::Stream => Connection::new(TOKEN).producer_stream(&proxy.address),
        });
        producer.create(NewTask::new("once", &1)).await.unwrap();
        proxy.mute(true);
        let creating = tokio::spawn(async move { producer.create(NewTask::new("once", &2)).await });
        until(async || server.stats("once").await["ready"] == 2).await;
        server.kill();
        proxy.mute(false);
        server.start_again();
        let created = creating.await.unwrap().unwrap();
        assert!(!created.replayed, "for the caller it is a new task");
        assert_eq!(server.task(&created.id).await["payload"], "2");
        assert_eq!(server.stats("once").await["ready"], 2, "{transport:?}");
    }
}

#[tokio::test]
async fn a_producer_gives_up_after_its_time_and_says_that_nobody_knows() {
    for transport in BOTH {
        let mut server = Server::start();
        server.kill();
        let connection = transport.connection(&server).give_up_after(Duration::from_millis(500));
        let created = Producer::new(&connection).create(NewTask::new("c", &())).await;
        assert!(matches!(created, Err(Error::Unavailable { .. })), "{transport:?}: {created:?}");
    }
}

#[tokio::test]
async fn workers_and_producers_go_on_by_themselves_after_a_restart() {
    for transport in BOTH {
        let mut server = Server::start();
        let handler = |job: Job<u32>| async move { Ok::<_, String>(job.payload + 1) };
        let worker = run(transport.worker(&server).lease(Duration::from_secs(2)).handle("on", handler));
        let producer = transport.producer(&server);
        for round in 0..2 {
            let created = producer.create(NewTask::new("on", &round)).await.unwrap();
            let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
            assert!(finished.is_completed, "{transport:?}");
            server.kill();
            server.start_again();
        }
        let created = producer.create(NewTask::new("on", &9)).await.unwrap();
        let finished = producer.wait_for_result(&created.id, PATIENCE).await.unwrap();
        assert_eq!(finished.result.unwrap().get(), r#"{"value":10}"#, "{transport:?}");
        worker.end().await.unwrap();
    }
}

/// Every other call was repeated, and this one failed at the first connection that broke.
#[tokio::test]
async fn a_file_is_read_again_when_the_connection_breaks() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for breaks in [true, true, false] {
            let (mut peer, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = peer.read(&mut request).await;
            if !breaks {
                peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfile").await.unwrap();
            }
        }
    });
    let file = Producer::http(base, TOKEN).artifact("a", "log.txt").await.unwrap();
    assert_eq!(file, b"file");
}
