//! Lanes and limits by the wall clock: several processes, data of older versions, queues that move.

use super::ground::{open, options};
use super::instances::pair;
use super::server::Server;
use super::verbs::{claim, create, done, named, new, now, report, wish};
use codeq_queue::policy::Hold;
use codeq_queue::store::{Cancel, Nack, Wait};
use codeq_queue::{Body, Commands, NewTask, OperatorStore, Policies, QueueKey, Task, TaskOptions, TaskStore};
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Relocation, Sharding, Timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Between looks at a queue whose limit is to hold all the time.
const LOOK: Duration = Duration::from_millis(2);
/// How long a slot may be free while there is work.
const FREE_SLOT: Duration = Duration::from_millis(1500);

fn render() -> QueueKey {
    QueueKey::new("t", "render")
}

async fn put(store: &KvrocksStore, text: &str) {
    store.put_policy(render(), text.into()).await.unwrap().unwrap();
}

fn in_lane(lane: &str) -> NewTask {
    let task = new("render");
    let options = TaskOptions { lane: Some(lane.into()), ..TaskOptions::default() };
    NewTask { body: Arc::new(Body { options: options.boxed(), ..(*task.body).clone() }), ..task }
}

fn lane_of(task: &Task) -> &str {
    task.body.options.as_deref().and_then(|options| options.lane.as_deref()).unwrap_or_default()
}

/// Takes tasks and ends each attempt in another way.
async fn work(store: Arc<KvrocksStore>, number: usize, ended: Arc<AtomicUsize>, is_over: Arc<AtomicBool>) {
    let mut turn = number;
    while !is_over.load(Ordering::Acquire) {
        let mut asked = wish(Commands::these(["render"]), 1, Wait::Until(now().plus_seconds(2)));
        turn += 1;
        let expires = turn.is_multiple_of(7);
        if expires {
            asked.lease = Duration::from_millis(150);
        }
        let Some(task) = store.claim(asked).await.unwrap().pop() else { continue };
        tokio::time::sleep(Duration::from_millis(3)).await;
        match turn % 5 {
            _ if expires => {}
            0 => drop(store.nack(vec![Nack::new(report(&task), 1, None)]).await.unwrap()),
            1 => {
                store.cancel(vec![Cancel::now(named(&task))]).await.unwrap().remove(0).unwrap();
                ended.fetch_add(1, Ordering::AcqRel);
            }
            2 => {
                let refund = Nack { refund: true, ..Nack::new(report(&task), 1, None) };
                store.nack(vec![refund]).await.unwrap().remove(0).unwrap();
            }
            _ => {
                store.submit(vec![done(&task)]).await.unwrap().remove(0).unwrap();
                ended.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
}

/// Looks until all have ended: never more than the limit, never a slot free for long while there is work.
async fn watch(store: &KvrocksStore, limit: u64, total: usize, ended: &AtomicUsize) {
    let (mut idle_since, mut most) = (None, 0);
    let begun = Instant::now();
    while ended.load(Ordering::Acquire) < total {
        assert!(begun.elapsed() < Duration::from_secs(60), "{ended:?} of {total} have ended");
        let stats = store.queue(render()).await.unwrap();
        most = most.max(stats.in_progress);
        assert!(stats.in_progress <= limit, "{} run", stats.in_progress);
        let is_idle = stats.in_progress < limit && stats.ready_total() > 0;
        let since = *idle_since.get_or_insert_with(Instant::now);
        assert!(!is_idle || since.elapsed() < FREE_SLOT, "a slot was free: {stats:?}");
        if !is_idle {
            idle_since = None;
        }
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(most, limit, "the limit was reached");
}

/// Tasks with and without lanes; those that die of too many attempts are not wanted here.
fn some(count: usize) -> Vec<NewTask> {
    let task = |n: usize| match n % 4 {
        0 => NewTask { max_attempts: 1000, ..new("render") },
        lane => NewTask { max_attempts: 1000, ..in_lane(["", "a", "b", "c"][lane]) },
    };
    (0..count).map(task).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_race_for_seven_slots() {
    const TASKS: usize = 300;
    let server = Server::start(&[]);
    let backend = Backend { address: server.address(), ..Backend::default() };
    let timing = Timing::Running { sweep_interval: Duration::from_millis(500) };
    let fast = codeq_store::Rules {
        backoff: codeq_queue::Backoff { max_seconds: 1, ..codeq_queue::Backoff::default() },
        ..codeq_store::Rules::default()
    };
    let store = || {
        let options = options(backend.clone());
        open(KvrocksOptions { timing, rules: fast.clone(), ..options })
    };
    let stores = [store(), store()];
    put(&stores[0], r#"{"concurrency":7,"lanes":{"concurrency":4}}"#).await;
    for part in some(TASKS).chunks(50) {
        for made in stores[0].create(part.to_vec()).await.unwrap() {
            made.unwrap();
        }
    }
    let (ended, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let worker = |n: usize| tokio::spawn(work(stores[n % 2].clone(), n, ended.clone(), is_over.clone()));
    let workers: Vec<_> = (0..24).map(worker).collect();
    watch(&stores[1], 7, TASKS, &ended).await;
    is_over.store(true, Ordering::Release);
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(server.say("SCARD codeq:q:render:t:inprog"), ":0");
    let left =
        "EXISTS codeq:q:render:t:lanes codeq:q:render:t:ready codeq:q:render:t:turns codeq:q:render:t:counts";
    assert_eq!(server.say(left), ":0", "nothing is left of lanes without tasks");
    assert_eq!(server.say("HEXISTS codeq:q:render:t:flow lanes"), ":0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_of_two_processes_keep_to_the_rate() {
    const SECONDS: u64 = 3;
    let (one, two) = pair();
    put(&one, r#"{"rate":{"limit":100,"periodSeconds":1,"burst":10}}"#).await;
    for _ in 0..5 {
        one.create(vec![new("render"); 100]).await.unwrap();
    }
    let (starts, begun) = (Arc::new(std::sync::Mutex::new(Vec::new())), Instant::now());
    let workers = (0..20).map(|n| {
        let (store, starts) = (if n % 2 == 0 { one.clone() } else { two.clone() }, starts.clone());
        tokio::spawn(async move {
            while begun.elapsed() < Duration::from_secs(SECONDS) {
                let wait = Wait::Until(now().plus(Duration::from_millis(300)));
                for task in store.claim(wish(Commands::these(["render"]), 1, wait)).await.unwrap() {
                    let at = task.state.lease().unwrap().claimed_at.millis();
                    starts.lock().unwrap().push(at);
                    store.submit(vec![done(&task)]).await.unwrap().remove(0).unwrap();
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let took = begun.elapsed().as_secs_f64();
    let mut starts = starts.lock().unwrap().clone();
    starts.sort_unstable();
    let count = starts.len() as f64;
    assert!(count <= 100.0 * took + 10.0, "{count} starts in {took} s");
    assert!(count >= 90.0 * SECONDS as f64, "{count} starts in {took} s");
    // A claim says when it was sent. It was served a little later, so a shorter window lies within one of a second.
    for (n, from) in starts.iter().enumerate() {
        let within = starts[n..].iter().take_while(|at| **at < from + 900).count();
        assert!(within <= 109, "{within} starts within a second");
    }
}

#[tokio::test]
async fn a_slot_freed_by_one_process_is_given_out_by_another_at_once() {
    let (one, two) = pair();
    put(&one, r#"{"concurrency":1,"lanes":{"ordered":true}}"#).await;
    one.create(vec![in_lane("a"), in_lane("a"), in_lane("a")]).await.unwrap();
    let mut running = claim(&*one, "render", 5).await;
    assert_eq!(running.len(), 1);
    let mut fastest = Duration::MAX;
    for _ in 0..2 {
        let held = tokio::spawn(two.claim(wish(Commands::Any, 1, Wait::Until(now().plus_seconds(20)))));
        tokio::task::yield_now().await;
        two.queues(None).await.unwrap();
        let began = Instant::now();
        one.submit(vec![done(&running[0])]).await.unwrap().remove(0).unwrap();
        running = held.await.unwrap().unwrap();
        fastest = fastest.min(began.elapsed());
    }
    assert!(fastest < Duration::from_millis(500), "{fastest:?} is the pace of looking again");
}

/// Before lanes were kept apart their tasks stood in the lists, and their records named the lane behind the id.
#[tokio::test]
async fn tasks_of_lanes_that_an_older_version_has_made_are_claimed_and_end() {
    let server = Server::start(&[]);
    let store = open(options(Backend { address: server.address(), ..Backend::default() }));
    put(&store, r#"{"concurrency":2,"lanes":{"concurrency":1,"ordered":false}}"#).await;
    let mut old = Vec::new();
    for _ in 0..3 {
        let id = create(&*store, "render").await.unwrap().task.id.to_string();
        let text = server.ask(&format!("HGET codeq:tasks {id}"));
        let text = text.replace(",\"payload\":", ",\"lane\":\"a\",\"payload\":");
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        server.say(&format!("HSET codeq:tasks {id} \"{text}\""));
        old.push(id);
    }
    store.create(vec![in_lane("a"), in_lane("a")]).await.unwrap();
    let mut lent = Vec::new();
    while lent.len() < 5 {
        let tasks = claim(&*store, "render", 5).await;
        assert!((1..=2).contains(&tasks.len()), "{} of two slots", tasks.len());
        assert!(tasks.iter().all(|task| lane_of(task) == "a"));
        for task in tasks {
            store.submit(vec![done(&task)]).await.unwrap().remove(0).unwrap();
            lent.push(task.id.to_string());
        }
    }
    assert!(old.iter().all(|id| lent.contains(id)));
    assert_eq!(server.say("EXISTS codeq:q:render:t:lanes codeq:q:render:t:counts"), ":0");
}

fn mapped(servers: [&Server; 2], to: &str) -> Arc<KvrocksStore> {
    let backend = |server: &Server| Backend { address: server.address(), ..Backend::default() };
    let sharding = Sharding {
        default_shard: "one".into(),
        command_mappings: [("render".to_owned(), to.to_owned())].into(),
        backends: [("one".to_owned(), backend(servers[0])), ("two".to_owned(), backend(servers[1]))].into(),
        ..Sharding::default()
    };
    let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
    open(KvrocksOptions { sharding, timing, ..options(backend(servers[0])) })
}

async fn lanes_move(servers: [&Server; 2]) {
    let before = mapped(servers, "one");
    put(&before, r#"{"lanes":{"concurrency":2,"ordered":true}}"#).await;
    let later = NewTask { delay: codeq_queue::Delay::For(Duration::from_secs(600)), ..in_lane("b") };
    let made = before.create(vec![in_lane("a"), in_lane("a"), new("render"), later]).await.unwrap();
    let made: Vec<Task> = made.into_iter().map(|made| made.unwrap().task).collect();
    before.create(vec![in_lane("b")]).await.unwrap();
    let relocation =
        Relocation { command: "render".into(), tenant: None, from: "one".into(), to: "two".into(), batch: 2 };
    let places = before.places(&relocation, "one").await.unwrap();
    assert_eq!((places.pending, places.delayed), (4, 1));
    assert_eq!(before.relocate(&relocation).await.unwrap(), places);
    assert_eq!(before.relocate(&relocation).await.unwrap().total(), 0, "there is nothing left");
    drop(before);
    let after = mapped(servers, "two");
    assert_eq!(after.places(&relocation, "two").await.unwrap(), places);
    let policy = after.policy(render()).await.unwrap().expect("the policy has moved");
    assert!(policy.policy.lanes.is_ordered);
    let stats = after.queue(render()).await.unwrap();
    assert_eq!((stats.lanes, stats.ready_total(), stats.delayed), (2, 4, 1));
    let mut lent: Vec<_> = claim(&*after, "render", 9).await;
    lent.sort_by_key(|task| task.created_at);
    let ids: Vec<_> = lent.iter().map(|task| task.id).collect();
    assert_eq!(lent.len(), 2, "lane b waits for its delayed task: {ids:?}");
    assert!(ids.contains(&made[0].id) && ids.contains(&made[2].id));
    for task in &lent {
        after.submit(vec![done(task)]).await.unwrap().remove(0).unwrap();
    }
    assert_eq!(claim(&*after, "render", 9).await[0].id, made[1].id);
}

#[tokio::test]
async fn lanes_and_policies_move_with_their_queue_to_another_server() {
    lanes_move([&Server::start(&[]), &Server::start(&[])]).await;
}

/// Every process looks every two seconds, and read all policies of all tenants whole each time.
#[tokio::test]
async fn policies_that_have_not_changed_are_not_read_again() {
    let server = Server::start(&[]);
    let backend = || Backend { address: server.address(), ..Backend::default() };
    let timing = || Timing::Running { sweep_interval: Duration::from_secs(3600) };
    let quiet = || open(KvrocksOptions { timing: timing(), ..options(backend()) });
    let (store, other) = (quiet(), quiet());
    let overrides: Vec<String> =
        (0..1000).map(|n| format!("\"{n}-{}\":{{\"weight\":2}}", "x".repeat(100))).collect();
    let text = format!("{{\"lanes\":{{\"overrides\":{{{}}}}}}}", overrides.join(","));
    put(&store, &text).await;
    let sent = || {
        let told = server.ask("INFO stats");
        let line = told.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        line.and_then(|number| number.trim().parse::<usize>().ok()).expect("a number")
    };
    let first = store.policies().await.unwrap();
    let before = sent();
    assert_eq!(store.policies().await.unwrap(), first);
    assert!(sent() - before < text.len() / 2, "the text was read again");
    put(&other, "{}").await;
    assert_eq!(&*store.policies().await.unwrap()[0].1.text, "{}");
    other.delete_policy(render()).await.unwrap().unwrap();
    assert_eq!(store.policies().await.unwrap(), []);
}

/// What a worker had held back because of somebody's rate limit started at once at the other server.
#[tokio::test]
async fn what_a_nack_holds_back_is_held_back_where_its_queue_moves() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let before = mapped([&one, &two], "one");
    before.create(vec![new("render"), new("render")]).await.unwrap();
    let lent = claim(&*before, "render", 1).await.remove(0);
    let back = Nack { hold: Some(Hold::Queue), ..Nack::new(report(&lent), 600, None) };
    before.nack(vec![back]).await.unwrap().remove(0).unwrap();
    let relocation =
        Relocation { command: "render".into(), tenant: None, from: "one".into(), to: "two".into(), batch: 2 };
    assert_eq!(before.relocate(&relocation).await.unwrap().total(), 2);
    drop(before);
    let after = mapped([&one, &two], "two");
    assert!(claim(&*after, "render", 9).await.is_empty());
    after.resume(render()).await.unwrap();
    assert_eq!(claim(&*after, "render", 9).await.len(), 1);
}

#[tokio::test]
async fn lanes_and_policies_move_with_their_queue_within_a_server() {
    let server = Server::start(&[]);
    lanes_move([&server, &server]).await;
}

#[tokio::test]
async fn a_policy_that_changes_frees_and_closes_lanes_that_wait() {
    let (one, two) = pair();
    put(&one, r#"{"lanes":{"concurrency":1}}"#).await;
    let mut tasks = vec![in_lane("a"); 4];
    tasks.extend(vec![in_lane("b"); 4]);
    one.create(tasks).await.unwrap();
    assert_eq!(claim(&*two, "render", 9).await.len(), 2);
    assert_eq!(one.queue(render()).await.unwrap().limited, 6);
    put(&two, r#"{"lanes":{"concurrency":2}}"#).await;
    assert_eq!(claim(&*one, "render", 9).await.len(), 2);
    put(&one, r#"{"lanes":{"concurrency":1}}"#).await;
    assert_eq!(claim(&*one, "render", 9).await.len(), 0);
    assert_eq!(two.delete_policy(render()).await.unwrap(), Ok(true));
    let stats = one.queue(render()).await.unwrap();
    assert_eq!((stats.limited, stats.policy), (0, None));
    assert_eq!(claim(&*one, "render", 9).await.len(), 4);
}
