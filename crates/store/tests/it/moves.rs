//! Reading tasks that move between the live and the final records, when memory has forgotten what it may.

use codeq_queue::create::CreateRequest;
use codeq_queue::store::{Abandon, Claim, Report, TaskRef, Wait};
use codeq_queue::{Commands, Failure, OperatorStore, Owner, Page, State, Store, TaskStore};
use codeq_store::local::{self, Limits, LocalOptions};
use codeq_store::{Clock, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TASKS: usize = 100;
/// Large enough to lie apart from its task.
const PAYLOAD_BYTES: usize = 6000;

/// Each dies of its second attempt and is put back, again and again. Every look must find it, with its whole
/// payload and no attempt less than the look before.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_that_die_and_return_are_never_missed() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { cached_bytes: 0, read_ahead: 1, ..Limits::default() };
    let store = local::open(LocalOptions { limits, ..LocalOptions::new(directory.path()) }).unwrap();
    let request = CreateRequest {
        tenant: "t".into(),
        command: "move".into(),
        payload: format!("\"{}\"", "x".repeat(PAYLOAD_BYTES)),
        max_attempts: 2,
        ..CreateRequest::default()
    };
    let task = request.check(5, 1 << 20, SystemClock.now()).unwrap();
    let created = store.create(vec![task; TASKS]).await.unwrap();
    let tasks: Vec<TaskRef> =
        created.into_iter().map(|created| reference(&created.unwrap().task.id)).collect();

    let is_over = Arc::new(AtomicBool::new(false));
    let readers = (0..3).map(|_| tokio::spawn(look(store.clone(), tasks.clone(), is_over.clone())));
    let readers: Vec<_> = readers.collect();
    for _ in 0..40 {
        for attempt in 1..=2 {
            let claim = Claim {
                tenant: "t".into(),
                commands: Commands::Any,
                owner: Arc::new(Owner::new("s", "w")),
                lease: Duration::from_secs(60),
                is_default_lease: false,
                count: TASKS,
                wait: Wait::No,
            };
            let taken = store.claim(claim).await.unwrap();
            assert_eq!(taken.len(), TASKS);
            assert!(
                taken.iter().all(|task| task.body.payload.len() == PAYLOAD_BYTES + 2),
                "attempt {attempt}"
            );
            let abandons = taken.iter().map(|task| {
                let owner = Arc::new(Owner::new("s", "w"));
                let report = Report { tenant: "t".into(), id: task.id, owner, attempt: None };
                Abandon::new(report, false)
            });
            for returned in store.abandon(abandons.collect()).await.unwrap() {
                returned.unwrap();
            }
            settle(&*store).await;
        }
        for back in store.requeue(tasks.clone(), None).await.unwrap() {
            assert!(matches!(back.unwrap().state, State::Ready { .. }));
        }
        settle(&*store).await;
    }
    is_over.store(true, Ordering::Release);
    let mut looks = 0;
    for reader in readers {
        looks += reader.await.unwrap();
    }
    assert!(looks > 0);
    store.close().await.unwrap();
}

/// Many new tasks come into the tables before what else belongs to them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pages_are_whole_while_many_large_tasks_come() {
    let directory = tempfile::tempdir().unwrap();
    let store = local::open(LocalOptions::new(directory.path())).unwrap();
    let new = |bytes: usize| {
        let request = CreateRequest {
            tenant: "t".into(),
            command: "move".into(),
            payload: format!("\"{}\"", "x".repeat(bytes)),
            ..CreateRequest::default()
        };
        request.check(5, 1 << 20, SystemClock.now()).unwrap()
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let lister = {
        let (store, is_over) = (store.clone(), is_over.clone());
        tokio::spawn(async move {
            let mut pages = 0;
            while !is_over.load(Ordering::Acquire) {
                let page = Page {
                    tenant: None,
                    filter: Arc::default(),
                    is_newest_first: true,
                    // Not the first page: that would wait for the tables.
                    cursor: Some("nffffffffffffffff".into()),
                    limit: 50,
                };
                let listed = store.list(page).await.unwrap().unwrap();
                let is_whole = |bytes: usize| bytes == 12 || bytes == PAYLOAD_BYTES + 2;
                assert!(listed.tasks.iter().all(|task| is_whole(task.body.payload.len())));
                pages += 1;
            }
            pages
        })
    };
    for _ in 0..10 {
        let many = (0..10_000).map(|n| new(if n % 10 == 0 { PAYLOAD_BYTES } else { 10 }));
        store.create(many.collect()).await.unwrap();
        settle(&*store).await;
    }
    is_over.store(true, Ordering::Release);
    assert!(lister.await.unwrap() > 0);
    store.close().await.unwrap();
}

/// The first page of a list has the tables take in what memory holds.
async fn settle(store: &dyn Store) {
    let page = Page { tenant: None, filter: Arc::default(), is_newest_first: false, cursor: None, limit: 1 };
    store.list(page).await.unwrap().unwrap();
}

fn reference(id: &codeq_queue::TaskId) -> TaskRef {
    TaskRef { tenant: "t".into(), id: *id }
}

async fn look(store: Arc<dyn Store>, tasks: Vec<TaskRef>, is_over: Arc<AtomicBool>) -> usize {
    let mut longest = vec![0; tasks.len()];
    let mut looks = 0;
    while !is_over.load(Ordering::Acquire) {
        for (task, longest) in tasks.iter().zip(&mut longest) {
            let Some(found) = unless_reopened(store.get(vec![task.clone()]).await) else { continue };
            let found = found[0].as_ref().unwrap_or_else(|| panic!("{} is nowhere", task.id));
            assert_eq!(found.body.payload.len(), PAYLOAD_BYTES + 2);
            let Some(history) = unless_reopened(store.attempts(task.clone()).await) else { continue };
            let known = history.expect("the task was just there").len();
            assert!(known >= *longest, "{} had {longest} attempts, now {known}", task.id);
            *longest = known;
            looks += 1;
        }
    }
    looks
}

fn unless_reopened<T>(answer: Result<T, Failure>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(Failure::Unavailable { reason, .. }) if reason.contains("being reopened") => None,
        Err(failure) => panic!("{failure}"),
    }
}
