//! Records of bulk operations.

use super::bench::Bench;
use super::candidate::Open;
use codeq_queue::operation::Step;
use codeq_queue::{Filter, Operation, OperationKind, OperationState, TaskId};

fn operation(bench: &Bench, id: u128) -> Operation {
    Operation {
        id,
        tenant: Some(bench.tenant.clone()),
        kind: OperationKind::Requeue,
        filter: Filter { error: Some("time".into()), ..Filter::default() },
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
