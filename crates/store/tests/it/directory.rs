//! Data directories: who may open one, and what is refused in which words.

use codeq_store::local::{self, LocalOptions, LocalStore};
use codeq_store::testing::exam::bench::eventually;
use std::path::Path;
use std::sync::Arc;

fn options(path: &Path, shards: u32) -> LocalOptions {
    LocalOptions { shards, segment_bytes: 1 << 20, ..LocalOptions::new(path) }
}

fn open(path: &Path) -> Arc<LocalStore> {
    local::open(options(path, 1)).expect("the store opens")
}

fn refusal(path: &Path, shards: u32) -> String {
    match local::open(options(path, shards)) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error.to_string(),
    }
}

/// A directory that a store has been made in.
fn made() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    directory
}

#[test]
fn a_directory_in_use_is_refused_and_free_again_after_closing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = open(path);
    assert_eq!(refusal(path, 1), format!("data directory is in use: {}", path.display()));
    drop(store);
    drop(open(path));
}

#[test]
fn a_directory_that_is_not_there_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    drop(open(&path));
    assert!(path.join("manifest").is_file());
}

#[test]
fn the_number_of_shards_is_fixed_when_the_directory_is_made() {
    let directory = made();
    let expected = "numShards is 1 for this data directory, config says 4";
    assert_eq!(refusal(directory.path(), 4), expected);
    drop(open(directory.path()));
}

#[test]
fn a_directory_with_foreign_files_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("CURRENT"), "MANIFEST-000001\n").unwrap();
    let expected = format!("not a codeQ data directory: {}", directory.path().display());
    assert_eq!(refusal(directory.path(), 1), expected);
}

#[test]
fn a_directory_with_nothing_but_foreign_directories_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("pebble")).unwrap();
    let expected = format!("not a codeQ data directory: {}", directory.path().display());
    assert_eq!(refusal(directory.path(), 1), expected);
}

#[test]
fn a_directory_that_lost_its_manifest_is_refused() {
    let directory = made();
    std::fs::remove_file(directory.path().join("manifest")).unwrap();
    let expected = format!("not a codeQ data directory: {}", directory.path().display());
    assert_eq!(refusal(directory.path(), 1), expected);
}

#[test]
fn a_newer_format_is_refused() {
    let directory = made();
    let manifest = directory.path().join("manifest");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replacen("codeq 2", "codeq 3", 1)).unwrap();
    let expected = format!("{} has format 3; this build reads up to 2", manifest.display());
    assert_eq!(refusal(directory.path(), 1), expected);
}

#[test]
fn a_damaged_manifest_is_refused_with_file_and_offset() {
    let directory = made();
    let manifest = directory.path().join("manifest");
    let intact = std::fs::read(&manifest).unwrap();
    for at in 0..intact.len() - 1 {
        let mut bytes = intact.clone();
        bytes[at] ^= 1;
        std::fs::write(&manifest, &bytes).unwrap();
        let refused = refusal(directory.path(), 1);
        // One bit away from another format is another format.
        if at != "codeq ".len() {
            let expected = format!("{} is damaged at offset ", manifest.display());
            assert!(refused.starts_with(&expected), "byte {at}: {refused}");
        }
    }
    std::fs::write(&manifest, &intact[..intact.len() / 2]).unwrap();
    assert!(refusal(directory.path(), 1).contains("is damaged at offset"));
    std::fs::write(&manifest, intact).unwrap();
    drop(open(directory.path()));
}

/// It held several segments that were as large as the largest group may be.
#[tokio::test]
async fn an_empty_store_occupies_little() {
    let directory = tempfile::tempdir().unwrap();
    let store = local::open(LocalOptions::new(directory.path())).expect("the store opens");
    let bytes = || store.disk_bytes();
    eventually("its spares are ready", || async { bytes() >= 3 * (8 << 20) }).await;
    let on_disk = |path: &Path| -> u64 {
        let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
        entries.map(|entry| entry.metadata().unwrap().len()).sum()
    };
    let total = on_disk(directory.path()) + on_disk(&directory.path().join("shard-00"));
    assert!(total < 40_000_000, "{total} bytes");
}
