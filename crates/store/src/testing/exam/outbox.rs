//! The outbox: a callback is stored with the transition that caused it and kept until it is dealt with.

use super::bench::{Bench, PATIENCE, eventually, one, plain_rules};
use super::candidate::Open;
use super::request::New;
use crate::Rules;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::{Artifact, Delivery, DeliveryState, Outcome, Refusal, Task};
use std::time::Duration;

const URL: &str = "https://example.org/done";
const HOLD: Duration = Duration::from_secs(60);
const WEEK: u64 = 7 * 86_400;

pub fn hooked() -> New {
    New::of("Render").webhook(URL).max_attempts(1)
}

pub async fn take(bench: &Bench) -> Vec<Delivery> {
    bench.ask("take_deliveries", bench.store().take_deliveries(100, HOLD)).await
}

pub async fn report(bench: &Bench, id: u128, report: DeliveryReport) -> Result<(), Refusal> {
    bench.ask("report_delivery", bench.store().report_delivery(id, report)).await
}

pub async fn list(bench: &Bench, failed: bool) -> Vec<Delivery> {
    bench.ask("deliveries", bench.store().deliveries(Some(bench.tenant.clone()), failed, 0, 1000)).await
}

async fn redeliver(bench: &Bench, id: u128) -> Result<Delivery, Refusal> {
    bench.ask("redeliver", bench.store().redeliver(bench.tenant.clone(), id)).await
}

/// A task with a webhook, completed.
pub async fn completed(bench: &Bench) -> Task {
    let task = bench.create_and_take(hooked()).await;
    bench.complete(&task).await;
    task
}

pub async fn a_result_is_called_back_with_its_exact_text(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(hooked()).await;
    bench.advance_ms(250);
    let artifact = Artifact { name: "a\"b".into(), url: "https://x/".into(), stored: None };
    let outcome = Outcome { artifacts: vec![artifact], ..Outcome::completed("{ \"ok\":true}") };
    bench.submit(&task, outcome).await.expect("the owner may complete");
    let delivery = one(take(&bench).await);
    let body = format!(
        "{{\"taskId\":\"{}\",\"eventType\":\"Render\",\"status\":\"COMPLETED\",\"result\":{{ \"ok\":true}},\
         \"error\":\"\",\"artifacts\":[{{\"name\":\"a\\\"b\",\"url\":\"https://x/\"}}],\
         \"completedAt\":\"2023-11-14T22:13:20.25Z\"}}",
        task.id
    );
    assert_eq!(&*delivery.body, body);
    assert_eq!((&*delivery.url, delivery.task_id, &delivery.tenant), (URL, task.id, &bench.tenant));
    assert_eq!((delivery.created_at, delivery.last_error.as_deref()), (bench.now(), None));
}

fn tells(delivery: &Delivery, error: &str) -> bool {
    let text = format!("\"status\":\"FAILED\",\"result\":null,\"error\":\"{error}\",\"artifacts\":[],");
    delivery.body.contains(&text)
}

pub async fn every_end_is_called_back(open: Open) {
    let bench = Bench::new(&open);
    let ends = ["no", "broken", "MAX_ATTEMPTS", "LEASE_EXPIRED", "CANCELLED", "CANCELLED"];
    for (way, error) in ends.into_iter().enumerate() {
        let task =
            if way == 5 { bench.make(hooked()).await.task } else { bench.create_and_take(hooked()).await };
        assert!(list(&bench, false).await.is_empty(), "nothing is called back before the end");
        match way {
            0 => bench.submit(&task, Outcome::failed("no")).await.map(|_| ()),
            1 => bench.nack(&task, 0, "broken").await.map(|_| ()),
            2 => bench.abandon(&task).await.map(|_| ()),
            3 => {
                bench.advance(60);
                Ok(())
            }
            _ => bench.cancel(task.id).await.map(|_| ()),
        }
        .expect("the task may be ended");
        let delivery = one(take(&bench).await);
        assert!(tells(&delivery, error), "{error}: {}", delivery.body);
        assert_eq!(report(&bench, delivery.id, DeliveryReport::Delivered).await, Ok(()));
    }
}

pub async fn retries_refusals_and_retention_are_not_called_back(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(hooked().max_attempts(2)).await;
    bench.nack(&task, 1, "x").await.expect("the owner may nack");
    bench.advance(1);
    let task = bench.take("render").await;
    assert!(bench.submit(&task, Outcome::failed(" ")).await.is_err());
    assert!(take(&bench).await.is_empty());
    bench.complete(&task).await;
    let delivery = one(take(&bench).await);
    assert_eq!(report(&bench, delivery.id, DeliveryReport::Delivered).await, Ok(()));
    bench.advance(2 * 86_400);
    assert_eq!(bench.find(task.id).await, None);
    assert!(take(&bench).await.is_empty());
}

pub async fn a_task_without_a_webhook_calls_no_one(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.complete(&task).await;
    assert!(take(&bench).await.is_empty());
}

pub async fn nothing_is_stored_when_callbacks_are_off(open: Open) {
    let bench = Bench::with(&open, Rules { callbacks: false, ..plain_rules() });
    completed(&bench).await;
    assert!(take(&bench).await.is_empty());
    assert!(list(&bench, false).await.is_empty());
}

pub async fn a_requeued_dead_letter_calls_back_again(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(hooked()).await;
    bench.abandon(&task).await.expect("the owner may abandon");
    bench.requeue(task.id, None).await.expect("a dead letter can be requeued");
    let task = bench.take("render").await;
    bench.complete(&task).await;
    let taken = take(&bench).await;
    assert_eq!(taken.len(), 2, "one callback for each end");
    assert_ne!(taken[0].id, taken[1].id);
    assert!(taken.iter().any(|delivery| delivery.body.contains("COMPLETED")));
}

pub async fn a_taken_callback_is_held(open: Open) {
    let bench = Bench::new(&open);
    completed(&bench).await;
    let first = one(take(&bench).await);
    assert!(take(&bench).await.is_empty(), "it is in someone's hands");
    assert_eq!(list(&bench, false).await.len(), 1, "and still pending");
    bench.advance(59);
    assert!(take(&bench).await.is_empty());
    bench.advance(1);
    let second = one(take(&bench).await);
    assert_eq!((second.id, &second.body), (first.id, &first.body));
}

pub async fn a_delivered_callback_is_gone(open: Open) {
    let bench = Bench::new(&open);
    completed(&bench).await;
    let delivery = one(take(&bench).await);
    assert_eq!(report(&bench, delivery.id, DeliveryReport::Delivered).await, Ok(()));
    bench.advance(600);
    assert!(take(&bench).await.is_empty());
    assert!(list(&bench, false).await.is_empty() && list(&bench, true).await.is_empty());
    let again = report(&bench, delivery.id, DeliveryReport::Delivered).await;
    assert_eq!(again, Err(Refusal::DeliveryNotFound));
}

pub async fn a_callback_to_retry_is_due_when_said(open: Open) {
    let bench = Bench::new(&open);
    completed(&bench).await;
    let delivery = one(take(&bench).await);
    let due = bench.now().plus_seconds(2);
    let retry = DeliveryReport::Retry { due, error: "status 500".into() };
    assert_eq!(report(&bench, delivery.id, retry).await, Ok(()));
    let pending = one(list(&bench, false).await);
    assert_eq!((pending.state, pending.attempts), (DeliveryState::Pending { due }, 1));
    assert_eq!((pending.last_error.as_deref(), &pending.body), (Some("status 500"), &delivery.body));
    bench.advance_ms(1_999);
    assert!(take(&bench).await.is_empty());
    bench.advance_ms(1);
    assert_eq!(one(take(&bench).await).id, delivery.id);
}

/// What is sent may be as large as a result, and very many may wait.
pub async fn a_large_body_is_asked_for_alone(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(hooked()).await;
    let result = format!("\"{}\"", "x".repeat(300_000));
    bench.submit(&task, Outcome::completed(&result)).await.expect("the owner may complete");
    completed(&bench).await;
    let taken = take(&bench).await;
    let (large, small) = match taken.as_slice() {
        [one, other] if one.task_id == task.id => (one, other),
        [one, other] => (other, one),
        _ => panic!("{} were taken", taken.len()),
    };
    assert!(small.has_body() && !large.has_body());
    let body = async |id| bench.ask("delivery_body", bench.store().delivery_body(id)).await;
    let whole = body(large.id).await.expect("it is there");
    assert!(whole.contains(&result));
    assert_eq!(body(small.id).await.as_ref(), Some(&small.body));
    for delivery in [large, small] {
        let failed = DeliveryReport::Failed { error: "no".into() };
        assert_eq!(report(&bench, delivery.id, failed).await, Ok(()));
    }
    let failed = list(&bench, true).await;
    assert_eq!(failed.iter().filter(|delivery| delivery.has_body()).count(), 1);
    if bench.candidate.keeps_on_reopen() {
        bench.candidate.reopen();
    }
    assert_eq!(list(&bench, true).await, failed);
    assert_eq!(body(large.id).await, Some(whole.clone()));
    let again = redeliver(&bench, large.id).await.expect("a failed callback can be redelivered");
    assert_eq!((again.id, again.url), (large.id, large.url.clone()));
    assert_eq!(body(large.id).await, Some(whole));
    assert_eq!(report(&bench, large.id, DeliveryReport::Delivered).await, Ok(()));
    assert_eq!(body(large.id).await, None);
}

async fn failed(bench: &Bench) -> Delivery {
    completed(bench).await;
    let delivery = one(take(bench).await);
    let failed = DeliveryReport::Failed { error: "status 410".into() };
    assert_eq!(report(bench, delivery.id, failed).await, Ok(()));
    one(list(bench, true).await)
}

pub async fn a_failed_callback_is_kept_for_a_week(open: Open) {
    let bench = Bench::new(&open);
    let delivery = failed(&bench).await;
    assert_eq!(delivery.state, DeliveryState::Failed { at: bench.now() });
    assert_eq!((delivery.attempts, delivery.last_error.as_deref()), (1, Some("status 410")));
    assert!(list(&bench, false).await.is_empty());
    bench.advance_ms(WEEK * 1000 - 1);
    assert!(take(&bench).await.is_empty(), "a failed callback is not tried again");
    assert_eq!(list(&bench, true).await, [delivery]);
    bench.advance_ms(1);
    bench.advance(bench.candidate.rules().cleanup_interval.as_secs());
    eventually("the failed callback is gone", || async { list(&bench, true).await.is_empty() }).await;
}

pub async fn a_failed_callback_can_be_redelivered(open: Open) {
    let bench = Bench::new(&open);
    let delivery = failed(&bench).await;
    bench.advance(10);
    assert_eq!(redeliver(&bench.tenant("umbrella"), delivery.id).await, Err(Refusal::DeliveryNotFound));
    assert_eq!(redeliver(&bench, delivery.id ^ 1).await, Err(Refusal::DeliveryNotFound));
    let again = redeliver(&bench, delivery.id).await.expect("a failed callback can be redelivered");
    assert_eq!((again.attempts, again.state), (0, DeliveryState::Pending { due: bench.now() }));
    assert!(list(&bench, true).await.is_empty());
    let taken = one(take(&bench).await);
    assert_eq!((taken.id, taken.body), (delivery.id, delivery.body));
}

pub async fn callbacks_outlive_their_task(open: Open) {
    let bench = Bench::new(&open);
    let task = completed(&bench).await;
    bench.advance(2 * 86_400);
    assert_eq!(bench.find(task.id).await, None);
    assert!(one(take(&bench).await).body.contains("COMPLETED"));
}

pub async fn callbacks_are_listed_by_tenant_in_pages(open: Open) {
    let bench = Bench::new(&open);
    for _ in 0..5 {
        completed(&bench).await;
    }
    completed(&bench.tenant("umbrella")).await;
    let all: Vec<u128> = list(&bench, false).await.iter().map(|delivery| delivery.id).collect();
    assert!(all.len() == 5 && all.is_sorted());
    let page = bench.store().deliveries(Some(bench.tenant.clone()), false, all[1], 2);
    let page: Vec<u128> = bench.ask("deliveries", page).await.iter().map(|delivery| delivery.id).collect();
    assert_eq!(page, all[2..4]);
    let some = bench.ask("take_deliveries", bench.store().take_deliveries(4, PATIENCE)).await;
    assert_eq!(some.len(), 4, "no more than asked");
    assert_eq!(take(&bench).await.len(), 2, "the rest, of every tenant");
}
