//! Tasks that wait for others, and batches, where several processes and slots are involved.

use super::cluster;
use super::ground::open;
use super::isolation::{becomes, over};
use super::server::Server;
use super::verbs::{claim, create, done, named, new, now, report, wish};
use codeq_queue::batch::{Batch, BatchState, NewBatch};
use codeq_queue::store::{Health, ResultLookup, Submit, Wait};
use codeq_queue::{
    Body, Commands, Failure, Filter, NewTask, OnFailure, OperatorStore, Outcome, Page, State, Store, Task,
    TaskId, TaskOptions, TaskStore,
};
use codeq_store::kvrocks::{KvrocksOptions, KvrocksStore, Relocation, Timing};
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn with(command: &str, change: impl FnOnce(&mut TaskOptions)) -> NewTask {
    let (task, mut options) = (new(command), TaskOptions::default());
    change(&mut options);
    NewTask { body: Arc::new(Body { options: options.boxed(), ..(*task.body).clone() }), ..task }
}

fn after(command: &str, ids: &[TaskId]) -> NewTask {
    with(command, |options| options.after = ids.into())
}

fn member(command: &str, batch: TaskId) -> NewTask {
    with(command, |options| options.batch = Some(batch))
}

async fn make(store: &KvrocksStore, task: NewTask) -> Task {
    store.create(vec![task]).await.unwrap().remove(0).unwrap().task
}

async fn make_batch(store: &KvrocksStore) -> TaskId {
    let new = NewBatch { tenant: "t".into(), name: None, close_after: Duration::from_secs(600) };
    store.batching().unwrap().create_batch(new).await.unwrap().unwrap().id
}

async fn batch(store: &KvrocksStore, id: TaskId) -> Batch {
    store.batching().unwrap().batch("t".into(), id).await.unwrap().expect("the batch is there")
}

async fn close(store: &KvrocksStore, id: TaskId) -> Batch {
    store.batching().unwrap().close_batch("t".into(), id).await.unwrap().unwrap()
}

async fn lent(store: &KvrocksStore, command: &str) -> Task {
    let deadline = now().plus_seconds(60);
    let mut tasks = store.claim(wish(Commands::these([command]), 1, Wait::Until(deadline))).await.unwrap();
    tasks.pop().unwrap_or_else(|| panic!("nothing to claim from {command}"))
}

async fn end(store: &KvrocksStore, task: &Task, is_good: bool) {
    let outcome = if is_good { Outcome::completed("{}") } else { Outcome::failed("broken") };
    store.submit(vec![Submit { report: report(task), outcome }]).await.unwrap().remove(0).unwrap();
}

async fn until<F: Future<Output = bool>>(what: &str, mut ask: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !ask().await {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn running(interval: Duration) -> impl Fn() -> KvrocksOptions {
    let place = cluster::over_six();
    move || KvrocksOptions { timing: Timing::Running { sweep_interval: interval }, ..place() }
}

async fn members_by_state(store: &KvrocksStore, id: TaskId) -> (u64, u64, u64) {
    let (mut counts, mut cursor) = ((0, 0, 0), None);
    loop {
        let filter = Arc::new(Filter { batch: Some(id), ..Filter::default() });
        let page = Page { tenant: Some("t".into()), filter, is_newest_first: false, cursor, limit: 700 };
        let listed = store.list(page).await.unwrap().unwrap();
        for task in &listed.tasks {
            match task.state {
                State::Completed => counts.1 += 1,
                ref state if state.has_failed() => counts.2 += 1,
                _ => counts.0 += 1,
            }
        }
        cursor = listed.next;
        if cursor.is_none() {
            return counts;
        }
    }
}

fn told(batch: &Batch) -> (u64, u64, u64) {
    let counts = batch.counts();
    (counts.live, counts.completed, counts.failed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counts_of_a_batch_over_slots_and_processes_are_those_of_a_recount() {
    const MEMBERS: usize = 3000;
    let place = running(Duration::from_millis(300));
    let stores: Vec<_> = (0..3).map(|_| open(place())).collect();
    let id = make_batch(&stores[0]).await;
    let then = with("then", |options| (options.after, options.on_failure) = ([id].into(), OnFailure::Run));
    let then = make(&stores[1], then).await;
    let doomed = make(&stores[2], after("late", &[id])).await;
    let creates = (0..MEMBERS / 100).map(|part| {
        let tasks = (0..100).map(|at| member(&format!("part{}", (part + at) % 6), id)).collect();
        stores[part % 3].create(tasks)
    });
    for made in join_all(creates).await {
        assert!(made.unwrap().iter().all(Result::is_ok));
    }
    until("all have joined", || async { told(&batch(&stores[0], id).await) == (MEMBERS as u64, 0, 0) }).await;
    let work = stores.iter().map(|store| async move {
        let mut failed = 0;
        for round in 0.. {
            let parts = ["part0", "part1", "part2", "part3", "part4", "part5"];
            let tasks = store.claim(wish(Commands::these(parts), 50, Wait::No)).await.unwrap();
            if tasks.is_empty() {
                break;
            }
            for (at, task) in tasks.iter().enumerate() {
                failed += u64::from(at == 0 && round % 5 == 0);
                end(store, task, !(at == 0 && round % 5 == 0)).await;
            }
        }
        failed
    });
    let closing = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        close(&stores[1], id).await
    };
    let (failed, closed) = tokio::join!(join_all(work), closing);
    let failed: u64 = failed.into_iter().sum();
    assert!(closed.closed_at.is_some() && failed > 0);
    until("it ends", || async { batch(&stores[2], id).await.state() == BatchState::Failed }).await;
    let expected = (0, MEMBERS as u64 - failed, failed);
    for store in &stores {
        assert_eq!(told(&batch(store, id).await), expected);
        assert_eq!(members_by_state(store, id).await, expected);
    }
    assert_eq!(lent(&stores[2], "then").await.id, then.id);
    let look = || async {
        matches!(stores[0].get(vec![named(&doomed)]).await.unwrap()[0], Some(ref task) if task.state == State::Failed)
    };
    until("what follows has failed", look).await;
    assert!(claim(&*stores[0], "then", 9).await.is_empty(), "it runs once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_over_slots_is_worked_by_three_processes_in_order() {
    let place = running(Duration::from_millis(300));
    let stores: Vec<_> = (0..3).map(|_| open(place())).collect();
    let mut links: Vec<(TaskId, String)> = Vec::new();
    for index in 0..200 {
        let command = format!("link{}", index % 7);
        let before: Vec<TaskId> = links.last().map(|(id, _)| *id).into_iter().collect();
        links.push((make(&stores[index % 3], after(&command, &before)).await.id, command));
    }
    for (index, (id, command)) in links.iter().enumerate() {
        let task = lent(&stores[(index + 1) % 3], command).await;
        assert_eq!(task.id, *id, "link {index}");
        end(&stores[(index + 2) % 3], &task, true).await;
    }
}

/// Every process is gone right behind its step, before or while it carries what the step left. One that only sweeps
/// finishes everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_leaves_that_is_gone_another_finishes() {
    let place = running(Duration::from_secs(3600));
    let id = make_batch(&open(place())).await;
    let mut links = Vec::new();
    for index in 0..12 {
        let store = open(place());
        let before: Vec<TaskId> = links.last().copied().into_iter().collect();
        let task = with(&format!("link{}", index % 7), |options| {
            (options.after, options.batch) = (before.into(), Some(id));
        });
        links.push(make(&store, task).await.id);
    }
    let then = make(&open(place()), after("then", &[id])).await;
    close(&open(place()), id).await;
    let survivor = open(KvrocksOptions {
        timing: Timing::Running { sweep_interval: Duration::from_millis(100) },
        ..place()
    });
    for (index, link) in links.iter().enumerate() {
        let command = format!("link{}", index % 7);
        let task = lent(&survivor, &command).await;
        assert_eq!(task.id, *link);
        let store = open(place());
        end(&store, &task, true).await;
    }
    assert_eq!(lent(&survivor, "then").await.id, then.id);
    let ended = batch(&survivor, id).await;
    assert_eq!((ended.state(), told(&ended)), (BatchState::Completed, (0, 12, 0)));
}

#[tokio::test]
async fn a_dependency_on_a_server_that_is_away_is_not_taken_for_unknown() {
    let (one, mut two) = (Server::start(&[]), Server::start(&[]));
    let store = open(over(&one, &two));
    let far = create(&*store, "far").await.unwrap().task;
    let held = make(&store, after("near", &[far.id])).await;
    two.kill();
    becomes(&store, |health| *health == Health::Degraded(vec!["two".into()])).await;
    let failed = store.create(vec![after("near", &[far.id])]).await.expect_err("nobody knows");
    assert!(matches!(failed, Failure::Unavailable { .. }), "{failed}");
    let still = store.get(vec![named(&held)]).await.unwrap().remove(0).unwrap();
    assert!(still.state.held().is_some());
}

#[tokio::test]
async fn held_tasks_members_and_what_others_wait_for_move_to_another_server() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let store = open(over(&one, &two));
    let id = make_batch(&store).await;
    let top = make(&store, member("render", id)).await;
    let first = create(&*store, "first").await.unwrap().task;
    let held = make(
        &store,
        with("render", |options| {
            (options.after, options.batch) = ([first.id].into(), Some(id));
        }),
    )
    .await;
    let last = make(&store, after("last", &[top.id, held.id])).await;
    let then = make(&store, after("then", &[id])).await;
    close(&store, id).await;
    until("it is watched", || async { one.say(&format!("EXISTS codeq:watchers:{}", top.id)) == ":1" }).await;
    let relocation =
        Relocation { command: "render".into(), tenant: None, from: "one".into(), to: "two".into(), batch: 3 };
    let moved = store.relocate(&relocation).await.unwrap();
    assert_eq!((moved.pending, moved.held, moved.total()), (1, 1, 2));
    assert_eq!(two.say("HLEN codeq:tasks"), ":2");
    let first = lent(&store, "first").await;
    end(&store, &first, true).await;
    let after_move = open(KvrocksOptions {
        sharding: codeq_store::kvrocks::Sharding {
            command_mappings: [("render".to_owned(), "two".to_owned())].into(),
            ..over(&one, &two).sharding
        },
        ..over(&one, &two)
    });
    for expected in [top.id, held.id] {
        let task = lent(&after_move, "render").await;
        assert_eq!(task.id, expected);
        after_move.submit(vec![done(&task)]).await.unwrap().remove(0).unwrap();
    }
    assert_eq!(lent(&after_move, "last").await.id, last.id);
    assert_eq!(lent(&after_move, "then").await.id, then.id);
    assert_eq!(told(&batch(&after_move, id).await), (0, 2, 0));
    let result = after_move.result(named(&held), Wait::No).await.unwrap();
    assert!(matches!(result, ResultLookup::Done { .. }), "{result:?}");
}
