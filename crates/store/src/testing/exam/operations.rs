//! Records of bulk operations, and of what operators did.

use super::bench::Bench;
use super::candidate::Open;
use codeq_queue::operation::Step;
use codeq_queue::{AuditEntry, AuditPage, Filter, Operation, OperationKind, OperationState, TaskId, Time};

fn operation(bench: &Bench, id: u128) -> Operation {
    Operation {
        id,
        tenant: Some(bench.tenant.clone()),
        kind: OperationKind::Requeue,
        filter: Filter { error: Some("time".into()), batch: Some(TaskId::from_bits(8)), ..Filter::default() },
        max_attempts: Some(3),
        rate_per_second: 10,
        state: OperationState::Running,
        matched: None,
        processed: 0,
        failed: 0,
        created_at: bench.now(),
        updated_at: bench.now(),
        error: None,
        cursor: None,
        step: Some(Step {
            tasks: vec![(bench.tenant.clone(), TaskId::from_bits(4))],
            next: Some("x".into()),
        }),
        version: 1,
        holder: 9,
        held_until: bench.now(),
        by: Some("ann".into()),
        cause: Some("timeout after <n> s".into()),
    }
}

async fn put(bench: &Bench, operation: &Operation) -> bool {
    bench.store().put_operation(operation.clone()).await.expect("the store is well")
}

async fn all(bench: &Bench) -> Vec<Operation> {
    bench.store().operations().await.expect("the store is well")
}

pub async fn an_operation_is_kept_and_changed_version_by_version(open: Open) {
    let bench = Bench::new(&open);
    let first = operation(&bench, 7);
    assert!(put(&bench, &first).await);
    assert!(!put(&bench, &first).await, "the same version again");
    bench.advance_ms(1);
    let second = operation(&bench, 3);
    assert!(put(&bench, &second).await);
    let later = Operation { version: 2, processed: 5, state: OperationState::Done, ..first.clone() };
    assert!(put(&bench, &later).await);
    assert!(
        !put(&bench, &Operation { version: 2, processed: 6, ..later.clone() }).await,
        "someone was first"
    );
    assert_eq!(all(&bench).await, [later, second.clone()], "the oldest first");
    bench.store().remove_operation(7).await.expect("the store is well");
    bench.store().remove_operation(7).await.expect("again is harmless");
    assert_eq!(all(&bench).await, [second]);
}

pub async fn an_operation_survives_a_reopening(open: Open) {
    let bench = Bench::new(&open);
    if !bench.candidate.keeps_on_reopen() {
        return;
    }
    let kept = operation(&bench, 7);
    assert!(put(&bench, &kept).await);
    bench.store().close().await.expect("the store is well");
    bench.candidate.reopen();
    assert_eq!(all(&bench).await, [kept]);
}

fn audited(bench: &Bench, id: u64, tenant: &str, verb: &str) -> AuditEntry {
    AuditEntry {
        at: bench.now(),
        id,
        who: "ann".into(),
        tenant: tenant.into(),
        verb: verb.into(),
        target: "queues/mail".into(),
        count: id.is_multiple_of(2).then_some(id),
        request_id: "r-1".into(),
    }
}

async fn audit(bench: &Bench, page: AuditPage) -> (Vec<u64>, Option<(Time, u64)>) {
    let found = bench.ask("audit", bench.store().audit(page)).await;
    (found.entries.iter().map(|entry| entry.id).collect(), found.next)
}

pub async fn what_operators_did_is_listed_by_page_and_filter(open: Open) {
    let bench = Bench::new(&open);
    let mut entries = Vec::new();
    for id in 1..=6 {
        let tenant = if id == 6 { "umbrella" } else { "acme" };
        let entry = audited(&bench, id, tenant, if id % 2 == 0 { "pause" } else { "resume" });
        bench.ask("put_audit", bench.store().put_audit(entry.clone())).await;
        entries.push(entry);
        // Two at a time share an instant.
        bench.advance(id % 2);
    }
    let any = || AuditPage { limit: 10, ..AuditPage::default() };
    let found = bench.ask("audit", bench.store().audit(any())).await;
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.place()));
    assert_eq!((&found.entries, found.next), (&entries, None));
    let acme = || AuditPage { tenant: Some("acme".into()), ..any() };
    assert_eq!(audit(&bench, acme()).await.0.len(), 5);
    let pauses = AuditPage { verb: Some("pause".into()), ..acme() };
    assert_eq!(audit(&bench, pauses).await.0, [4, 2]);
    assert!(audit(&bench, AuditPage { who: Some("bob".into()), ..any() }).await.0.is_empty());
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let (ids, next) = audit(&bench, AuditPage { cursor, limit: 2, ..any() }).await;
        seen.extend(ids);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, entries.iter().map(|entry| entry.id).collect::<Vec<_>>());
    bench.advance(91 * 86_400);
    assert!(audit(&bench, any()).await.0.is_empty(), "they are kept for 90 days");
}

pub async fn what_operators_did_survives_a_reopening(open: Open) {
    let bench = Bench::new(&open);
    if !bench.candidate.keeps_on_reopen() {
        return;
    }
    let entry = audited(&bench, 7, "acme", "pause");
    bench.ask("put_audit", bench.store().put_audit(entry.clone())).await;
    bench.store().close().await.expect("the store is well");
    bench.candidate.reopen();
    let page = AuditPage { limit: 10, ..AuditPage::default() };
    assert_eq!(bench.ask("audit", bench.store().audit(page)).await.entries, [entry]);
}
