//! A failed sync: nothing more is acknowledged until the store is opened anew.

use super::Ground;
use codeq_queue::store::{Health, Wait};
use codeq_queue::{Commands, Failure, Policies, QueueKey, Store, TaskStore, Time};
use codeq_store::local::{self, Limits, LocalOptions};
use codeq_store::testing::exam::bench::{Bench, eventually, within};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::observed::Call;
use codeq_store::{Clock, ManualClock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

async fn assert_refuses_everything(bench: &Bench, known: codeq_queue::TaskId) {
    let is_unavailable = |failure| matches!(failure, Failure::Unavailable { .. });
    let store = bench.store();
    let created = within("create", store.create(vec![New::of("render").build(&bench.tenant)])).await;
    assert!(created.is_err_and(is_unavailable));
    let wish = bench.wish(Commands::Any, 1, Wait::No);
    assert!(within("claim", store.claim(wish)).await.is_err_and(is_unavailable));
    assert!(within("get", store.get(vec![bench.named(known)])).await.is_err_and(is_unavailable));
    assert!(within("queues", store.queues(None)).await.is_err_and(is_unavailable));
    assert!(matches!(store.health(), Health::Poisoned(_)), "{:?}", store.health());
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_answered_until_the_store_is_reopened() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let kept = bench.create("kept").await;
    ground.files.fail_syncs(true);
    let lost = bench.store().create(vec![New::of("lost").build(&bench.tenant)]).await;
    assert!(matches!(lost, Err(Failure::Unavailable { outcome_unknown: true, .. })), "{lost:?}");
    assert_refuses_everything(&bench, kept.id).await;
    // A disk that works again proves nothing about what it lost.
    ground.files.fail_syncs(false);
    assert_refuses_everything(&bench, kept.id).await;
    bench.store().close().await.expect("a poisoned store closes");
    for seed in 0..20 {
        let mut copy = ground.copy();
        copy.disk.crash(seed);
        let bench = copy.bench();
        assert_eq!(bench.store().health(), Health::Ready);
        assert_eq!(bench.get(kept.id).await, kept);
        assert!(bench.stats("lost").await.ready_total() <= 1);
        bench.create("goes-on").await;
    }
}

#[tokio::test]
async fn a_claim_that_waits_is_not_left_waiting_by_a_failed_sync() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let until = bench.now().plus(Duration::from_secs(5));
    let wish = bench.wish(Commands::these(["render"]), 1, Wait::Until(until));
    let held = tokio::spawn(bench.store().claim(wish));
    bench.settle().await;
    ground.files.fail_syncs(true);
    bench.store().create(vec![New::of("other").build(&bench.tenant)]).await.expect_err("the sync fails");
    bench.advance(10);
    let answer = tokio::time::timeout(Duration::from_secs(2), held).await;
    assert!(answer.is_ok(), "its time is over and it still waits");
}

/// After a failed sync the owner forgot the claims that waited, but their queues went on naming them. When
/// the store was closed and a task became ready at last, the owner looked for such a claim without end, and
/// closing never came back. Held calls now leave their queues as well.
#[tokio::test]
async fn a_poisoned_store_that_had_a_waiting_claim_closes() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    // If closing hangs, dropping would, too.
    std::mem::forget(bench.store());
    bench.make(New::of("render").delayed_ms(1000)).await;
    let held = tokio::spawn(bench.store().claim(bench.wish(Commands::these(["render"]), 1, Wait::Forever)));
    bench.settle().await;
    ground.files.fail_syncs(true);
    bench.store().create(vec![New::of("other").build(&bench.tenant)]).await.expect_err("the sync fails");
    assert!(within("held claim", held).await.unwrap().is_err());
    bench.advance(10);
    let closed = tokio::time::timeout(Duration::from_secs(3), bench.store().close()).await;
    assert_eq!(closed, Ok(Ok(())), "the store closes");
}

/// A clock that kills the thread that decides, when told to.
struct Deadly {
    clock: Arc<ManualClock>,
    is_armed: AtomicBool,
}

impl Clock for Deadly {
    fn now(&self) -> Time {
        let is_owner = std::thread::current().name().is_some_and(|name| name.starts_with("codeq-own"));
        assert!(!(is_owner && self.is_armed.load(Ordering::Acquire)), "the owner is to die");
        self.clock.now()
    }

    fn on_jump(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.clock.on_jump(hook);
    }
}

#[tokio::test]
async fn a_store_whose_owner_died_says_so_and_still_closes() {
    let mut ground = Ground::small();
    let deadly = Arc::new(Deadly { clock: ground.clock.clone(), is_armed: AtomicBool::new(false) });
    ground.lens = Some(deadly.clone());
    let bench = ground.bench();
    // Whatever happens, dropping the store must not stop the other tests.
    std::mem::forget(bench.store());
    let kept = bench.create("kept").await;
    deadly.is_armed.store(true, Ordering::Release);
    let patience = Duration::from_secs(3);
    for _ in 0..2 {
        let asked = bench.store().create(vec![New::of("lost").build(&bench.tenant)]);
        let answer = tokio::time::timeout(patience, asked).await.expect("a dead owner is noticed");
        assert!(matches!(answer, Err(Failure::Unavailable { .. } | Failure::Closed)), "{answer:?}");
    }
    assert_ne!(bench.store().health(), Health::Ready);
    let closed = tokio::time::timeout(patience, bench.store().close()).await;
    assert_eq!(closed, Ok(Ok(())), "the store closes");
    ground.lens = None;
    assert_eq!(ground.copy().bench().get(kept.id).await, kept);
}

/// What watches the store runs on the thread that answers callers. When it fails there, nobody is left waiting: not
/// who asked, not who waits for room, not who closes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_committer_died_says_so_and_still_closes() {
    let directory = tempfile::tempdir().unwrap();
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = is_armed.clone();
    let observer = move |_: &[codeq_queue::Event]| {
        let is_to_die = armed.load(Ordering::Acquire);
        assert!(!is_to_die, "the committer is to die");
    };
    let options = || LocalOptions::new(directory.path());
    let limits = Limits { unsettled_bytes: 64 << 10, ..Limits::default() };
    let watched = LocalOptions { observer: Some(Arc::new(observer)), limits, ..options() };
    let store: Arc<dyn Store> = local::open(watched).unwrap();
    // Whatever happens, dropping the store must not stop the other tests.
    std::mem::forget(store.clone());
    let tenant: Arc<str> = "t".into();
    let new =
        |payload: usize| New::of("kept").payload(&format!("\"{}\"", "x".repeat(payload))).build(&tenant);
    let kept = store.create(vec![new(10)]).await.unwrap().remove(0).unwrap().task;
    is_armed.store(true, Ordering::Release);
    let patience = Duration::from_secs(5);
    // More than there is room for: the last ones wait for the tables.
    let many = (0..20).map(|_| {
        let creating = store.create(vec![new(32 << 10)]);
        tokio::spawn(async move { tokio::time::timeout(patience, creating).await })
    });
    for waiting in many.collect::<Vec<_>>() {
        let answer = waiting.await.unwrap().expect("a dead committer is noticed");
        assert!(matches!(answer, Ok(_) | Err(Failure::Unavailable { .. } | Failure::Closed)), "{answer:?}");
    }
    let late = tokio::time::timeout(patience, store.create(vec![new(10)])).await.expect("it is noticed");
    assert!(matches!(late, Err(Failure::Unavailable { .. })), "{late:?}");
    let health = store.health();
    assert!(matches!(&health, Health::Poisoned(reason) if reason.contains("has failed")), "{health:?}");
    let closed = tokio::time::timeout(patience, store.close()).await;
    assert_eq!(closed, Ok(Ok(())), "the store closes");
    let again = local::open(options()).unwrap();
    let named = codeq_queue::store::TaskRef { tenant, id: kept.id };
    assert_eq!(again.get(vec![named]).await.unwrap(), [Some(kept)]);
}

/// A clock that stops the thread that decides, between two rounds of commands.
struct Halting {
    clock: Arc<ManualClock>,
    /// Whether it is to halt, and whether it has.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Halting {
    fn set(&self, halts: bool) {
        *self.state.lock().unwrap() = (halts, false);
        self.changed.notify_all();
    }
}

impl Clock for Halting {
    fn now(&self) -> Time {
        if std::thread::current().name().is_some_and(|name| name.starts_with("codeq-own")) {
            let mut state = self.state.lock().unwrap();
            state.1 = state.0;
            drop(self.changed.wait_while(state, |(halts, _)| *halts).unwrap());
        }
        self.clock.now()
    }

    fn on_jump(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.clock.on_jump(hook);
    }
}

/// A group for which there was no room in the journal was dropped, and reads that came in the same round were answered with
/// what it had changed.
#[tokio::test]
async fn what_did_not_reach_the_journal_is_told_to_nobody() {
    let mut ground = Ground::small();
    let halting = Arc::new(Halting {
        clock: ground.clock.clone(),
        state: Mutex::new((false, false)),
        changed: Condvar::new(),
    });
    ground.lens = Some(halting.clone());
    let store = ground.open().expect("the store opens");
    let bench = ground.at(store.clone());
    bench.create("kept").await;
    eventually("spares are ready", || async { store.disk_bytes() >= 3 * ground.segment_bytes }).await;
    let is_segment = |call: &Call| matches!(call, Call::Create { name } if name.ends_with(".seg"));
    ground.files.set_veto(Some(Arc::new(is_segment)));
    halting.set(true);
    let other = tokio::spawn(bench.store().create(vec![New::of("other").build(&bench.tenant)]));
    eventually("the owner halts", || async { halting.state.lock().unwrap().1 }).await;
    let queue = QueueKey::new("acme", "render");
    // No usual segment holds it, and a larger one cannot be made.
    let text = format!("{{\"concurrency\":1}}{}", " ".repeat(13_000));
    let put = tokio::spawn(store.put_policy(queue.clone(), text.into()));
    let reads: Vec<_> = (0..8).map(|_| tokio::spawn(store.policy(queue.clone()))).collect();
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    halting.set(false);
    assert!(within("the put", put).await.unwrap().is_err());
    for read in reads {
        let answer = within("a read", read).await.unwrap();
        assert!(!matches!(answer, Ok(Some(_))), "it was told of what nobody will find again");
    }
    drop(within("the other", other).await);
    ground.lens = None;
    let again = ground.copy().open().expect("the store opens");
    assert_eq!(again.policy(queue).await.map(|policy| policy.is_some()), Ok(false));
}
