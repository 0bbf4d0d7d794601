//! Waiting: a held claim is answered by what happens, not by asking again.

use super::bench::{Bench, eager_rules, one, within};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::Wait;
use codeq_queue::{Commands, Place, Task};
use tokio::task::JoinHandle;

fn render() -> Commands {
    Commands::these(["render"])
}

async fn answered(held: JoinHandle<Vec<Task>>) -> Vec<Task> {
    within("the held claim", held).await.expect("waiting does not panic")
}

pub async fn a_held_claim_is_answered_by_a_create(open: Open) {
    let bench = Bench::new(&open);
    for commands in [render(), Commands::Any, Commands::these(["other", "RENDER"])] {
        let held = bench.hold(commands, Wait::Forever).await;
        assert!(!held.is_finished());
        let made = bench.create("Render").await;
        let task = one(answered(held).await);
        assert_eq!((task.id, task.attempts), (made.id, 1));
        assert_eq!(task.state.lease().map(|lease| lease.owner.clone()), Some(bench.owner.clone()));
    }
}

pub async fn a_held_claim_is_answered_by_a_promotion(open: Open) {
    let bench = Bench::new(&open);
    let made = bench.make(New::of("render").delayed_ms(500)).await.task;
    let held = bench.hold(render(), Wait::Forever).await;
    bench.advance_ms(499);
    bench.settle().await;
    assert!(!held.is_finished(), "not a millisecond early");
    bench.advance_ms(1);
    assert_eq!(one(answered(held).await).id, made.id);
}

pub async fn a_held_claim_is_answered_by_what_comes_back(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let mut task = bench.create_and_take(New::of("render").max_attempts(99)).await;
    for way in 0..4 {
        let held = bench.hold(render(), Wait::Forever).await;
        match way {
            0 => bench.nack(&task, 0, "x").await.map(|_| ()),
            1 => bench.abandon(&task).await.map(|_| ()),
            2 => bench.refund(&task).await.map(|_| ()),
            _ => {
                bench.advance(60);
                Ok(())
            }
        }
        .expect("the owner may give it back");
        let again = one(answered(held).await);
        assert_eq!((again.id, again.attempts), (task.id, task.attempts + 1), "way {way}");
        task = again;
    }
}

pub async fn a_held_claim_is_answered_by_a_requeued_dead_letter(open: Open) {
    let bench = Bench::new(&open);
    let dead = bench.dead("render").await;
    let held = bench.hold(Commands::Any, Wait::Forever).await;
    bench.requeue(dead.id, None).await.expect("a dead letter can be requeued");
    assert_eq!(one(answered(held).await).id, dead.id);
}

pub async fn a_held_claim_is_answered_by_a_resume(open: Open) {
    let bench = Bench::new(&open);
    bench.pause("render").await;
    let made = bench.create("render").await;
    let held = bench.hold(render(), Wait::Forever).await;
    assert!(!held.is_finished(), "a paused queue serves no one");
    bench.resume("render").await;
    assert_eq!(one(answered(held).await).id, made.id);
}

pub async fn a_held_claim_of_several_is_answered_by_the_first(open: Open) {
    let bench = Bench::new(&open);
    let answer = bench.store().claim(bench.wish(render(), 50, Wait::Forever));
    let held = tokio::spawn(async move { answer.await.expect("a held claim does not fail") });
    bench.settle().await;
    let made = bench.create("render").await;
    assert_eq!(one(answered(held).await).id, made.id);
}

pub async fn waiters_are_served_in_the_order_they_came(open: Open) {
    let bench = Bench::new(&open);
    let mut held = Vec::new();
    for worker in ["first", "second", "third"] {
        held.push(bench.worker("subject", worker).hold(render(), Wait::Forever).await);
    }
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(bench.create("render").await.id);
    }
    for (held, id) in held.into_iter().zip(made) {
        assert_eq!(one(answered(held).await).id, id);
    }
}

pub async fn one_batch_serves_every_waiter_once(open: Open) {
    let bench = Bench::new(&open);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(bench.hold(render(), Wait::Forever).await);
    }
    let new = New::of("render").build(&bench.tenant);
    let created = bench.ask("create", bench.store().create(vec![new; 4])).await;
    for (held, made) in held.into_iter().zip(&created) {
        let made = made.as_ref().expect("a create is not refused");
        assert_eq!(one(answered(held).await).id, made.task.id);
    }
    let left = created[3].as_ref().expect("a create is not refused").task.id;
    assert_eq!(bench.take("render").await.id, left, "no one waited for the fourth");
}

pub async fn a_dropped_waiter_takes_nothing(open: Open) {
    let bench = Bench::new(&open);
    let gone = bench.hold(render(), Wait::Forever).await;
    let held = bench.hold(render(), Wait::Forever).await;
    gone.abort();
    assert!(within("the end of the dropped claim", gone).await.is_err());
    let first = bench.create("render").await;
    let task = one(answered(held).await);
    assert_eq!((task.id, task.used()), (first.id, 1), "the next in line is served instead");
    let second = bench.create("render").await;
    bench.settle().await;
    let ready = bench.get(second.id).await;
    assert_eq!((ready.state.place(), ready.used()), (Place::PendingList, 0));
}

pub async fn a_waiter_takes_nothing_of_other_queues_and_tenants(open: Open) {
    let bench = Bench::new(&open);
    let held = bench.hold(render(), Wait::Forever).await;
    let other = bench.create("other").await;
    let foreign = bench.tenant("umbrella").create("render").await;
    bench.settle().await;
    assert!(!held.is_finished());
    assert_eq!(bench.get(other.id).await.attempts, 0);
    assert_eq!(bench.tenant("umbrella").get(foreign.id).await.attempts, 0);
    let made = bench.create("render").await;
    assert_eq!(one(answered(held).await).id, made.id);
}

pub async fn a_bounded_wait_ends_empty_at_its_instant(open: Open) {
    let bench = Bench::new(&open);
    for commands in [render(), Commands::Any] {
        let held = bench.hold(commands, Wait::Until(bench.now().plus_seconds(10))).await;
        bench.advance_ms(9_999);
        bench.settle().await;
        assert!(!held.is_finished());
        bench.advance_ms(1);
        assert!(answered(held).await.is_empty());
    }
    let made = bench.create("render").await;
    bench.settle().await;
    assert_eq!(bench.get(made.id).await.attempts, 0, "who gave up takes nothing");
}

pub async fn a_bounded_wait_is_answered_by_work(open: Open) {
    let bench = Bench::new(&open);
    let held = bench.hold(render(), Wait::Until(bench.now().plus_seconds(10))).await;
    bench.advance(9);
    let made = bench.create("render").await;
    assert_eq!(one(answered(held).await).id, made.id);
}

pub async fn a_wait_until_an_instant_that_has_passed_is_no_wait(open: Open) {
    let bench = Bench::new(&open);
    let held = bench.hold(render(), Wait::Until(bench.now())).await;
    assert!(answered(held).await.is_empty());
    let made = bench.create("render").await;
    let held = bench.hold(render(), Wait::Until(bench.now())).await;
    assert_eq!(one(answered(held).await).id, made.id);
}
