//! Imports: tasks from elsewhere keep their ids.

use super::bench::{Bench, eager_rules, one};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::{Import, ResultLookup};
use codeq_queue::{Place, Refusal, State, Task, TaskId};
use std::sync::Arc;

/// The only store whose ids any store can keep is the exam's own: random ones.
fn stranger(bench: &Bench, bits: u128, task: &Task, change: impl FnOnce(&mut Task)) -> Task {
    let id = TaskId::from_bits(bits);
    let mut body = (*task.body).clone();
    body.tenant = bench.tenant.clone();
    let mut task = Task { id, body: Arc::new(body), ..task.clone() };
    change(&mut task);
    task
}

/// An id that belongs to the same partition as the queue of `task`, whatever the number of shards.
fn bits(task: &Task, salt: u128) -> u128 {
    let queue = codeq_queue::QueueKey::new(&task.body.tenant, &task.body.command);
    (0..)
        .map(|n| (0xfeed_0000_0000 + (salt << 8) + n) * 0x0001_0001_0000_0000_0001)
        .find(|bits| TaskId::from_bits(*bits).shard(4) == queue.shard(4))
        .expect("a quarter of all ids")
}

async fn import(
    bench: &Bench,
    task: &Task,
    record: Option<codeq_queue::ResultRecord>,
) -> Result<bool, Refusal> {
    let import = Import { task: task.clone(), record };
    one(bench.store().import(vec![import]).await.expect("the store is well"))
}

pub async fn an_imported_task_keeps_its_id_and_can_be_worked(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let model = bench.make(New::of("render").payload(r#"{"n":1.0}"#).header("a", "b").key("mine")).await.task;
    let task = stranger(&bench, bits(&model, 1), &model, |task| {
        let mut body = (*task.body).clone();
        body.idempotency_key = Some("theirs".into());
        task.body = Arc::new(body);
        (task.attempts, task.refunds, task.error) = (2, 1, Some("before".into()));
    });
    assert_eq!(import(&bench, &task, None).await, Ok(true));
    assert_eq!(import(&bench, &task, None).await, Ok(false), "once is enough");
    let there = bench.get(task.id).await;
    assert_eq!((there.id, &there.body), (task.id, &task.body));
    assert_eq!((there.attempts, there.refunds, there.error.as_deref()), (2, 1, Some("before")));
    assert_eq!((there.created_at, there.updated_at), (task.created_at, task.updated_at));
    bench.take("render").await;
    let lent = bench.take("render").await;
    assert_eq!((lent.id, lent.attempts), (task.id, 3));
    bench.complete(&lent).await;
    assert!(matches!(bench.lookup(task.id).await, ResultLookup::Done { .. }));
}

pub async fn imported_tasks_wait_die_and_end_as_they_did(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let dead = bench.dead("render").await;
    let until = bench.now().plus_seconds(10);
    let delayed = stranger(&bench, bits(&dead, 2), &dead, |task| task.state = State::Delayed { until });
    assert_eq!(import(&bench, &delayed, None).await, Ok(true));
    let record = bench.record(dead.id).await;
    let twin = stranger(&bench, bits(&dead, 3), &dead, |_| {});
    assert_eq!(import(&bench, &twin, Some(record.clone())).await, Ok(true));
    assert_eq!(bench.record(twin.id).await, record);
    assert_eq!(bench.stats("render").await.dead, 2);
    assert_eq!(bench.requeue(twin.id, None).await.expect("a dead letter").state.place(), Place::PendingList);
    assert_eq!(bench.get(delayed.id).await.state, State::Delayed { until });
    bench.advance(10);
    assert_eq!(bench.get(delayed.id).await.state.place(), Place::PendingList);
}

pub async fn an_imported_task_is_found_after_a_reopening(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let model = bench.create_and_take(New::of("render")).await;
    bench.complete(&model).await;
    let (done, record) = (bench.get(model.id).await, bench.record(model.id).await);
    let ended = stranger(&bench, bits(&done, 4), &done, |_| {});
    let live = stranger(&bench, bits(&done, 5), &done, |task| task.state = State::Ready { seq: 0 });
    assert_eq!(import(&bench, &ended, Some(record.clone())).await, Ok(true));
    assert_eq!(import(&bench, &live, None).await, Ok(true));
    if !bench.candidate.keeps_on_reopen() {
        return;
    }
    for _ in 0..2 {
        bench.store().close().await.expect("the store is well");
        bench.candidate.reopen();
        assert_eq!(bench.record(ended.id).await, record);
        assert_eq!(bench.get(live.id).await.state.place(), Place::PendingList);
    }
    assert_eq!(bench.take("render").await.id, live.id);
}

/// The embedded store forgot what the attempts elsewhere had left for the next one.
pub async fn an_imported_task_keeps_its_checkpoint(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let dead = bench.dead("render").await;
    let record = bench.record(dead.id).await;
    let left: Arc<str> = "{\"page\":7}".into();
    let letter = stranger(&bench, bits(&dead, 7), &dead, |task| task.checkpoint = Some(left.clone()));
    let live = stranger(&bench, bits(&dead, 8), &dead, |task| {
        (task.state, task.checkpoint) = (State::Ready { seq: 0 }, Some(left.clone()));
    });
    assert_eq!(import(&bench, &letter, Some(record)).await, Ok(true));
    assert_eq!(import(&bench, &live, None).await, Ok(true));
    if bench.candidate.keeps_on_reopen() {
        bench.store().close().await.expect("the store is well");
        bench.candidate.reopen();
    }
    assert_eq!(bench.get(letter.id).await.checkpoint, Some(left.clone()));
    assert_eq!(bench.take("render").await.checkpoint, Some(left.clone()));
    bench.requeue(letter.id, None).await.expect("a dead letter");
    assert_eq!(bench.get(letter.id).await.checkpoint, Some(left));
}

pub async fn an_import_does_not_take_the_key_of_another(open: Open) {
    let bench = Bench::new(&open);
    let holder = bench.make(New::of("render").key("k")).await.task;
    let twin = stranger(&bench, bits(&holder, 6), &holder, |_| {});
    assert_eq!(import(&bench, &twin, None).await, Err(Refusal::IdempotencyKeyTaken));
    assert_eq!(bench.stats("render").await.ready_total(), 1);
}
