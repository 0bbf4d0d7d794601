//! What several processes have in common besides tasks: buckets, whose turn it is, and events.

use super::ground::{keyspace, open, options};
use super::instances::pair;
use super::server::Server;
use super::verbs::{claim, create, done, named, now};
use codeq_queue::shared::{Bucket, Lot, Pick};
use codeq_queue::store::{ResultLookup, Wait};
use codeq_queue::subscription::{DeliveryMode, Subscription};
use codeq_queue::{Failure, QueueKey, Shared, Store, TaskStore, Time};
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Timing};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn member(id: u128, seconds: u64) -> Arc<Subscription> {
    Arc::new(Subscription {
        id,
        tenant: "t".into(),
        callback_url: "http://h/".into(),
        event_types: vec!["render".into()],
        mode: DeliveryMode::Fanout,
        group: None,
        min_interval: Duration::from_secs(seconds),
        created_at: Time::ZERO,
        expires_at: Time::from_millis(i64::MAX),
    })
}

fn lot(pick: Pick, members: &[(u128, u64)]) -> Lot {
    Lot { pick, members: members.iter().map(|(id, seconds)| member(*id, *seconds)).collect() }
}

fn shared(store: &KvrocksStore) -> Arc<dyn Shared> {
    store.shared().expect("processes share")
}

async fn chosen(store: &KvrocksStore, lots: &[Lot]) -> Vec<u128> {
    let queue = QueueKey::new("t", "render");
    let chosen = shared(store).choose(queue, lots.to_vec()).await.unwrap();
    chosen.iter().map(|subscription| subscription.id).collect()
}

#[tokio::test]
async fn processes_take_turns_as_one() {
    let (one, two) = pair();
    let group = |name: &str, members| lot(Pick::Turns(name.into()), members);
    let lots = [group("a", &[(1, 0), (2, 0), (3, 0)]), group("b", &[(4, 0), (5, 0)])];
    let mut turns = Vec::new();
    for store in [&one, &two, &two, &one] {
        turns.push(chosen(store, &lots).await);
    }
    assert_eq!(turns, [[1, 4], [2, 5], [3, 4], [1, 5]]);
    // Who rests is passed over, and its turn goes to the next.
    let resting = [group("c", &[(6, 60), (7, 60), (8, 0)])];
    let mut turns = Vec::new();
    for store in [&one, &two, &one, &two, &one] {
        turns.extend(chosen(store, &resting).await);
    }
    assert_eq!(turns, [6, 7, 8, 8, 8]);
    let all_rest = [group("d", &[(6, 60), (7, 60)])];
    assert_eq!(chosen(&two, &all_rest).await, []);
}

#[tokio::test]
async fn who_is_told_rests_for_every_process() {
    let (one, two) = pair();
    let each = [lot(Pick::Number(0), &[(1, 60)]), lot(Pick::Number(0), &[(2, 0)])];
    assert_eq!(chosen(&one, &each).await, [1, 2]);
    assert_eq!(chosen(&two, &each).await, [2]);
    // Only those that do not rest are counted.
    let minute = |number| [lot(Pick::Number(number), &[(1, 60), (2, 0), (3, 0), (4, 0)])];
    for (number, id) in [(0, 2), (1, 3), (2, 4), (3, 2)] {
        assert_eq!(chosen(&two, &minute(number)).await, [id]);
    }
    let short = [lot(Pick::Number(0), &[(9, 1)])];
    assert_eq!(chosen(&one, &short).await, [9]);
    let rested = async {
        while chosen(&two, &short).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), rested).await.expect("the rest ends");
}

#[tokio::test]
async fn many_subscriptions_are_asked_for_in_parts() {
    let (one, two) = pair();
    let lots: Vec<Lot> = (0..1203).map(|id| lot(Pick::Number(0), &[(id, 60)])).collect();
    assert_eq!(chosen(&one, &lots).await, (0..1203).collect::<Vec<u128>>());
    assert_eq!(chosen(&two, &lots).await, []);
}

#[tokio::test]
async fn a_choice_that_cannot_be_made_marks_nobody() {
    let server = Server::start(&[]);
    let backend = Backend { address: server.address(), ..Backend::default() };
    let store = open(options(backend));
    server.say("SADD codeq:subs:rr:render:t:g x");
    let lots = [lot(Pick::Number(0), &[(1, 60)]), lot(Pick::Turns("g".into()), &[(2, 0), (3, 0)])];
    let refused = shared(&store).choose(QueueKey::new("t", "render"), lots.to_vec()).await.unwrap_err();
    assert!(
        matches!(&refused, Failure::Internal(text) if text.contains("codeq:subs:rr:render:t:g")),
        "{refused}"
    );
    assert_eq!(server.say(&format!("EXISTS codeq:subs:last:{:032x}", 1)), ":0");
    assert_eq!(server.say("DEL codeq:subs:rr:render:t:g"), ":1");
    assert_eq!(chosen(&store, &lots).await, [1, 2]);
    assert_eq!(server.say(&format!("EXISTS codeq:subs:last:{:032x}", 1)), ":1");
}

#[tokio::test]
async fn a_bucket_and_a_choice_are_one_round_trip() {
    let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
    let store = open(KvrocksOptions { timing, ..options(keyspace()) });
    let mut count = super::round_trips::settled(&store).await;
    let bucket = Bucket { scope: "worker", caller: [7; 32], per_second: 1.0, capacity: 1 };
    shared(&store).take_token(bucket).await.unwrap().unwrap();
    assert_eq!(count.since(), 1, "a bucket");
    chosen(&store, &[lot(Pick::Turns("g".into()), &[(1, 60), (2, 60)])]).await;
    assert_eq!(count.since(), 1, "a choice");
    chosen(&store, &[lot(Pick::Number(0), &[(3, 0)])]).await;
    assert_eq!(count.since(), 0, "there is nothing to choose");
}

/// What a store has heard of events.
fn listen(store: &KvrocksStore) -> Arc<Mutex<Vec<String>>> {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = heard.clone();
    let keep = move |event: Option<&str>| kept.lock().unwrap().extend(event.map(str::to_owned));
    shared(store).hear_events(Arc::new(keep));
    heard
}

async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it comes to that");
}

#[tokio::test]
async fn events_reach_the_processes_of_their_keyspace_in_order() {
    let ((one, two), (stranger, _)) = (pair(), pair());
    let (heard, overheard) = (listen(&two), listen(&stranger));
    assert!(!shared(&one).is_heard(), "nobody has said that it listens");
    let announced = async {
        while !shared(&one).is_heard() {
            shared(&two).announce().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), announced).await.expect("it is heard of");
    let texts: Vec<String> = (0..2000).map(|n| format!(r#"{{"n":{n}}}"#)).collect();
    for text in &texts {
        shared(&one).send_event(text.clone());
    }
    until(|| heard.lock().unwrap().len() == texts.len()).await;
    let numbers: Vec<u64> = heard.lock().unwrap().iter().map(|text| number(text)).collect();
    assert!(numbers.iter().copied().eq(0..2000), "in order");
    assert!(overheard.lock().unwrap().is_empty(), "another database of the same server");
}

/// The last field.
fn number(event: &str) -> u64 {
    let digits = event.rsplit(':').next().unwrap().trim_end_matches('}');
    digits.parse().unwrap()
}

#[tokio::test]
async fn a_process_that_comes_later_learns_who_listens() {
    let backend = keyspace();
    let (listener, before) = (open(options(backend.clone())), open(options(backend.clone())));
    let announced = async {
        while !shared(&before).is_heard() {
            shared(&listener).announce().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), announced).await.expect("it is heard of");
    let later = open(options(backend));
    until(|| shared(&later).is_heard()).await;
}

/// A limit is not worth waiting for a server that answers late every time.
#[tokio::test]
async fn a_server_of_limits_that_is_slow_is_not_waited_for() {
    let server = Server::start(&[]);
    let address = super::double::pretend(server.address(), |command| {
        if super::double::find(command, b"\r\ncodeq:rl:") {
            std::thread::sleep(Duration::from_millis(400));
        }
        super::double::Instead::default()
    });
    let store = open(super::faults::quiet(Backend { address, ..Backend::default() }));
    let bucket = || Bucket { scope: "worker", caller: [7; 32], per_second: 1.0, capacity: 100 };
    for _ in 0..3 {
        assert_eq!(shared(&store).take_token(bucket()).await.unwrap(), Ok(()), "late, and waited for");
    }
    assert!(shared(&store).take_token(bucket()).await.is_err(), "from now on it is not");
}

/// Every end of a task was published, whether or not anybody waited for one.
#[tokio::test]
async fn ends_are_published_only_while_somebody_waits_for_results() {
    let server = Server::start(&[]);
    let backend = Backend { address: server.address(), ..Backend::default() };
    let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
    let store = || open(KvrocksOptions { timing, ..options(backend.clone()) });
    let (worker, producer) = (store(), store());
    super::round_trips::settled(&worker).await;
    for _ in 0..22 {
        create(&*worker, "render").await.unwrap();
    }
    let lent = claim(&*worker, "render", 22).await;
    let published = || {
        let stats = server.ask("INFO commandstats");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_publish:")).unwrap_or("calls=0,");
        line.split("calls=").nth(1).unwrap().split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let before = published();
    for task in &lent[..20] {
        worker.submit(vec![done(task)]).await.unwrap().remove(0).unwrap();
    }
    assert!(published() - before <= 2, "{} messages for nobody", published() - before);
    // Somebody waits: from when that was heard, ends are told.
    let deadline = Instant::now() + Duration::from_secs(20);
    for task in &lent[20..] {
        let soon = Wait::Until(now().plus(Duration::from_millis(300)));
        assert_eq!(producer.result(named(task), soon).await.unwrap(), ResultLookup::Pending);
        let before = published();
        worker.submit(vec![done(task)]).await.unwrap().remove(0).unwrap();
        while published() == before {
            assert!(Instant::now() < deadline, "it was not told");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
