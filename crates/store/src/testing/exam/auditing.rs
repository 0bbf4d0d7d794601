//! Records of what operators did that come with their deeds.

use super::bench::{Bench, within};
use super::candidate::Open;
use codeq_queue::audit::{Note, noting};
use codeq_queue::{AuditEntry, AuditPage, Filter, Operation, OperationKind, OperationState};
use std::sync::Arc;

pub fn note(bench: &Bench, id: u64, verb: &str) -> Arc<Note> {
    Note::new(AuditEntry {
        at: bench.now(),
        id,
        who: "ann".into(),
        tenant: bench.tenant.clone(),
        verb: verb.into(),
        target: "queues/render".into(),
        count: None,
        request_id: "r-1".into(),
    })
}

fn operation(bench: &Bench) -> Operation {
    Operation {
        id: 7,
        tenant: Some(bench.tenant.clone()),
        kind: OperationKind::Requeue,
        filter: Filter::default(),
        max_attempts: None,
        rate_per_second: 0,
        state: OperationState::Running,
        matched: Some(3),
        processed: 0,
        failed: 0,
        created_at: bench.now(),
        updated_at: bench.now(),
        error: None,
        cursor: None,
        step: None,
        version: 1,
        holder: 0,
        held_until: bench.now(),
        by: None,
        cause: None,
    }
}

async fn entries(bench: &Bench) -> Vec<AuditEntry> {
    let page = AuditPage { limit: 10, ..AuditPage::default() };
    bench.ask("audit", bench.store().audit(page)).await.entries
}

pub async fn numbers(bench: &Bench) -> Vec<u64> {
    entries(bench).await.iter().map(|entry| entry.id).collect()
}

/// What is stored with the deed needs no second write: whoever is killed in between leaves both or nothing.
pub async fn a_deed_takes_its_record_along(open: Open) {
    let bench = Bench::new(&open);
    let (task, dead) = (bench.create("render").await, bench.dead("mail").await);
    let notes = ["pause", "cancel", "requeue", "put"];
    let notes: Vec<Arc<Note>> = (1..).zip(notes).map(|(id, verb)| note(&bench, id, verb)).collect();
    within("pause", noting(notes[0].clone(), bench.pause("render"))).await;
    within("cancel", noting(notes[1].clone(), bench.cancel(task.id))).await.expect("it lives");
    within("requeue", noting(notes[2].clone(), bench.requeue(dead.id, None))).await.expect("it is dead");
    let put =
        bench.ask("put", Box::pin(noting(notes[3].clone(), bench.store().put_operation(operation(&bench)))));
    assert!(put.await, "it is the first version");
    assert!(notes.iter().all(|note| note.is_kept()), "each deed took its record");
    assert_eq!(numbers(&bench).await, [4, 3, 2, 1], "nobody put one");

    let whole = AuditEntry { count: Some(12), ..notes[1].entry() };
    bench.ask("put_audit", bench.store().put_audit(whole.clone())).await;
    let found = entries(&bench).await;
    assert_eq!((found.len(), &found[2]), (4, &whole), "a record is put in its own place");
    if bench.candidate.keeps_on_reopen() {
        bench.store().close().await.expect("the store is well");
        bench.candidate.reopen();
        assert_eq!(entries(&bench).await, found);
    }
}

pub async fn what_was_refused_leaves_no_record(open: Open) {
    let bench = Bench::new(&open);
    let living = bench.create("render").await;
    let note = note(&bench, 1, "requeue");
    let refused = within("requeue", noting(note.clone(), bench.requeue(living.id, None))).await;
    assert!(refused.is_err() && !note.is_kept(), "{refused:?}");
    assert!(entries(&bench).await.is_empty());
}
