//! A full disk: writes are turned away, reads go on, and service resumes when there is room, without
//! reopening.

use super::{Ground, is_of_tables};
use codeq_queue::batch::{BatchState, NewBatch};
use codeq_queue::store::{Health, Wait};
use codeq_queue::{Commands, Failure, Filter, Page, Time};
use codeq_store::local::files::Files;
use codeq_store::testing::exam::bench::{Bench, eventually, plain_rules, within};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::observed::Call;
use codeq_store::{Clock, ManualClock, Rules};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

async fn create(bench: &Bench) -> Result<(), Failure> {
    bench.store().create(vec![New::of("render").build(&bench.tenant)]).await.map(|_| ())
}

async fn until_turned_away(bench: &Bench) {
    eventually("a create is turned away", || async {
        match create(bench).await {
            Ok(()) => false,
            Err(Failure::Unavailable { outcome_unknown, .. }) => !outcome_unknown,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
}

async fn until_taken(bench: &Bench) {
    eventually("a create is taken", || async { create(bench).await.is_ok() }).await;
}

#[tokio::test]
async fn while_the_disk_is_full_reads_work_and_writes_are_turned_away() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let done = bench.create_and_take(New::of("done")).await;
    let record = bench.complete(&done).await;
    let waiting = bench.create("waiting").await;
    ground.disk.set_full(true);
    until_turned_away(&bench).await;
    assert_eq!(bench.get(waiting.id).await, waiting);
    assert_eq!(bench.record(done.id).await, record);
    assert_eq!(bench.stats("waiting").await.ready_total(), 1);
    let wish = bench.wish(Commands::these(["waiting"]), 1, Wait::No);
    let claimed = bench.store().claim(wish).await;
    assert!(matches!(claimed, Err(Failure::Unavailable { .. })), "a claim writes, too: {claimed:?}");
    ground.disk.set_full(false);
    until_taken(&bench).await;
    assert_eq!(bench.take("waiting").await.id, waiting.id);
}

/// The home took the counts in with every look, and could not write them down.
#[tokio::test]
async fn a_batch_is_shown_while_the_disk_is_full() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let new = NewBatch { tenant: bench.tenant.clone(), name: None, close_after: Duration::from_secs(60) };
    let store = bench.store();
    let batches = store.batching().expect("it has batches");
    let batch = batches.create_batch(new).await.unwrap().unwrap();
    bench.make(New::of("part").batch(batch.id)).await;
    ground.disk.set_full(true);
    until_turned_away(&bench).await;
    let shown = batches.batch(bench.tenant.clone(), batch.id).await.unwrap().unwrap();
    assert_eq!((shown.state(), shown.counts().live), (BatchState::Open, 1));
    ground.disk.set_full(false);
    until_taken(&bench).await;
}

/// It was parked without a look, because a look may write. Nothing ever fed its queue again, so it waited
/// beside a ready task. Claims that come at such times are now looked at when writing is possible.
#[tokio::test]
async fn a_claim_that_begins_to_wait_while_the_disk_is_full_is_served_when_there_is_room() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let (named, other) = (bench.create("named").await, bench.create("other").await);
    ground.disk.set_full(true);
    until_turned_away(&bench).await;
    let by_name = bench.hold(Commands::these(["named"]), Wait::Forever).await;
    let any = bench.worker("s", "w").hold(Commands::these(["other", "nothing"]), Wait::Forever).await;
    ground.disk.set_full(false);
    assert_eq!(within("a claim by name", by_name).await.unwrap()[0].id, named.id);
    assert_eq!(within("a claim of one of two", any).await.unwrap()[0].id, other.id);
}

#[tokio::test]
async fn a_full_disk_shows_in_the_health_until_there_is_room() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    assert_eq!(bench.store().health(), Health::Ready);
    ground.disk.set_full(true);
    until_turned_away(&bench).await;
    let health = bench.store().health();
    assert!(matches!(health, Health::Unavailable(_)), "{health:?}");
    ground.disk.set_full(false);
    // No write is needed for it: a server that is not ready gets none.
    eventually("the store is ready again", || async { bench.store().health() == Health::Ready }).await;
    until_taken(&bench).await;
}

#[tokio::test]
async fn a_full_disk_loses_nothing() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    ground.disk.set_full(true);
    let mut made = Vec::new();
    while let Ok(mut items) = bench.store().create(vec![New::of("render").build(&bench.tenant)]).await {
        made.push(items.remove(0).expect("a create is not refused").task);
    }
    bench.store().close().await.expect("the store closes on a full disk");
    ground.disk.crash_keep_none();
    ground.disk.set_full(false);
    let bench = ground.bench();
    for task in &made {
        assert_eq!(bench.get(task.id).await, *task);
    }
    assert_eq!(bench.stats("render").await.ready_total(), made.len() as u64);
}

#[tokio::test]
async fn tables_that_cannot_be_written_turn_writers_away_until_they_can() {
    let mut ground = Ground::small();
    let bench = ground.bench();
    let kept = bench.create("kept").await;
    ground.files.set_veto(Some(Arc::new(|call| matches!(call, Call::Create { name } if is_of_tables(name)))));
    until_turned_away(&bench).await;
    assert!(matches!(bench.store().health(), Health::Unavailable(_)));
    assert_eq!(bench.get(kept.id).await, kept);
    // What is listed is read from tables, which nobody can write now.
    let page = Page {
        tenant: None,
        filter: Arc::new(Filter::default()),
        is_newest_first: false,
        limit: 10,
        cursor: None,
    };
    let listed = within("a list", bench.store().list(page)).await.expect("reads work").expect("a page");
    assert!(listed.tasks.iter().any(|task| task.id == kept.id));
    ground.files.set_veto(None);
    eventually("the store is ready again", || async { bench.store().health() == Health::Ready }).await;
    create(&bench).await.expect("a store that is ready takes writes");
    assert_eq!(ground.copy().bench().get(kept.id).await, kept);
}

fn tables(ground: &Ground) -> usize {
    ground.disk.list().unwrap().iter().filter(|name| name.ends_with(".tab")).count()
}

/// What fills a disk is most often our own history. It stayed for as long as nothing could be written, and nothing could be
/// written for as long as it stayed.
#[tokio::test]
async fn history_that_is_over_goes_while_the_tables_cannot_be_written() {
    let rules = Rules { retention: Duration::from_secs(60), ..plain_rules() };
    let mut ground = Ground::new(rules, 96 << 10);
    let bench = ground.bench();
    for _ in 0..20 {
        let task = bench.create_and_take(New::of("done")).await;
        bench.complete(&task).await;
    }
    bench.store().close().await.expect("the store closes");
    drop(bench);
    let bench = ground.bench();
    let before = tables(&ground);
    ground
        .files
        .set_veto(Some(Arc::new(|call| matches!(call, Call::Create { name } if name.ends_with(".tab")))));
    until_turned_away(&bench).await;
    bench.advance(200);
    eventually("history is dropped", || async { tables(&ground) < before }).await;
    assert_ne!(bench.store().health(), Health::Ready);
    ground.files.set_veto(None);
    until_taken(&bench).await;
}

/// Counts how often the store looks at the time: once or more in every round of its owner.
struct Counting {
    clock: Arc<ManualClock>,
    looks: AtomicU64,
}

impl Clock for Counting {
    fn now(&self) -> Time {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.clock.now()
    }

    fn on_jump(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.clock.on_jump(hook);
    }
}

/// How often a store looks at the time in a quarter of a second while a timer is due that it cannot run.
async fn looks_while(break_it: impl AsyncFnOnce(&Ground, &Bench)) -> u64 {
    let mut ground = Ground::small();
    let counting = Arc::new(Counting { clock: ground.clock.clone(), looks: AtomicU64::new(0) });
    ground.lens = Some(counting.clone());
    let bench = ground.bench();
    bench.make(New::of("soon").delayed_ms(1000)).await;
    break_it(&ground, &bench).await;
    bench.advance(10);
    let before = counting.looks.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(250)).await;
    counting.looks.load(Ordering::Relaxed) - before
}

#[tokio::test]
async fn a_timer_that_cannot_run_on_a_full_disk_does_not_keep_a_core_busy() {
    let looks = looks_while(async |ground, bench| {
        ground.disk.set_full(true);
        until_turned_away(bench).await;
    });
    let looks = looks.await;
    assert!(looks < 1000, "the owner went round {looks} times in a quarter of a second");
}

#[tokio::test]
async fn a_timer_that_cannot_run_after_a_failed_sync_does_not_keep_a_core_busy() {
    let looks = looks_while(async |ground, bench| {
        ground.files.fail_syncs(true);
        create(bench).await.expect_err("the sync fails");
    });
    let looks = looks.await;
    assert!(looks < 1000, "the owner went round {looks} times in a quarter of a second");
}
