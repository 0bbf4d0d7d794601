//! Ticks of schedules while several processes look at them.

use super::cluster::cluster;
use super::ground::{candidate, keyspace, open, options};
use super::server::Server;
use codeq_queue::create::CreateRequest;
use codeq_queue::schedule::{SCHEDULE_HEADER, SCHEDULED_FOR_HEADER, ScheduleRequest};
use codeq_queue::{Filter, OperatorStore, Page, Store, Task};
use codeq_store::ManualClock;
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Sharding, Timing};
use codeq_store::testing::exam::bench::PATIENCE;
use codeq_store::testing::exam::{self, Open, START};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

async fn put(store: &KvrocksStore, name: &str, seconds: u64) {
    let task = CreateRequest {
        tenant: "t".into(),
        command: format!("command-{}", name.len() % 3),
        payload: "{}".into(),
        ..CreateRequest::default()
    };
    let request = ScheduleRequest {
        every_seconds: Some(i64::try_from(seconds).unwrap()),
        task,
        overlap: Some("allow".into()),
        catch_up: Some("all".into()),
        ..ScheduleRequest::default()
    };
    let definition = request.check(name, 5, 1000, START).unwrap();
    let put = store.scheduling().unwrap().put_schedule("t".into(), name.into(), definition);
    put.await.unwrap().unwrap();
}

async fn tasks(store: &KvrocksStore) -> Vec<Task> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = Page {
            tenant: Some("t".into()),
            filter: Arc::new(Filter::default()),
            is_newest_first: false,
            cursor,
            limit: 500,
        };
        let listed = store.list(page).await.unwrap().unwrap();
        all.extend(listed.tasks);
        cursor = listed.next;
        if cursor.is_none() {
            return all;
        }
    }
}

/// The schedule and the tick of each task.
fn origins(tasks: &[Task]) -> BTreeSet<(String, String)> {
    let header = |task: &Task, name: &str| {
        let found = task.body.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    tasks.iter().map(|task| (header(task, SCHEDULE_HEADER), header(task, SCHEDULED_FOR_HEADER))).collect()
}

#[tokio::test]
async fn of_three_processes_exactly_one_makes_the_task_of_a_tick() {
    let (backend, clock) = (keyspace(), Arc::new(ManualClock::at(START)));
    let stores: Vec<Arc<KvrocksStore>> = (0..3)
        .map(|_| {
            open(KvrocksOptions { clock: clock.clone(), timing: Timing::Stepped, ..options(backend.clone()) })
        })
        .collect();
    for number in 0..12 {
        put(&stores[number % 3], &format!("{}{number}", "n".repeat(number % 3 + 1)), 10).await;
    }
    for _ in 0..10 {
        clock.advance(Duration::from_secs(10));
        // Each of them finds the same ticks due before it answers.
        join_all(stores.iter().map(|store| store.queues(None))).await;
    }
    let made = tasks(&stores[0]).await;
    assert_eq!((made.len(), origins(&made).len()), (120, 120));
}

#[tokio::test]
async fn another_process_goes_on_with_the_ticks_of_one_that_has_gone() {
    let backend = keyspace();
    let timing = Timing::Running { sweep_interval: Duration::from_millis(50) };
    let stores: Vec<Arc<KvrocksStore>> =
        (0..3).map(|_| open(KvrocksOptions { timing, ..options(backend.clone()) })).collect();
    put(&stores[0], "n", 1).await;
    let reached = async |store: &KvrocksStore, count: usize| {
        let waits = async {
            while tasks(store).await.len() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waits).await.expect("the schedule ticks");
    };
    reached(&stores[2], 1).await;
    for (number, store) in stores[..2].iter().enumerate() {
        store.clone().close().await.unwrap();
        reached(&stores[2], number + 3).await;
    }
    let made = tasks(&stores[2]).await;
    let ticks: Vec<(String, String)> = origins(&made).into_iter().collect();
    assert_eq!(ticks.len(), made.len(), "one task for each tick");
    let schedule = stores[2].scheduling().unwrap().schedule("t".into(), "n".into()).await.unwrap().unwrap();
    assert_eq!((schedule.progress.missed, schedule.progress.skipped), (0, 0), "{ticks:?}");
}

/// A directory that lost an entry does not cost a schedule its ticks, and has the entry again.
#[tokio::test]
async fn a_schedule_whose_entry_was_lost_ticks_and_is_found_again() {
    let (server, clock) = (Server::start(&[]), Arc::new(ManualClock::at(START)));
    let backend = Backend { address: server.address(), ..Backend::default() };
    let store = open(KvrocksOptions { clock: clock.clone(), timing: Timing::Stepped, ..options(backend) });
    put(&store, "n", 10).await;
    assert_eq!(server.say("DEL codeq:schedules:places"), ":1");
    clock.advance(Duration::from_secs(10));
    assert_eq!(tasks(&store).await.len(), 1);
    let schedules = store.scheduling().unwrap();
    assert!(schedules.schedule("t".into(), "n".into()).await.unwrap().is_some());
    assert!(schedules.delete_schedule("t".into(), "n".into()).await.unwrap());
    for key in ["schedules", "schedules:progress", "schedules:places", "schedules:of:t", "ticks"] {
        assert_eq!(server.say(&format!("EXISTS codeq:{key}")), ":0", "{key} is left");
    }
}

static SPREAD: LazyLock<[Server; 3]> = LazyLock::new(cluster);

/// The 64 spread shards of a cluster, all of them empty: one candidate at a time.
fn spread_in_a_cluster() -> Open {
    candidate(|| {
        for server in SPREAD.iter() {
            assert_eq!(server.say("FLUSHALL"), "+OK");
        }
        let addresses: Vec<String> = SPREAD.iter().map(Server::address).collect();
        Arc::new(move |rules, clock| KvrocksOptions {
            rules,
            clock,
            cluster: true,
            timing: Timing::Stepped,
            silence: PATIENCE,
            sharding: Sharding { spread: true, ..Sharding::default() },
            ..options(Backend { address: addresses.join(","), ..Backend::default() })
        })
    })
}

macro_rules! sit {
    ($($topic:ident { $($case:ident,)* })*) => {
        $($(exam::$topic::$case(spread_in_a_cluster()).await;)*)*
    };
}

/// Spread shards have fixed names, so the cases come one after the other. One of each kind: the others are sat over spread
/// shards of one server, and in a cluster without them.
#[tokio::test]
async fn the_spread_shards_of_a_cluster_pass_the_exam() {
    sit! {
        stopping {
            a_cancel_with_grace_lets_the_owner_finish,
        }
        unique {
            a_second_create_finds_the_holder_until_it_ends,
            unique_keys_and_replaced_payloads_are_kept,
        }
        schedules {
            every_tick_makes_a_task,
            schedules_are_found_again_after_reopening,
        }
    }
}
