//! Batches that one script, or one group, does not take whole.

use super::faults::{is_unknown, quiet};
use super::ground::open;
use super::proxy::{CUT_BEFORE_EXEC, CUT_BEFORE_REPLY, CUT_MID_REPLY, Proxy};
use super::round_trips::settled;
use super::server::Server;
use super::verbs::{claim, keyed, named, new};
use codeq_queue::store::Created;
use codeq_queue::{Body, Failure, NewTask, OperatorStore, QueueKey, TaskStore};
use codeq_store::kvrocks::Backend;
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn with_payload(command: &str, bytes: usize) -> NewTask {
    let task = new(command);
    let body = Body { payload: format!("\"{}\"", "p".repeat(bytes)).into(), ..(*task.body).clone() };
    NewTask { body: Arc::new(body), ..task }
}

fn all(created: Vec<Result<Created, codeq_queue::Refusal>>) -> Vec<Created> {
    created.into_iter().map(|one| one.expect("nothing is wrong with it")).collect()
}

#[tokio::test]
async fn a_batch_of_several_scripts_keeps_its_order_and_its_keys() {
    let server = Server::start(&[]);
    let store = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    // The same key at both ends, so that the second is met by another script, and once more within one.
    let has_key = |n: usize| matches!(n, 3 | 4 | 140 | 249);
    let tasks = (0..250).map(|n| if has_key(n) { keyed("long", "once") } else { new("long") });
    let made = all(store.create(tasks.collect()).await.unwrap());
    assert_eq!(made.len(), 250);
    for (n, one) in made.iter().enumerate() {
        let is_replay = has_key(n) && n != 3;
        assert_eq!(one.is_replay, is_replay, "{n}");
        assert!(!is_replay || one.task.id == made[3].task.id, "{n}");
    }
    let wanted: Vec<_> = made.iter().filter(|one| !one.is_replay).map(|one| one.task.id).collect();
    let mut lent = Vec::new();
    while lent.len() < wanted.len() {
        let more = claim(&*store, "long", 100).await;
        assert!(!more.is_empty(), "{} of {} were lent", lent.len(), wanted.len());
        lent.extend(more.into_iter().map(|task| task.id));
    }
    assert_eq!(lent, wanted, "first in, first out");
}

#[tokio::test]
async fn large_bodies_and_several_queues_in_one_batch_come_back_in_its_order() {
    let server = Server::start(&[]);
    let store = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    let tasks = (0..12).map(|n| with_payload(["a", "b", "a:b"][n % 3], 400_000 + n));
    let made = all(store.create(tasks.collect()).await.unwrap());
    for (n, one) in made.iter().enumerate() {
        assert_eq!(one.task.body.payload.len(), 400_002 + n, "{n}");
        assert_eq!(&*one.task.body.command, ["a", "b", "a:b"][n % 3]);
    }
    let found = store.get(made.iter().map(|one| named(&one.task)).collect()).await.unwrap();
    for (one, found) in made.iter().zip(found) {
        assert_eq!(found.map(|task| task.body.payload.len()), Some(one.task.body.payload.len()));
    }
}

/// Two full groups may be on their way at once: a cut takes both, and nobody is told that something was
/// stored which is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_with_several_groups_on_their_way_acknowledges_nothing_that_is_not_stored() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(server.address());
    let store = open(quiet(Backend { address: proxy.address.clone(), ..Backend::default() }));
    settled(&store).await;
    let mut unknown = 0;
    for (round, cut) in [CUT_BEFORE_EXEC, CUT_BEFORE_REPLY, CUT_MID_REPLY].into_iter().enumerate() {
        let command = format!("crowd{round}");
        // Each fills more than half of a group.
        let crowd = (0..30).map(|_| {
            let tasks = (0..50).map(|_| with_payload(&command, 8_000)).collect();
            store.create(tasks)
        });
        proxy.mode.store(cut, Ordering::Release);
        let mut stored = Vec::new();
        for answer in join_all(crowd).await {
            match answer {
                Ok(made) => stored.extend(all(made)),
                Err(failure) => {
                    assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}");
                    unknown += usize::from(is_unknown(&failure));
                }
            }
        }
        let found = store.get(stored.iter().map(|one| named(&one.task)).collect()).await.unwrap();
        assert!(found.iter().all(Option::is_some), "round {round}: acknowledged and not there");
        let ready = store.queue(QueueKey::new("t", &command)).await.unwrap().ready_total();
        assert!(ready >= stored.len() as u64 && ready.is_multiple_of(50), "round {round}: {ready} are ready");
    }
    assert!(unknown > 0, "somebody had sent something");
}
