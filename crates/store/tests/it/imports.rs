//! Tasks that move between stores with different numbers of shards: whatever one has listed the other takes in,
//! under the same ids, and every call that names one of them finds it.

use crate::candidates::{forgetful, local, memory};
use codeq_queue::store::{Import, ResultLookup, TaskRef};
use codeq_queue::{Page, Refusal, ResultRecord, State, Task, TaskId};
use codeq_store::local::Durability;
use codeq_store::testing::exam::bench::{Bench, eager_rules, one};
use codeq_store::testing::exam::request::New;
use std::sync::Arc;

const COMMANDS: usize = 9;

/// A task in every state, in queues of every shard.
async fn fill(bench: &Bench) {
    for n in 0..COMMANDS {
        let command = format!("command-{n}");
        let done = bench.create_and_take(New::of(&command).key(&format!("done-{n}"))).await;
        bench.complete(&done).await;
        bench.dead(&command).await;
        let cancelled = bench.create(&command).await;
        bench.cancel(cancelled.id).await.unwrap();
        bench.create_and_take(New::of(&command)).await;
        bench.make(New::of(&command).delayed_ms(60_000)).await;
        bench.make(New::of(&command).key(&format!("ready-{n}")).payload(&format!(r#"{{"n":{n}}}"#))).await;
    }
}

async fn all(bench: &Bench) -> Vec<Task> {
    let (mut tasks, mut cursor) = (Vec::new(), None);
    loop {
        let page = Page {
            tenant: Some(bench.tenant.clone()),
            filter: Arc::default(),
            is_newest_first: false,
            cursor,
            limit: 10,
        };
        let listed = bench.store().list(page).await.unwrap().unwrap();
        tasks.extend(listed.tasks);
        cursor = listed.next;
        if cursor.is_none() {
            return tasks;
        }
    }
}

/// What an export of the store would have.
async fn export(bench: &Bench) -> Vec<Import> {
    let mut imports = Vec::new();
    for task in all(bench).await {
        let record = match bench.lookup(task.id).await {
            ResultLookup::Done { record, .. } => Some(record),
            _ => None,
        };
        imports.push(Import { task, record });
    }
    imports
}

async fn import(bench: &Bench, imports: &[Import]) -> Vec<Result<bool, Refusal>> {
    let mut answers = Vec::new();
    for some in imports.chunks(7) {
        answers.extend(bench.store().import(some.to_vec()).await.unwrap());
    }
    answers
}

fn ids(imports: &[Import]) -> Vec<TaskId> {
    let mut ids: Vec<TaskId> = imports.iter().map(|import| import.task.id).collect();
    ids.sort();
    ids
}

/// What must be the same of a task after it has moved: all but who ran it, and its place in the line.
fn essence(import: &Import) -> (TaskId, Arc<codeq_queue::Body>, u8, u32, bool, Option<ResultRecord>) {
    let task = &import.task;
    (task.id, task.body.clone(), task.priority, task.attempts, task.state.is_live(), import.record.clone())
}

async fn moves_between(from: u32, to: u32) {
    let source = Bench::with(&local(from, Durability::Fsync), eager_rules());
    let target = Bench::with(&local(to, Durability::Fsync), eager_rules());
    // Numbers of its own, and tasks of others in the same places.
    fill(&target.tenant("others")).await;
    fill(&source).await;
    let exported = export(&source).await;
    assert_eq!(exported.len(), COMMANDS * 6);
    assert!(import(&target, &exported).await.iter().all(|answer| *answer == Ok(true)), "{from} to {to}");
    for _ in 0..2 {
        let again = import(&target, &exported).await;
        assert!(again.iter().all(|answer| *answer == Ok(false)), "{from} to {to}: they are there");
        let arrived = export(&target).await;
        assert_eq!(ids(&arrived), ids(&exported), "{from} to {to}");
        let by_id = |imports: &[Import]| {
            let mut essences: Vec<_> = imports.iter().map(essence).collect();
            essences.sort_by_key(|essence| essence.0);
            essences
        };
        assert_eq!(by_id(&arrived), by_id(&exported), "{from} to {to}");
        target.candidate.reopen();
    }
    // And back again, into a third.
    let third = Bench::with(&memory(from), eager_rules());
    let arrived = export(&target).await;
    assert!(import(&third, &arrived).await.iter().all(|answer| *answer == Ok(true)));
    assert_eq!(ids(&export(&third).await), ids(&exported));
    acts_by_id(&target, &exported).await;
    acts_by_id(&third, &exported).await;
    let others = target.tenant("others");
    assert_eq!(all(&others).await.len(), COMMANDS * 6, "nobody else's are gone");
}

/// Every verb that names a task finds it, and nobody else's.
async fn acts_by_id(bench: &Bench, exported: &[Import]) {
    let others = bench.tenant("others");
    for Import { task, record } in exported {
        assert_eq!(others.find(task.id).await, None);
        assert_eq!(others.cancel(task.id).await, Err(Refusal::NotFound));
        assert_eq!(bench.get(task.id).await.id, task.id);
        assert!(bench.attempts(task.id).await.is_some());
        match (&task.state, record) {
            (State::Dead, _) => {
                assert_eq!(others.requeue(task.id, None).await, Err(Refusal::NotFound));
                assert_eq!(bench.requeue(task.id, None).await.unwrap().id, task.id);
                assert_eq!(bench.cancel(task.id).await.unwrap().id, task.id);
            }
            (State::Cancelled, Some(record)) => {
                assert_eq!(bench.record(task.id).await, *record);
                assert_eq!(bench.cancel(task.id).await.unwrap().id, task.id);
            }
            (_, Some(record)) => {
                assert_eq!(bench.record(task.id).await, *record);
                assert_eq!(bench.cancel(task.id).await, Err(Refusal::AlreadyTerminal));
            }
            (State::Delayed { .. }, None) => {
                assert_eq!(bench.cancel(task.id).await.unwrap().id, task.id);
            }
            _ => assert_eq!(bench.lookup(task.id).await, ResultLookup::Pending),
        }
    }
    for n in 0..COMMANDS {
        for key in [format!("done-{n}"), format!("ready-{n}")] {
            let again = bench.make(New::of(&format!("command-{n}")).key(&key)).await;
            assert!(again.is_replay, "{key}");
        }
        for _ in 0..2 {
            let lent = bench.take(&format!("command-{n}")).await;
            assert_eq!(
                bench.heartbeat(bench.fenced(&lent), std::time::Duration::from_secs(60)).await,
                Ok(())
            );
            bench.complete(&lent).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_goes_into_any_number_of_shards_and_keeps_its_ids() {
    for (from, to) in [(1, 4), (4, 1), (4, 3), (4, 4), (1, 1)] {
        moves_between(from, to).await;
    }
}

/// An id with the same number inside and other random bits, as two shards of one store give out.
fn twin(id: TaskId, salt: u8) -> TaskId {
    let mut bytes = *id.as_bytes();
    bytes[15] ^= salt;
    TaskId::from_bytes(bytes)
}

fn with_id(task: &Task, id: TaskId) -> Import {
    let mut body = (*task.body).clone();
    body.idempotency_key = None;
    Import { task: Task { id, body: Arc::new(body), ..task.clone() }, record: None }
}

#[tokio::test]
async fn ids_that_share_their_number_are_all_kept_across_a_crash() {
    let bench = Bench::with(&forgetful(), eager_rules());
    let first = bench.create("render").await;
    for salt in 1..=63 {
        let import = with_id(&first, twin(first.id, salt));
        assert_eq!(one(bench.store().import(vec![import]).await.unwrap()), Ok(true), "{salt}");
        if salt == 20 {
            assert!(bench.candidate.crash());
        }
        if salt == 40 {
            bench.candidate.reopen();
        }
    }
    let one_more = with_id(&first, twin(first.id, 64));
    assert_eq!(one(bench.store().import(vec![one_more]).await.unwrap()), Err(Refusal::IdNotKept));
    assert!(bench.candidate.crash());
    for salt in 0..=63 {
        assert_eq!(bench.get(twin(first.id, salt)).await.id, twin(first.id, salt));
    }
    assert_eq!(bench.find(twin(first.id, 64)).await, None);
    // What has gone leaves its place to the next one, and is not found any more.
    let gone = twin(first.id, 7);
    let cancelled = bench.cancel(gone).await.unwrap();
    assert_eq!(cancelled.id, gone);
    bench.advance(2 * 24 * 3600);
    assert_eq!(bench.find(gone).await, None);
    let next = with_id(&first, twin(first.id, 65));
    assert_eq!(one(bench.store().import(vec![next]).await.unwrap()), Ok(true));
    assert!(bench.candidate.crash());
    assert_eq!((bench.find(gone).await, bench.get(twin(first.id, 65)).await.id), (None, twin(first.id, 65)));
    assert_eq!(bench.get(twin(first.id, 8)).await.id, twin(first.id, 8));
}

/// Whether an id is another tenant's or nobody's cannot be told, and taking it in takes nothing from the other.
#[tokio::test]
async fn the_id_of_another_tenant_is_taken_in_like_an_unknown_one() {
    for open in [local(1, Durability::Fsync), local(4, Durability::Fsync)] {
        let bench = Bench::with(&open, eager_rules());
        let (live, dead) = (bench.create("render").await, bench.dead("fatal").await);
        let thief = bench.tenant("thief");
        for task in [&live, &dead] {
            let before = bench.get(task.id).await;
            let mut body = (*task.body).clone();
            body.tenant = thief.tenant.clone();
            body.command = "steal".into();
            let stolen = Task { body: Arc::new(body), state: State::Ready { seq: 0 }, ..task.clone() };
            let import = Import { task: stolen, record: None };
            assert_eq!(one(thief.store().import(vec![import.clone()]).await.unwrap()), Ok(true));
            assert_eq!(one(thief.store().import(vec![import]).await.unwrap()), Ok(false));
            assert_eq!(bench.get(task.id).await, before, "the other's is as it was");
            assert_eq!(&*thief.get(task.id).await.body.command, "steal");
        }
        bench.candidate.reopen();
        let lent = thief.take("steal").await;
        thief.complete(&lent).await;
        assert_eq!(bench.get(lent.id).await.body.command, live.body.command);
        assert!(bench.get(lent.id).await.state != State::Completed);
    }
}

/// An id that comes twice in one call is one task, though its queues lie on different shards.
#[tokio::test]
async fn an_id_is_one_task_whatever_queue_it_is_said_to_be_in() {
    let bench = Bench::with(&local(4, Durability::Fsync), eager_rules());
    let model = bench.create("model").await;
    let id = TaskId::from_bits(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
    let variant = |n: usize| {
        let mut import = with_id(&model, id);
        let mut body = (*import.task.body).clone();
        body.command = format!("command-{n}").into();
        import.task.body = Arc::new(body);
        import
    };
    let answers = bench.store().import((0..COMMANDS).map(variant).collect()).await.unwrap();
    assert_eq!(answers.iter().filter(|answer| **answer == Ok(true)).count(), 1, "{answers:?}");
    assert_eq!(answers[0], Ok(true));
    let found = bench.store().get(vec![TaskRef { tenant: bench.tenant.clone(), id }]).await.unwrap();
    assert_eq!(&*one(found).unwrap().body.command, "command-0");
}
