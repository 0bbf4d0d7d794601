//! The offline check: healthy directories have no problems, and planted ones are each found.

use codeq_queue::Time;
use codeq_queue::store::TaskRef;
use codeq_store::local::files::{DiskFiles, Files};
use codeq_store::local::tables::Group;
use codeq_store::local::{self, LocalOptions, LocalStore, Verified, verify};
use codeq_store::testing::exam::START;
use codeq_store::testing::exam::bench::{Bench, plain_rules};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::table_rows::TableRows;
use codeq_store::{ManualClock, Rules};
use std::collections::BTreeMap;
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
fn tamper(directory: &Path, change: impl FnOnce(&mut TableRows)) {
    let manifest = std::fs::read_to_string(directory.join("manifest")).unwrap();
    let key = manifest.lines().find_map(|line| line.strip_prefix("journal-key ")).unwrap();
    let key = u64::from_str_radix(key, 16).unwrap();
    let files: Arc<dyn Files> = Arc::new(DiskFiles::new(directory.join("shard-00")));
    let mut rows = TableRows::read(files.clone(), key);
    let before = rows.rows.clone();
    change(&mut rows);
    assert_ne!(rows.rows, before, "there is something to tamper with");
    rows.write(&files, key);
}

fn is_kind(group: Group, kind: &'static [u8]) -> impl Fn(&(Group, Vec<u8>, Vec<u8>)) -> bool {
    move |(found, key, _)| *found == group && key.starts_with(kind)
}

fn is_history((group, ..): &(Group, Vec<u8>, Vec<u8>)) -> bool {
    matches!(group, Group::Ended(_))
}

async fn problems_without(is_gone: impl Fn(&(Group, Vec<u8>, Vec<u8>)) -> bool) -> Vec<String> {
    problems_after(|rows| rows.rows.retain(|row| !is_gone(row))).await
}

async fn problems_after(change: impl FnOnce(&mut TableRows)) -> Vec<String> {
    let directory = filled(1).await;
    tamper(directory.path(), change);
    verify(directory.path()).expect("it can be checked").problems
}

fn assert_told(problems: &[String], expected: &str) {
    assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
}

#[tokio::test]
async fn a_missing_body_is_found() {
    assert_told(&problems_without(is_kind(Group::Bodies, b"b")).await, "the body of task");
}

#[tokio::test]
async fn a_missing_dead_letter_is_found() {
    let problems = problems_without(is_kind(Group::Dead, b"")).await;
    assert_told(&problems, "queue acme/dead counts 1 dead letters, has 0");
    assert_told(&problems, "which is no dead letter that expires then");
}

#[tokio::test]
async fn a_record_without_its_key_is_found() {
    let problems = problems_without(is_kind(Group::Keys, b"")).await;
    assert_told(&problems, "does not lead to it");
}

#[tokio::test]
async fn a_dead_letter_that_would_never_expire_is_found() {
    assert_told(&problems_without(is_kind(Group::Rows, b"rx")).await, "would never expire");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_found() {
    async fn cut(is_cut: impl Fn(&(Group, Vec<u8>, Vec<u8>)) -> bool) -> Vec<String> {
        problems_after(|rows| {
            for row in rows.rows.iter_mut().filter(|row| is_cut(row)) {
                row.2.truncate(row.2.len() / 2);
            }
        })
        .await
    }
    assert_told(&cut(is_kind(Group::Dead, b"")).await, "of Dead");
    assert_told(&cut(is_history).await, "of Ended");
    assert_told(&cut(is_kind(Group::Bodies, b"h")).await, "of Bodies");
    assert_told(&cut(is_kind(Group::Rows, b"s")).await, "cannot be decoded");
}

#[tokio::test]
async fn a_number_that_was_never_given_out_is_found() {
    let moved = |rows: &mut TableRows| {
        let (group, _, row) = rows.rows.iter().find(|row| is_kind(Group::Dead, b"")(row)).unwrap().clone();
        rows.rows.push((group, 999u64.to_be_bytes().to_vec(), row));
    };
    let problems = problems_after(moved).await;
    assert_told(&problems, "row 999 of Dead, but the next number is");
    assert_told(&problems, "queue acme/dead counts 1 dead letters, has 2");
}

#[tokio::test]
async fn a_task_that_is_live_and_finished_is_found() {
    let doubled = |rows: &mut TableRows| {
        let (group, _, row) = rows.rows.iter().find(|row| is_history(row)).unwrap().clone();
        let (_, head, _) = rows.rows.iter().find(|row| is_kind(Group::Bodies, b"h")(row)).unwrap().clone();
        rows.rows.push((group, head[1..].to_vec(), row));
    };
    assert_told(&problems_after(doubled).await, "is live and has ended");
}

/// The catalog names every table, so one that is gone cannot be taken for one that never was.
#[tokio::test]
async fn a_missing_or_shortened_table_is_found_and_refused() {
    for cut in [None, Some(10)] {
        let directory = filled(1).await;
        let table = tables_of(directory.path()).remove(0);
        match cut {
            None => std::fs::remove_file(&table).unwrap(),
            Some(bytes) => {
                let file = std::fs::File::options().write(true).open(&table).unwrap();
                file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
            }
        }
        let problems = verify(directory.path()).expect("it can be checked").problems;
        assert_told(&problems, table.file_name().unwrap().to_str().unwrap());
        let refused =
            local::open(LocalOptions::new(directory.path())).err().expect("it is refused").to_string();
        assert!(refused.contains(table.file_name().unwrap().to_str().unwrap()), "{refused}");
    }
}

fn tables_of(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory.join("shard-00")).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "tab")).collect();
    tables.sort();
    tables
}

#[tokio::test]
async fn a_flipped_bit_anywhere_in_a_table_or_the_catalog_is_found() {
    let directory = filled(1).await;
    let mut files = tables_of(directory.path());
    files.push(directory.path().join("shard-00/catalog"));
    for file in files {
        let sound = std::fs::read(&file).unwrap();
        let step = (sound.len() / 40).max(1);
        for at in (0..sound.len()).step_by(step) {
            let mut flipped = sound.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&file, &flipped).unwrap();
            let problems = verify(directory.path()).expect("it can be checked").problems;
            assert!(!problems.is_empty(), "byte {at} of {} is not missed", file.display());
        }
        std::fs::write(&file, sound).unwrap();
    }
    assert_eq!(verify(directory.path()).expect("it can be checked").problems, [""; 0]);
}

#[tokio::test]
async fn verify_changes_nothing() {
    let directory = filled(1).await;
    std::fs::write(directory.path().join("shard-00/99999999.tab"), "left by an interrupted write").unwrap();
    let look = || {
        let entries = std::fs::read_dir(directory.path().join("shard-00")).unwrap().map(Result::unwrap);
        entries
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
            .collect::<BTreeMap<_, _>>()
    };
    let before = look();
    assert_eq!(verify(directory.path()).expect("it can be checked").problems, [""; 0]);
    assert!(look() == before, "verify has changed the directory");
}

/// A directory that lost its files was opened as if nothing had ever been in it.
#[tokio::test]
async fn a_directory_that_lost_its_files_is_refused() {
    let missing = |lose: fn(&Path)| async move {
        let directory = filled(1).await;
        lose(directory.path());
        let refused =
            local::open(LocalOptions::new(directory.path())).err().expect("it is refused").to_string();
        assert!(refused.contains("is missing"), "{refused}");
    };
    missing(|path| std::fs::remove_dir_all(path.join("shard-00")).unwrap()).await;
    missing(|path| std::fs::remove_file(path.join("shard-00/catalog")).unwrap()).await;
    missing(|path| {
        for entry in std::fs::read_dir(path.join("shard-00")).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with("journal") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    })
    .await;
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
        path.extension().is_some_and(|end| end == "seg")
            // A spare that is just being made has no bytes yet.
            && std::fs::read(path).unwrap().iter().skip(4096).any(|byte| *byte != 0)
    };
    let segment = segment.into_iter().find(is_used).expect("a segment with frames");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[4096 + 60] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let problems = verify(copied.path()).expect("it can be checked").problems;
    assert_told(&problems, &format!("{} is damaged at byte 4096", segment.display()));
}
