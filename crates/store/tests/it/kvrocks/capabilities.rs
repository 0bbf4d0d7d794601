//! Servers that cannot do what is needed, or that are full, told by what they do and not by what they call themselves.

use super::double::{Instead, find, pretend};
use super::faults::quiet;
use super::ground::{open, wait};
use super::server::Server;
use super::verbs::create;
use codeq_queue::Failure;
use codeq_store::kvrocks::{self, Backend};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn at(address: String) -> Backend {
    Backend { address, ..Backend::default() }
}

fn refused(backend: Backend) -> String {
    wait(kvrocks::open(quiet(backend))).err().expect("the server cannot do what is needed")
}

/// With `lua-strict-key-accessing yes` every claim was an internal error and half done, and nobody said so before.
#[tokio::test]
async fn a_server_with_strict_keys_is_refused_at_the_start() {
    let server = Server::start(&[]);
    let strict = pretend(server.address(), |command| match find(command, b"SMISMEMBER") {
        true => Instead {
            answer: Some(b"-ERR Script attempted to access an undeclared key\r\n".into()),
            command: None,
        },
        false => Instead::default(),
    });
    let reason = refused(at(strict));
    assert!(reason.contains("lua-strict-key-accessing no") && reason.contains("undeclared key"), "{reason}");
    assert_eq!(server.say("EXISTS codeq:tasks codeq:schema"), ":0", "nothing is written");
}

/// Two databases of a server that takes SELECT and does nothing were one keyspace: one deployment claimed the tasks of the
/// other.
#[tokio::test]
async fn a_server_whose_select_does_nothing_is_refused_for_any_database_but_the_first() {
    let server = Server::start(&[]);
    let address = pretend(server.address(), |command| match find(command, b"\r\nSELECT\r\n") {
        true => Instead { command: Some(b"*1\r\n$4\r\nPING\r\n".into()), answer: Some(b"+OK\r\n".into()) },
        false => Instead::default(),
    });
    let reason = refused(Backend { db: 3, ..at(address.clone()) });
    assert!(reason.contains("persistenceConfig.db 3") && reason.contains("SELECT does nothing"), "{reason}");
    create(&*open(quiet(at(address))), "render").await.expect("the first one is its only one");
    create(&*open(quiet(Backend { db: 3, ..at(server.address()) })), "render")
        .await
        .expect("a real one has many");
}

/// Kvrocks without room on its disk was an internal error, and the server stayed ready.
#[tokio::test]
async fn a_full_disk_is_told_as_unavailable_and_comes_back() {
    let (server, is_full) = (Server::start(&[]), Arc::new(AtomicBool::new(false)));
    let told = is_full.clone();
    let address = pretend(server.address(), move |command| {
        match told.load(Ordering::Acquire) && find(command, b"\r\nEXEC\r\n") {
            true => Instead {
                command: Some(b"*1\r\n$7\r\nDISCARD\r\n".into()),
                answer: Some(b"*1\r\n-ERR IO error: No space left on device\r\n".into()),
            },
            false => Instead::default(),
        }
    });
    let store = open(quiet(at(address)));
    create(&*store, "render").await.unwrap();
    is_full.store(true, Ordering::Release);
    let failed = create(&*store, "render").await.expect_err("there is no room");
    assert!(matches!(failed, Failure::Unavailable { .. }), "{failed:?}");
    is_full.store(false, Ordering::Release);
    create(&*store, "render").await.expect("there is room again");
    assert_eq!(server.say("HLEN codeq:tasks"), ":2");
}

/// A version that nobody has heard of is no reason to refuse a server.
#[tokio::test]
async fn a_server_is_not_judged_by_its_version() {
    let server = Server::start(&[]);
    let address = pretend(server.address(), |command| match find(command, b"\r\nINFO\r\n") {
        true => Instead { answer: Some(b"$26\r\nkvrocks_version:unstable\r\n\r\n".into()), command: None },
        false => Instead::default(),
    });
    create(&*open(quiet(at(address))), "render").await.unwrap();
}

/// Pub/sub knows no namespaces: two deployments on one server heard each other's events.
#[tokio::test]
async fn channels_carry_the_id_of_their_deployment() {
    let server = Server::start(&[]);
    let store = open(quiet(at(server.address())));
    create(&*store, "render").await.unwrap();
    let id = server.ask("HGET codeq:layout deployment");
    assert_eq!(id.len(), 32);
    let channels = server.text_of("PUBSUB CHANNELS *");
    assert!(channels.contains(&format!("codeq:ev:{id}")), "{channels}");
}
