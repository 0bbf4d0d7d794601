//! Claiming: what a claim takes, what it writes, and from where.

use super::bench::{Bench, LEASE, ids};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::ResultLookup;
use codeq_queue::{Place, TaskStatus};

pub async fn a_claim_lends_the_task_to_its_caller(open: Open) {
    let bench = Bench::new(&open);
    let made = bench.create("render").await;
    bench.advance_ms(7);
    let task = bench.take("render").await;
    assert_eq!(task.id, made.id);
    assert_eq!((task.state.status(), task.state.place()), (TaskStatus::InProgress, Place::InProgressSet));
    assert_eq!((task.attempts, task.refunds), (1, 0));
    assert_eq!((task.created_at, task.updated_at), (made.created_at, bench.now()));
    let lease = task.state.lease().expect("a running task has a lease");
    assert_eq!(*lease.owner, *bench.owner);
    assert_eq!((lease.claimed_at, lease.until), (bench.now(), bench.now().plus(LEASE)));
    assert_eq!(bench.get(made.id).await, task, "the answer is what is stored");
    assert_eq!(bench.lookup(made.id).await, ResultLookup::Pending);
}

pub async fn a_running_task_is_not_lent_again(open: Open) {
    let bench = Bench::new(&open);
    bench.create_and_take(New::of("render")).await;
    assert!(bench.claim(&["render"], 5).await.is_empty());
    assert!(bench.claim_any(5).await.is_empty());
    assert!(bench.worker("subject", "other").claim_any(5).await.is_empty());
}

pub async fn a_claim_that_finds_nothing_is_empty(open: Open) {
    let bench = Bench::new(&open);
    assert!(bench.claim(&["render"], 1).await.is_empty());
    assert!(bench.claim(&[], 1).await.is_empty());
    assert!(bench.claim_any(1).await.is_empty());
}

pub async fn commands_are_compared_without_case_and_kept_as_spelled(open: Open) {
    let bench = Bench::new(&open);
    let mut made = Vec::new();
    for spelling in ["Render", "RENDER", "render"] {
        made.push(bench.create(spelling).await.id);
    }
    let tasks = bench.claim(&["rEnDeR"], 9).await;
    assert_eq!(ids(&tasks), made, "one queue for all spellings");
    let spelled: Vec<&str> = tasks.iter().map(|task| &*task.body.command).collect();
    assert_eq!(spelled, ["Render", "RENDER", "render"]);
    assert_eq!(bench.stats("RENDER").await.in_progress, 3);
}

pub async fn commands_that_look_alike_are_different_queues(open: Open) {
    let bench = Bench::new(&open);
    for command in ["a", "a:b", "a.b", "a-b", "a_b", "a:b:c"] {
        bench.create(command).await;
    }
    for command in ["a:b:c", "a_b", "a-b", "a.b", "a:b", "a"] {
        let tasks = bench.claim(&[command], 9).await;
        assert_eq!(tasks.len(), 1, "{command}");
        assert_eq!(&*tasks[0].body.command, command);
    }
}

pub async fn a_claim_of_several_takes_what_is_there_and_spans_commands(open: Open) {
    let bench = Bench::new(&open);
    let mut made = Vec::new();
    for command in ["first", "second", "third"] {
        for _ in 0..2 {
            made.push(bench.create(command).await.id);
        }
    }
    let some = bench.claim(&["first", "second", "third"], 3).await;
    assert_eq!(ids(&some), made[..3]);
    let rest = bench.claim(&["first", "second", "third"], 100).await;
    assert_eq!(ids(&rest), made[3..], "fewer than asked is normal");
    assert!(some.iter().chain(&rest).all(|task| task.attempts == 1), "each counts one attempt");
}

pub async fn a_claim_of_any_command_of_several_spans_queues(open: Open) {
    let bench = Bench::new(&open);
    let mut made = Vec::new();
    for command in ["a", "b", "c", "d", "e"] {
        bench.advance_ms(1);
        made.push(bench.create(command).await.id);
    }
    assert_eq!(ids(&bench.claim_any(4).await), made[..4]);
    assert_eq!(ids(&bench.claim_any(4).await), made[4..]);
}

pub async fn attempts_count_deliveries_and_the_error_is_kept_by_a_claim(open: Open) {
    let bench = Bench::new(&open);
    let mut task = bench.create_and_take(New::of("render")).await;
    for attempt in 1..4 {
        assert_eq!(task.attempts, attempt);
        bench.nack(&task, 1, "no luck").await.expect("the owner may nack");
        bench.advance(1);
        task = bench.take("render").await;
        assert_eq!(task.error.as_deref(), Some("no luck"));
    }
}

pub async fn a_thousand_tasks_are_claimed_once_each_by_many_threads(open: Open) {
    let bench = Bench::new(&open);
    let new = New::of("render").build(&bench.tenant);
    bench.ask("create of 1000", bench.store().create(vec![new; 1000])).await;
    let claimers = (0..8).map(|worker| {
        let bench = bench.worker("subject", &format!("worker-{worker}"));
        let handle = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || handle.block_on(claim_all(bench)))
    });
    let mut seen = std::collections::HashSet::new();
    for claimer in claimers.collect::<Vec<_>>() {
        for id in super::bench::within("a claimer", claimer).await.expect("a claimer does not panic") {
            assert!(seen.insert(id), "{id} was lent twice");
        }
    }
    assert_eq!(seen.len(), 1000, "no task is skipped");
}

async fn claim_all(bench: Bench) -> Vec<codeq_queue::TaskId> {
    let mut all = Vec::new();
    loop {
        let tasks = bench.claim(&["render"], 7).await;
        if tasks.is_empty() {
            return all;
        }
        all.extend(ids(&tasks));
    }
}
