//! What a machine can keep tidy: links, pictures, sizes, names, and numbers and codes that are written in several places.
//!
//! Every exception is listed with its reason in the file that checks it. An exception for something that no longer
//! exists fails the test as well.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod codes;
mod documents;
mod names;
mod numbers;
mod sizes;
mod sources;

use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What builds and tools leave behind.
const LEFT_OUT: [&str; 11] = [
    ".git",
    ".venv",
    "__pycache__",
    "codeq-artifacts",
    "codeq-data",
    "codeq-install",
    "corpus",
    "dist",
    "node_modules",
    "target",
    ".mypy_cache",
];

/// A file of the repository: its path from the root, with slashes, and its text.
struct SourceFile {
    path: String,
    text: String,
}

/// All text files below `folder` whose names end in one of `endings`, in order.
fn files(folder: &str, endings: &[&str]) -> Vec<SourceFile> {
    let mut found = Vec::new();
    walk(&Path::new(ROOT).join(folder), &mut found);
    let mut files: Vec<SourceFile> = found
        .into_iter()
        .filter_map(|path| {
            let name = path.strip_prefix(ROOT).unwrap().to_str()?.replace('\\', "/");
            let wanted = endings.iter().any(|ending| name.ends_with(ending));
            wanted.then(|| SourceFile { text: std::fs::read_to_string(&path).unwrap(), path: name })
        })
        .collect();
    files.sort_by(|left, right| left.path.cmp(&right.path));
    assert!(!files.is_empty(), "{folder} has files that end in {endings:?}");
    files
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            walk(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fails with one line for each fault, so that all are seen at once.
fn assert_none(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n  {}", faults.join("\n  "));
}
