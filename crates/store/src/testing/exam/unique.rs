//! Unique keys: who has one, until when, and what a second create comes to.

use super::bench::{Bench, until};
use super::candidate::Open;
use super::request::New;
use codeq_queue::{OnConflict, Outcome, Refusal, State, UniqueUntil};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn new(until: UniqueUntil, on_conflict: OnConflict) -> New {
    New::of("render").unique("k", until, on_conflict)
}

pub async fn a_second_create_finds_the_holder_until_it_ends(open: Open) {
    let bench = Bench::new(&open);
    let wish = || new(UniqueUntil::Ended, OnConflict::Keep);
    let first = bench.make(wish()).await;
    assert!(!first.is_duplicate);
    let second = bench.make(wish().payload("2")).await;
    assert_eq!((second.is_duplicate, second.is_replay, second.task.id), (true, false, first.task.id));
    assert!(
        !bench.make(New::of("other").unique("k", UniqueUntil::Ended, OnConflict::Keep)).await.is_duplicate
    );
    assert!(!bench.tenant("umbrella").make(wish()).await.is_duplicate);
    let task = bench.take("render").await;
    assert!(bench.make(wish()).await.is_duplicate, "a running task holds its key");
    bench.complete(&task).await;
    assert!(!bench.make(wish()).await.is_duplicate);
}

pub async fn a_deduplicated_create_stores_no_idempotency_key(open: Open) {
    let bench = Bench::new(&open);
    let wish = || new(UniqueUntil::Ended, OnConflict::Keep);
    bench.make(wish()).await;
    assert!(bench.make(wish().key("i")).await.is_duplicate);
    bench.cancel(bench.take("render").await.id).await.expect("a running task can be cancelled");
    let made = bench.make(wish().key("i")).await;
    assert!(!made.is_duplicate && !made.is_replay);
    assert!(bench.make(wish().key("i")).await.is_replay, "idempotency is looked at first");
}

pub async fn a_key_until_the_start_is_free_after_the_first_claim(open: Open) {
    let bench = Bench::new(&open);
    let wish = || new(UniqueUntil::Started, OnConflict::Keep);
    bench.make(wish()).await;
    assert!(bench.make(wish()).await.is_duplicate);
    let task = bench.take("render").await;
    assert!(!bench.make(wish()).await.is_duplicate);
    bench.abandon(&task).await.expect("the owner may abandon");
    assert!(bench.make(wish()).await.is_duplicate, "of the second one: a retry does not take the key again");
}

pub async fn a_key_for_some_time_outlives_its_task(open: Open) {
    let bench = Bench::new(&open);
    let wish = || new(UniqueUntil::For(MINUTE), OnConflict::Keep);
    let first = bench.make(wish()).await.task;
    bench.complete(&bench.take("render").await).await;
    bench.advance(59);
    let second = bench.make(wish()).await;
    assert_eq!((second.is_duplicate, second.task.id), (true, first.id));
    assert_eq!(second.task.state, State::Completed);
    bench.advance(1);
    assert!(!bench.make(wish()).await.is_duplicate);
}

pub async fn a_later_create_replaces_what_nobody_has_claimed(open: Open) {
    let bench = Bench::new(&open);
    let wish = |ms| new(UniqueUntil::Ended, OnConflict::Replace).max_wait(MINUTE).delayed_ms(ms);
    let first = bench.make(wish(10_000).payload("1").priority(3)).await.task;
    bench.advance(5);
    let second = bench.make(wish(10_000).payload("2").header("h", "v")).await;
    assert_eq!((second.is_duplicate, second.task.id, second.task.priority), (true, first.id, 3));
    assert_eq!(until(&second.task), bench.now().plus_seconds(10), "put off");
    let third = bench.make(wish(600_000).payload("3")).await.task;
    assert_eq!(until(&third), first.created_at.plus(MINUTE), "but not for ever");
    bench.advance(55);
    let task = bench.take("render").await;
    assert_eq!((task.id, &*task.body.payload, task.body.headers.len()), (first.id, "3", 0));
    assert!(bench.make(wish(1).payload("4")).await.is_duplicate);
    assert_eq!(&*bench.get(task.id).await.body.payload, "3", "what runs is kept");
}

pub async fn a_later_create_cancels_the_holder(open: Open) {
    let bench = Bench::new(&open);
    let wish = || new(UniqueUntil::Ended, OnConflict::Cancel);
    let first = bench.make(wish()).await.task;
    let second = bench.make(wish()).await;
    assert!(!second.is_duplicate && second.task.id != first.id);
    assert_eq!(bench.get(first.id).await.state, State::Cancelled);
    let running = bench.take("render").await;
    let third = bench.make(wish()).await.task;
    assert_eq!(bench.get(running.id).await.state, State::Cancelled);
    assert_eq!(bench.take("render").await.id, third.id);
}

/// In a full queue a task cannot take the place of one that runs, and then nothing happens to that one. It can take the
/// place of one that waits.
pub async fn a_create_that_is_refused_leaves_the_holder_alone(open: Open) {
    let bench = Bench::new(&open);
    super::policies::put(&bench, "render", r#"{"maxReady":1}"#).await;
    let wish = || new(UniqueUntil::Ended, OnConflict::Cancel);
    let running = bench.create_and_take(wish()).await;
    let waiting = bench.create("render").await;
    for _ in 0..2 {
        assert_eq!(bench.try_make(wish()).await, Err(Refusal::QueueFull));
        assert_eq!(bench.get(running.id).await, running);
    }
    bench.cancel(waiting.id).await.expect("a ready task can be cancelled");
    let mut holder = bench.try_make(wish()).await.expect("there is room").task;
    assert_eq!(bench.get(running.id).await.state, State::Cancelled);
    for delay_ms in [60_000, 0] {
        let next = bench.try_make(wish().delayed_ms(delay_ms)).await.expect("as many wait as before").task;
        assert_eq!(bench.get(holder.id).await.state, State::Cancelled);
        assert_eq!(bench.try_make(New::of("render")).await, Err(Refusal::QueueFull));
        holder = next;
    }
    assert_eq!(bench.take("render").await.id, holder.id);
}

pub async fn unique_keys_and_replaced_payloads_are_kept(open: Open) {
    let bench = Bench::new(&open);
    if !bench.candidate.keeps_on_reopen() {
        return;
    }
    let replaced = || New::of("replaced").unique("k", UniqueUntil::Ended, OnConflict::Replace);
    let first = bench.make(replaced().payload("1")).await.task;
    bench.candidate.reopen();
    bench.make(replaced().payload("2")).await;
    let timed = || New::of("timed").unique("k", UniqueUntil::For(MINUTE), OnConflict::Keep);
    bench.complete(&bench.create_and_take(timed()).await).await;
    let started = || New::of("started").unique("k", UniqueUntil::Started, OnConflict::Keep);
    bench.create_and_take(started()).await;
    for _ in 0..2 {
        bench.candidate.reopen();
        let again = bench.make(replaced().payload("3")).await;
        assert_eq!((again.is_duplicate, again.task.id), (true, first.id));
        assert_eq!(&*bench.get(first.id).await.body.payload, "3");
        assert!(bench.make(timed()).await.is_duplicate);
    }
    assert!(!bench.make(started()).await.is_duplicate);
    let task = bench.take("replaced").await;
    assert_eq!(&*task.body.payload, "3");
    bench.complete(&task).await;
    bench.candidate.reopen();
    assert_eq!(&*bench.get(first.id).await.body.payload, "3");
    assert!(!bench.make(replaced()).await.is_duplicate);
    bench.advance(60);
    assert!(!bench.make(timed()).await.is_duplicate);
}

pub async fn a_requeue_takes_the_key_again_or_is_refused(open: Open) {
    let bench = Bench::new(&open);
    let wish = || new(UniqueUntil::Ended, OnConflict::Keep);
    let failed = bench.create_and_take(wish()).await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    let holder = bench.make(wish()).await;
    assert!(!holder.is_duplicate, "a failed task has no key");
    let before = bench.get(failed.id).await;
    assert_eq!(bench.requeue(failed.id, None).await, Err(Refusal::UniqueConflict));
    assert_eq!(bench.get(failed.id).await, before);
    assert_eq!(bench.make(wish()).await.task.id, holder.task.id, "the holder keeps its key");
    bench.complete(&bench.take("render").await).await;
    bench.requeue(failed.id, None).await.expect("the key is free");
    let second = bench.make(wish()).await;
    assert_eq!((second.is_duplicate, second.task.id), (true, failed.id));
}

pub async fn a_requeue_leaves_a_key_that_was_for_the_first_claim_alone(open: Open) {
    let bench = Bench::new(&open);
    let wish = || new(UniqueUntil::Started, OnConflict::Keep);
    let failed = bench.create_and_take(wish()).await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    let holder = bench.make(wish()).await.task;
    bench.requeue(failed.id, None).await.expect("it has been claimed before");
    assert_eq!(bench.make(wish()).await.task.id, holder.id);
    let cancelled =
        bench.make(New::of("other").unique("k", UniqueUntil::Started, OnConflict::Keep)).await.task;
    bench.cancel(cancelled.id).await.expect("a ready task can be cancelled");
    bench.make(New::of("other").unique("k", UniqueUntil::Started, OnConflict::Keep)).await;
    assert_eq!(bench.requeue(cancelled.id, None).await, Err(Refusal::UniqueConflict));
}

pub async fn a_requeue_leaves_a_key_whose_time_is_over_alone(open: Open) {
    let bench = Bench::new(&open);
    let wish = || new(UniqueUntil::For(MINUTE), OnConflict::Keep);
    let failed = bench.create_and_take(wish()).await;
    bench.submit(&failed, Outcome::failed("no")).await.expect("the owner may fail its task");
    bench.advance(60);
    let holder = bench.make(wish()).await;
    assert!(!holder.is_duplicate);
    bench.requeue(failed.id, None).await.expect("its time with the key is over");
    assert_eq!(bench.make(wish()).await.task.id, holder.task.id, "the holder keeps its key");
    bench.cancel(failed.id).await.expect("a ready task can be cancelled");
    assert_eq!(bench.make(wish()).await.task.id, holder.task.id);
}
