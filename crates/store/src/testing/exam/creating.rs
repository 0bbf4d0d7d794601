//! Creating: what is stored, where it goes, and when it becomes visible.

use super::bench::{Bench, until};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::ResultLookup;
use codeq_queue::{Place, TaskId, TaskStatus};

pub async fn a_created_task_is_ready(open: Open) {
    let bench = Bench::new(&open);
    let made = bench.make(New::of("render")).await;
    assert!(!made.is_replay);
    let task = bench.get(made.task.id).await;
    assert_eq!(task, made.task, "the answer is what is stored");
    assert_eq!((task.state.status(), task.state.place()), (TaskStatus::Pending, Place::PendingList));
    assert_eq!((task.attempts, task.refunds, task.max_attempts), (0, 0, 5));
    assert_eq!((task.created_at, task.updated_at), (bench.now(), bench.now()));
    assert_eq!((task.error.as_deref(), task.has_result()), (None, false));
    assert_eq!(bench.lookup(task.id).await, ResultLookup::Pending);
    assert_eq!(bench.attempts(task.id).await, Some(vec![]));
}

pub async fn a_task_with_a_delay_is_delayed(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.make(New::of("render").delayed_ms(1_500)).await.task;
    assert_eq!((task.state.status(), task.state.place()), (TaskStatus::Pending, Place::DelayedSet));
    assert_eq!(until(&task).millis(), bench.now().millis() + 1_500);
    assert_eq!((task.created_at, task.updated_at), (bench.now(), bench.now()));
    assert!(bench.claim(&["render"], 1).await.is_empty(), "a delayed task is not claimable");
}

pub async fn a_delayed_task_becomes_ready_at_its_instant_and_not_a_millisecond_early(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.make(New::of("render").delayed_ms(1_500)).await.task;
    bench.advance_ms(1_499);
    assert!(bench.claim(&["render"], 1).await.is_empty());
    assert_eq!(bench.get(task.id).await.state.place(), Place::DelayedSet);
    bench.advance_ms(1);
    let ready = bench.get(task.id).await;
    assert_eq!(ready.state.place(), Place::PendingList);
    assert_eq!((ready.created_at, ready.updated_at), (task.created_at, bench.now()));
    assert_eq!(bench.take("render").await.id, task.id);
}

pub async fn run_at_names_the_instant(open: Open) {
    let bench = Bench::new(&open);
    let at = bench.now().plus_seconds(90);
    let task = bench.make(New::of("render").run_at(at)).await.task;
    assert_eq!(until(&task), at);
    bench.set(at);
    assert_eq!(bench.take("render").await.id, task.id);
}

pub async fn an_instant_that_has_passed_means_now(open: Open) {
    let bench = Bench::new(&open);
    let start = bench.now();
    bench.advance(10);
    for at in [start, bench.now()] {
        let task = bench.make(New::of("render").run_at(at)).await.task;
        assert_eq!(task.state.place(), Place::PendingList);
    }
    let task = bench.make(New::of("render").delayed_ms(0)).await.task;
    assert_eq!(task.state.place(), Place::PendingList);
    assert_eq!(bench.claim(&["render"], 9).await.len(), 3);
}

pub async fn everything_the_producer_gave_comes_back_unchanged(open: Open) {
    let bench = Bench::new(&open);
    let payload = "{ \"b\" : 1.00,\n\"a\":\"\\u00e9é\", \"b\":[ 1e2 ,null] }";
    let new = New::of("Render.Video:v2_x-1")
        .payload(payload)
        .priority(7)
        .max_attempts(3)
        .webhook("https://example.org/done?x=1")
        .header("x-zeta", "last")
        .header("a", "")
        .key("ключ 🔑")
        .trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1");
    let made = bench.make(new).await.task;
    let claimed = bench.take("render.video:v2_x-1").await;
    for task in [&made, &bench.get(made.id).await, &claimed] {
        assert_eq!(task.body, made.body);
        assert_eq!(&*task.body.payload, payload);
        assert_eq!(&*task.body.command, "Render.Video:v2_x-1");
        assert_eq!(task.body.headers[0], ("x-zeta".into(), "last".into()));
        assert_eq!(task.body.headers[1], ("a".into(), String::new()));
        assert_eq!(task.body.idempotency_key.as_deref(), Some("ключ 🔑"));
        assert_eq!(task.body.webhook.as_deref(), Some("https://example.org/done?x=1"));
        assert!(task.body.trace_parent.is_some() && task.body.trace_state.as_deref() == Some("vendor=1"));
        assert_eq!((task.priority, task.max_attempts), (7, 3));
    }
}

pub async fn a_payload_of_a_megabyte_is_kept_exactly(open: Open) {
    let bench = Bench::new(&open);
    let payload = format!("\"{}\"", "0123456789abcdef".repeat(65_536));
    let task = bench.make(New::of("render").payload(&payload)).await.task;
    assert!(*bench.take("render").await.body.payload == *payload);
    assert!(*bench.get(task.id).await.body.payload == *payload);
}

pub async fn every_task_has_its_own_id(open: Open) {
    let bench = Bench::new(&open);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..50 {
        assert!(seen.insert(bench.create("render").await.id));
    }
}

pub async fn an_unknown_id_names_nothing(open: Open) {
    let bench = Bench::new(&open);
    let known = bench.create("render").await;
    let unknown = TaskId::from_bits(42);
    assert_eq!(bench.find(unknown).await, None);
    assert_eq!(bench.lookup(unknown).await, ResultLookup::NotFound);
    assert_eq!(bench.attempts(unknown).await, None);
    let named = vec![bench.named(unknown), bench.named(known.id), bench.named(unknown)];
    let found = bench.ask("get of three", bench.store().get(named)).await;
    assert_eq!(found, vec![None, Some(known), None], "answers come in the order of the request");
}
