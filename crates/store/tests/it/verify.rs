//! The offline check: healthy directories have no problems, and planted ones are each found.

use codeq_queue::Time;
use codeq_queue::store::TaskRef;
use codeq_store::local::tree::{self, Batch, Change, Space, Tree};
use codeq_store::local::{self, LocalOptions, LocalStore, Verified, verify};
use codeq_store::testing::exam::START;
use codeq_store::testing::exam::bench::{Bench, plain_rules};
use codeq_store::testing::exam::request::New;
use codeq_store::{ManualClock, Rules};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::candidates::Seat;

/// Set in the process that is to be killed.
const VICTIM: &str = "CODEQ_VERIFY_VICTIM";

fn open(path: &Path, shards: u32) -> Bench {
    let rules = Rules { dead_retention: Some(Duration::from_secs(1_000_000)), ..plain_rules() };
    let clock = Arc::new(ManualClock::at(START));
    let options = LocalOptions {
        rules: rules.clone(),
        shards,
        clock: clock.clone(),
        segment_bytes: 1 << 20,
        ..LocalOptions::new(path)
    };
    let store: Arc<LocalStore> = local::open(options).expect("the store opens");
    let owner = Arc::new(codeq_queue::Owner::new("subject", "worker"));
    Bench { candidate: Arc::new(Seat { store, clock, rules }), tenant: "acme".into(), owner }
}

/// Tasks in every state: two ready, one delayed, one running, one dead, two finished, one callback.
async fn fill(bench: &Bench) {
    bench.make(New::of("ready").key("ready").payload(&"x".repeat(5000))).await;
    bench.create("ready").await;
    bench.make(New::of("delayed").delayed_ms(60_000)).await;
    bench.create_and_take(New::of("running")).await;
    let dead = bench.create_and_take(New::of("dead").max_attempts(1).key("dead")).await;
    bench.nack(&dead, 0, "broken").await.expect("a nack");
    let done = bench.create_and_take(New::of("done").key("done").webhook("https://example.org/")).await;
    bench.complete(&done).await;
    let cancelled = bench.create("cancelled").await;
    bench.cancel(cancelled.id).await.expect("a cancel");
}

fn counts(found: &Verified) -> [u64; 7] {
    [found.live, found.ready, found.delayed, found.running, found.dead, found.finished, found.deliveries]
}

/// A filled directory, closed.
async fn filled(shards: u32) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let bench = open(directory.path(), shards);
    fill(&bench).await;
    bench.store().close().await.expect("the store closes");
    directory
}

#[tokio::test]
async fn a_closed_directory_has_no_problems() {
    for shards in [1, 3] {
        let directory = filled(shards).await;
        let found = verify(directory.path()).expect("it can be checked");
        assert_eq!(found.problems, [""; 0]);
        assert_eq!((found.shards, counts(&found), found.torn_bytes), (shards, [4, 2, 1, 1, 1, 2, 1], 0));
        // Looking changes nothing.
        assert_eq!(verify(directory.path()).expect("it can be checked again"), found);
        drop(open(directory.path(), shards));
    }
}

/// Does nothing unless it was started by the next test.
#[tokio::test]
async fn a_process_that_is_killed() {
    let Ok(path) = std::env::var(VICTIM) else { return };
    let bench = open(Path::new(&path), 1);
    fill(&bench).await;
    bench.tenant("nobody").cleanup(Time::ZERO, 1).await;
    fill(&bench.tenant("umbrella")).await;
    let dead = bench.dead("revived").await;
    bench.requeue(dead.id, None).await.expect("a requeue");
    std::process::abort();
}

#[test]
fn a_directory_whose_process_was_killed_has_no_problems() {
    let directory = tempfile::tempdir().unwrap();
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap());
    let victim = victim.args(["--exact", "verify::a_process_that_is_killed", "--nocapture"]);
    let ended = victim.env(VICTIM, directory.path()).output().unwrap();
    assert!(!ended.status.success(), "it is killed");
    let found = verify(directory.path()).expect("it can be checked");
    assert_eq!(found.problems, [""; 0]);
    assert_eq!(counts(&found), [9, 5, 2, 2, 2, 4, 2]);
    assert!(found.frames > 10, "{found:?}");
    drop(open(directory.path(), 1));
}

#[test]
fn a_directory_in_use_or_foreign_is_not_checked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let refused = |path: &Path| verify(path).expect_err("it cannot be checked").to_string();
    assert_eq!(refused(path), format!("not a codeQ data directory: {}", path.display()));
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "a foreign directory is left alone");
    assert!(refused(&path.join("nothing")).starts_with("not a codeQ data directory: "));
    let bench = open(path, 1);
    assert_eq!(refused(path), format!("data directory is in use: {}", path.display()));
    drop(bench);
}

/// Changes rows of a closed directory behind the store's back.
fn tamper(directory: &Path, change: impl FnOnce(&dyn Tree) -> Vec<Change>) {
    let tree =
        tree::fjall::open(&directory.join("shard-00/tree"), tree::fjall::TreeOptions::default()).unwrap();
    let changes = change(&*tree);
    assert!(!changes.is_empty(), "there is something to tamper with");
    tree.commit(Batch { changes, applied: tree.applied() }, &|| ()).unwrap();
    tree.close();
}

/// All rows of a space.
fn rows(tree: &dyn Tree, space: Space) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut add = |key: &[u8], row: &[u8]| {
        rows.push((key.to_vec(), row.to_vec()));
        true
    };
    tree.scan(space, &[], None, &mut add).unwrap();
    rows
}

fn delete_all(tree: &dyn Tree, space: Space) -> Vec<Change> {
    rows(tree, space).into_iter().map(|(key, _)| Change { space, key: key.into(), value: None }).collect()
}

fn history(tree: &dyn Tree) -> i64 {
    *tree.buckets().first().expect("there is history")
}

async fn problems_after(change: impl FnOnce(&dyn Tree) -> Vec<Change>) -> Vec<String> {
    let directory = filled(1).await;
    tamper(directory.path(), change);
    verify(directory.path()).expect("it can be checked").problems
}

fn assert_told(problems: &[String], expected: &str) {
    assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
}

#[tokio::test]
async fn a_state_without_its_task_is_found() {
    let problems = problems_after(|tree| delete_all(tree, Space::Task)).await;
    assert_told(&problems, "has no task");
    assert_told(&problems, "belongs to no task");
}

#[tokio::test]
async fn a_missing_payload_is_found() {
    assert_told(&problems_after(|tree| delete_all(tree, Space::Payload)).await, "the payload of task");
}

#[tokio::test]
async fn a_missing_dead_letter_is_found() {
    let problems = problems_after(|tree| delete_all(tree, Space::Dead)).await;
    assert_told(&problems, "queue acme/dead counts 1 dead letters, has 0");
    assert_told(&problems, "which has no such key");
    assert_told(&problems, "which is no dead letter that expires then");
}

#[tokio::test]
async fn a_dead_letter_without_its_key_is_found() {
    let problems = problems_after(|tree| delete_all(tree, Space::DeadKey)).await;
    assert_told(&problems, "names None");
}

#[tokio::test]
async fn a_key_that_names_nothing_is_found() {
    let dangling = |space| {
        vec![Change { space, key: b"acme\0dead\0nobody".into(), value: Some(77u64.to_be_bytes().into()) }]
    };
    let problems = problems_after(|_| dangling(Space::DeadKey)).await;
    assert_told(&problems, "the key acme/dead/nobody names 77 of Dead, which has no such key");
    let problems = problems_after(|tree| dangling(Space::HistoryKey(history(tree)))).await;
    assert_told(&problems, "the key acme/dead/nobody names 77 of History");
}

#[tokio::test]
async fn a_dead_letter_that_would_never_expire_is_found() {
    let expiries = |tree: &dyn Tree| {
        let all = delete_all(tree, Space::Record).into_iter();
        all.filter(|change| change.key.first() == Some(&b'x')).collect()
    };
    assert_told(&problems_after(expiries).await, "would never expire");
}

#[tokio::test]
async fn a_missing_finished_record_is_found_by_its_key() {
    let problems = problems_after(|tree| delete_all(tree, Space::History(history(tree)))).await;
    assert_told(&problems, "the key acme/done/done names");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_found() {
    let cut = |space: Space, tree: &dyn Tree| -> Vec<Change> {
        let cut = |(key, row): (Vec<u8>, Vec<u8>)| Change {
            space,
            key: key.into(),
            value: Some(row[..row.len() / 2].into()),
        };
        rows(tree, space).into_iter().map(cut).collect()
    };
    assert_told(&problems_after(|tree| cut(Space::Dead, tree)).await, "of Dead");
    assert_told(&problems_after(|tree| cut(Space::History(history(tree)), tree)).await, "of History");
    assert_told(&problems_after(|tree| cut(Space::Task, tree)).await, "of Task");
}

#[tokio::test]
async fn a_number_that_was_never_given_out_is_found() {
    let moved = |tree: &dyn Tree| {
        let (_, row) = rows(tree, Space::Dead).remove(0);
        vec![Change { space: Space::Dead, key: 999u64.to_be_bytes().into(), value: Some(row.into()) }]
    };
    let problems = problems_after(moved).await;
    assert_told(&problems, "row 999 of Dead, but the next number is");
    assert_told(&problems, "queue acme/dead counts 1 dead letters, has 2");
}

#[tokio::test]
async fn a_task_that_is_live_and_finished_is_found() {
    let doubled = |tree: &dyn Tree| {
        let space = Space::History(history(tree));
        let (_, row) = rows(tree, space).remove(0);
        let (key, _) = rows(tree, Space::Task).remove(0);
        vec![Change { space, key: key.into(), value: Some(row.into()) }]
    };
    assert_told(&problems_after(doubled).await, "is live and in History");
}

#[tokio::test]
async fn a_damaged_journal_is_found_with_file_and_offset() {
    let directory = tempfile::tempdir().unwrap();
    let bench = open(directory.path(), 1);
    let kept = bench.create("kept").await;
    // Asking for it once more makes another frame, which vouches for the first.
    bench.create("after").await;
    let copied = tempfile::tempdir().unwrap();
    crate::fixture::copy(directory.path(), copied.path());
    assert!(bench.store().get(vec![TaskRef { tenant: "acme".into(), id: kept.id }]).await.is_ok());
    let segment =
        std::fs::read_dir(copied.path().join("shard-00")).unwrap().map(|entry| entry.unwrap().path());
    let is_used = |path: &std::path::PathBuf| {
        path.is_file() && std::fs::read(path).unwrap()[4096..].iter().any(|byte| *byte != 0)
    };
    let segment = segment.into_iter().find(is_used).expect("a segment with frames");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[4096 + 60] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let problems = verify(copied.path()).expect("it can be checked").problems;
    assert_told(&problems, &format!("{} is damaged at byte 4096", segment.display()));
}
