//! Listing: which tasks, in which order, on which pages.

use super::bench::{Bench, eager_rules, ids};
use super::candidate::Open;
use super::request::New;
use codeq_queue::store::Position;
use codeq_queue::{Filter, Listed, Outcome, Page, Refusal, Task, TaskId, TaskStatus, Whereabouts};
use std::collections::HashSet;
use std::sync::Arc;

fn page(bench: &Bench, filter: Filter) -> Page {
    Page {
        tenant: Some(bench.tenant.clone()),
        filter: Arc::new(filter),
        is_newest_first: false,
        cursor: None,
        limit: 500,
    }
}

async fn list(bench: &Bench, page: Page) -> Listed {
    bench.store().list(page).await.expect("the store is well").expect("the page is one")
}

/// Every page after the other.
async fn all(bench: &Bench, mut page: Page) -> Vec<Task> {
    let mut tasks = Vec::new();
    loop {
        let listed = list(bench, page.clone()).await;
        assert!(listed.tasks.len() <= page.limit);
        tasks.extend(listed.tasks);
        match listed.next {
            Some(next) => page.cursor = Some(next),
            None => return tasks,
        }
    }
}

async fn found(bench: &Bench, filter: Filter) -> Vec<TaskId> {
    ids(&all(bench, page(bench, filter)).await)
}

pub async fn a_listing_shows_every_task_of_the_tenant_as_it_is(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    assert_eq!(list(&bench, page(&bench, Filter::default())).await, Listed::default());
    let ready = bench.make(New::of("a").payload(r#"{"n": 1.50}"#).header("h", "v").key("k")).await.task;
    bench.advance_ms(1);
    let delayed = bench.make(New::of("b").delayed_ms(60_000)).await.task;
    bench.advance_ms(1);
    let running = bench.create_and_take(New::of("c")).await;
    let completed = bench.create_and_take(New::of("d")).await;
    bench.complete(&completed).await;
    let dead = bench.dead("e").await;
    bench.tenant("other").create("a").await;
    let mut expected = Vec::new();
    for id in [ready.id, delayed.id, running.id, completed.id, dead.id] {
        expected.push(bench.get(id).await);
    }
    let mut listed = all(&bench, page(&bench, Filter::default())).await;
    assert_eq!(listed[0].id, ready.id, "the oldest comes first");
    listed.sort_by_key(|task| *task.id.as_bytes());
    expected.sort_by_key(|task| *task.id.as_bytes());
    assert_eq!(listed, expected);
}

pub async fn a_listing_runs_from_the_oldest_or_from_the_newest(open: Open) {
    let bench = Bench::new(&open);
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(bench.create("render").await.id);
        bench.advance_ms(1);
    }
    assert_eq!(found(&bench, Filter::default()).await, made);
    made.reverse();
    let newest = Page { is_newest_first: true, ..page(&bench, Filter::default()) };
    assert_eq!(ids(&all(&bench, newest).await), made);
}

pub async fn a_listing_of_all_tenants_names_them(open: Open) {
    let bench = Bench::new(&open);
    let mine = bench.create("render").await;
    let theirs = bench.tenant("other").create("render").await;
    let everyone = Page { tenant: None, ..page(&bench, Filter::default()) };
    let listed: HashSet<TaskId> = ids(&all(&bench, everyone).await).into_iter().collect();
    assert_eq!(listed, HashSet::from([mine.id, theirs.id]));
}

pub async fn a_filter_finds_what_it_says(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let text = |text: &str| Some(text.to_owned());
    let ready = bench.make(New::of("Render").header("region", "eu").key("k1")).await.task.id;
    bench.advance_ms(10);
    let delayed = bench.make(New::of("render").delayed_ms(60_000)).await.task.id;
    let running = bench.create_and_take(New::of("other")).await.id;
    let failed = bench.create_and_take(New::of("fail")).await;
    bench.submit(&failed, Outcome::failed("Disk IS full")).await.expect("the owner may fail it");
    let dead = bench.create_and_take(New::of("die").max_attempts(1)).await;
    bench.nack(&dead, 0, "timeout after 30s").await.expect("the owner may nack");
    let any = Filter::default;
    let start = bench.get(ready).await.created_at;
    for (filter, expected) in [
        (Filter { command: text("RENDER"), ..any() }, vec![ready, delayed]),
        (Filter { status: Some(TaskStatus::Pending), ..any() }, vec![ready, delayed]),
        (Filter { status: Some(TaskStatus::InProgress), ..any() }, vec![running]),
        (Filter { status: Some(TaskStatus::Failed), ..any() }, vec![failed.id, dead.id]),
        (Filter { status: Some(TaskStatus::Completed), ..any() }, vec![]),
        (Filter { place: Some(Whereabouts::Ready), ..any() }, vec![ready]),
        (Filter { place: Some(Whereabouts::Delayed), ..any() }, vec![delayed]),
        (Filter { place: Some(Whereabouts::Running), ..any() }, vec![running]),
        (Filter { place: Some(Whereabouts::Dead), ..any() }, vec![dead.id]),
        (Filter { place: Some(Whereabouts::Done), ..any() }, vec![failed.id]),
        (Filter { worker_id: text("worker"), ..any() }, vec![running]),
        (Filter { worker_id: text("nobody"), ..any() }, vec![]),
        (Filter { error: text("disk is FULL"), ..any() }, vec![failed.id]),
        (Filter { idempotency_key: text("k1"), ..any() }, vec![ready]),
        (Filter { headers: vec![("region".into(), "eu".into())], ..any() }, vec![ready]),
        (Filter { created_before: Some(start.plus_seconds(0)), ..any() }, vec![]),
        (Filter { created_after: Some(start), command: text("render"), ..any() }, vec![delayed]),
    ] {
        let mut found = found(&bench, filter.clone()).await;
        let mut expected = expected;
        found.sort_by_key(|id| *id.as_bytes());
        expected.sort_by_key(|id| *id.as_bytes());
        assert_eq!(found, expected, "{filter:?}");
    }
}

pub async fn pages_have_every_task_exactly_once_while_tasks_move(open: Open) {
    let bench = Bench::with(&open, eager_rules());
    let mut made = HashSet::new();
    for n in 0..40u64 {
        made.insert(bench.create(&format!("c{}", n % 7)).await.id);
        bench.advance_ms(n % 3);
    }
    let mut seen = Vec::new();
    let mut next = Page { limit: 7, ..page(&bench, Filter::default()) };
    loop {
        let listed = list(&bench, next.clone()).await;
        seen.extend(ids(&listed.tasks));
        // What moves between two pages keeps its place.
        for task in bench.claim_any(3).await {
            bench.complete(&task).await;
        }
        match listed.next {
            Some(cursor) => next.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(seen.len(), made.len(), "each task once");
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), made);
}

pub async fn a_cursor_of_another_kind_is_refused(open: Open) {
    let bench = Bench::new(&open);
    bench.create("render").await;
    let page = Page { cursor: Some("not a cursor".into()), ..page(&bench, Filter::default()) };
    let refused = bench.store().list(page).await.expect("the store is well");
    assert_eq!(refused, Err(Refusal::InvalidCursor));
}

pub async fn a_large_payload_is_listed_exactly(open: Open) {
    let bench = Bench::new(&open);
    let payload = format!("\"{}\"", "x".repeat(100_000));
    let task = bench.make(New::of("render").payload(&payload)).await.task;
    let listed = list(&bench, page(&bench, Filter::default())).await;
    assert_eq!(listed.tasks, vec![task]);
}

pub async fn what_is_over_is_not_listed(open: Open) {
    let bench = Bench::new(&open);
    let task = bench.create_and_take(New::of("render")).await;
    bench.complete(&task).await;
    assert_eq!(found(&bench, Filter::default()).await, [task.id]);
    bench.advance(86_400);
    assert!(found(&bench, Filter::default()).await.is_empty());
}

pub async fn a_ready_task_knows_who_is_ahead(open: Open) {
    let bench = Bench::new(&open);
    let position = async |id| {
        let named = codeq_queue::store::TaskRef { tenant: bench.tenant.clone(), id };
        bench.store().position(named).await.expect("the store is well")
    };
    let first = bench.create("render").await.id;
    let second = bench.create("render").await.id;
    bench.make(New::of("render").priority(3)).await;
    bench.create("other").await;
    let at = |ahead| Some(Position { ahead: Some(ahead), ahead_at_higher_priority: 1 });
    assert_eq!((position(first).await, position(second).await), (at(0), at(1)));
    let delayed = bench.make(New::of("render").delayed_ms(1000)).await.task.id;
    assert_eq!(position(delayed).await, None);
}
