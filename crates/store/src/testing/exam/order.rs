//! Order: who comes first within a queue and between queues.

use super::bench::{Bench, eager_rules, ids};
use super::candidate::Open;
use super::request::New;
use codeq_queue::TaskId;

async fn drain(bench: &Bench, commands: &[&str]) -> Vec<TaskId> {
    let mut order = Vec::new();
    while let Some(task) = bench.claim(commands, 1).await.pop() {
        order.push(task.id);
    }
    order
}

pub async fn tasks_leave_in_the_order_they_came(open: Open) {
    let bench = Bench::new(&open);
    let mut made = Vec::new();
    for _ in 0..30 {
        made.push(bench.create("render").await.id);
    }
    assert_eq!(drain(&bench, &["render"]).await, made);
}

pub async fn tasks_of_a_batch_leave_in_the_order_of_the_batch(open: Open) {
    let bench = Bench::new(&open);
    let new = New::of("render").build(&bench.tenant);
    let mut made = Vec::new();
    for _ in 0..3 {
        let created = bench.ask("create", bench.store().create(vec![new.clone(); 10])).await;
        made.extend(created.into_iter().map(|item| item.expect("a create is not refused").task.id));
    }
    assert_eq!(ids(&bench.claim(&["render"], 100).await), made);
}

pub async fn a_higher_priority_always_comes_first(open: Open) {
    let bench = Bench::new(&open);
    let mut made = Vec::new();
    for priority in [0, 9, 4, 5, 1, 8, 2, 7, 3, 6, 9, 0] {
        made.push((priority, bench.make(New::of("render").priority(priority)).await.task.id));
    }
    made.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    let expected: Vec<TaskId> = made.into_iter().map(|(_, id)| id).collect();
    assert_eq!(drain(&bench, &["render"]).await, expected);
}

pub async fn a_late_high_priority_overtakes(open: Open) {
    let bench = Bench::new(&open);
    let low = bench.create("render").await;
    bench.create("render").await;
    assert_eq!(bench.take("render").await.id, low.id);
    let high = bench.make(New::of("render").priority(1)).await.task;
    assert_eq!(bench.take("render").await.id, high.id);
}

pub async fn what_comes_back_joins_the_tail(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(bench.create("render").await.id);
    }
    let tasks = bench.claim(&["render"], 4).await;
    bench.nack(&tasks[2], 0, "x").await.expect("the owner may nack");
    bench.abandon(&tasks[0]).await.expect("the owner may abandon");
    bench.refund(&tasks[3]).await.expect("the owner may refund");
    bench.advance(60);
    let expected = [made[4], made[2], made[0], made[3], made[1]];
    assert_eq!(drain(&bench, &["render"]).await, expected, "the expired one comes last");
}

pub async fn what_comes_back_keeps_its_priority(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let high = bench.make(New::of("render").priority(5)).await.task;
    let low = bench.create("render").await;
    let taken = bench.take("render").await;
    bench.abandon(&taken).await.expect("the owner may abandon");
    assert_eq!(drain(&bench, &["render"]).await, [high.id, low.id]);
}

pub async fn promoted_tasks_join_the_tail_in_the_order_of_their_instants(open: Open) {
    let bench = Bench::new(&open);
    let mut made = Vec::new();
    for delay in [30, 10, 20, 20, 40] {
        made.push(bench.make(New::of("render").delayed_ms(delay)).await.task.id);
    }
    let ready = bench.create("render").await.id;
    bench.advance_ms(39);
    let expected = [ready, made[1], made[2], made[3], made[0]];
    assert_eq!(drain(&bench, &["render"]).await, expected);
    let later = bench.create("render").await.id;
    bench.advance_ms(1);
    assert_eq!(drain(&bench, &["render"]).await, [later, made[4]]);
}

pub async fn a_task_created_after_a_promotion_stands_behind_it(open: Open) {
    let bench = Bench::new(&open);
    let delayed = bench.make(New::of("render").delayed_ms(10)).await.task.id;
    bench.advance_ms(10);
    let created = bench.create("render").await.id;
    assert_eq!(drain(&bench, &["render"]).await, [delayed, created]);
}

pub async fn the_first_named_command_with_work_wins(open: Open) {
    let bench = Bench::new(&open);
    let low = bench.create("second").await.id;
    let high = bench.make(New::of("third").priority(9)).await.task.id;
    assert_eq!(drain(&bench, &["first", "second", "third"]).await, [low, high]);
    let mut made = Vec::new();
    for (command, priority) in [("a", 0), ("b", 9), ("a", 3)] {
        made.push(bench.make(New::of(command).priority(priority)).await.task.id);
    }
    assert_eq!(drain(&bench, &["b", "a"]).await, [made[1], made[2], made[0]]);
}

pub async fn any_command_means_the_highest_priority_first(open: Open) {
    let bench = Bench::new(&open);
    let mut made = Vec::new();
    for (command, priority) in [("a", 1), ("b", 3), ("c", 2), ("d", 3), ("a", 9)] {
        bench.advance_ms(1);
        made.push(bench.make(New::of(command).priority(priority)).await.task.id);
    }
    let expected = [made[4], made[1], made[3], made[2], made[0]];
    assert_eq!(ids(&bench.claim_any(9).await), expected);
}

pub async fn any_command_at_equal_priority_means_the_earliest_created_head(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let old = bench.create("a").await;
    bench.advance_ms(1);
    let middle = bench.create("b").await;
    bench.advance_ms(1);
    let young = bench.create("a").await;
    let taken = bench.take("a").await;
    bench.abandon(&taken).await.expect("the owner may abandon");
    let mut order = Vec::new();
    while let Some(task) = bench.claim_any(1).await.pop() {
        order.push(task.id);
    }
    // `old` stands behind `young` in its queue now, and a queue is judged by its head.
    assert_eq!(order, [middle.id, young.id, old.id]);
}

pub async fn any_command_prefers_the_older_task_even_if_it_came_back_later(open: Open) {
    let bench = Bench::new(&open);
    let old = bench.create_and_take(New::of("a")).await;
    bench.advance_ms(1);
    let young = bench.create("b").await;
    bench.abandon(&old).await.expect("the owner may abandon");
    assert_eq!(ids(&bench.claim_any(9).await), [old.id, young.id]);
}
