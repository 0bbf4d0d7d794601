//! Sources: every file is compiled, every case of the exam is sat, nothing is left for later.

use crate::{SourceFile, assert_none, files, read};

/// Files that a manifest or a macro names instead of a `mod` line.
fn is_root(path: &str, named: &str) -> bool {
    let name = path.rsplit('/').next().unwrap();
    let is_example = path.contains("/examples/") || path.contains("/src/bin/");
    matches!(name, "main.rs" | "lib.rs" | "build.rs") || is_example || named.contains(path)
}

/// Whether the `mod` line of `path` can be in `parent`: a file beside it (the root of a target may have any name),
/// or the one that is named like its folder.
fn is_parent(parent: &str, path: &str) -> bool {
    let (folder, _) = path.trim_end_matches("/mod.rs").rsplit_once('/').unwrap();
    let is_beside = parent.rsplit_once('/').is_some_and(|(other, _)| other == folder);
    is_beside && parent != path || parent.strip_suffix(".rs") == Some(folder)
}

#[test]
fn every_source_file_belongs_to_a_module() {
    let sources: Vec<SourceFile> =
        ["crates", "tests"].into_iter().flat_map(|folder| files(folder, &[".rs"])).collect();
    let manifests: String = ["crates", "tests"]
        .into_iter()
        .flat_map(|folder| files(folder, &["Cargo.toml"]))
        .map(|file| file.text)
        .collect();
    let named: String =
        manifests.replace("path = \"../../", "path = \"").replace("path = \"", "path = \"tests/")
            + &manifests.replace("path = \"../../", "path = \"");
    // `#[path = "..."]` names a file by its end.
    let by_path: Vec<&str> = sources
        .iter()
        .flat_map(|source| source.text.split("#[path = \"").skip(1))
        .filter_map(|rest| rest.split_once('"').map(|(path, _)| path.trim_start_matches("../")))
        .collect();
    let mut faults = Vec::new();
    for SourceFile { path, .. } in &sources {
        if is_root(path, &named) || by_path.iter().any(|named| path.ends_with(named)) {
            continue;
        }
        let stem = path.trim_end_matches("/mod.rs").trim_end_matches(".rs").rsplit('/').next().unwrap();
        let line = format!("mod {stem};");
        let can_name_it = |source: &&SourceFile| is_parent(&source.path, path);
        if !sources.iter().filter(can_name_it).any(|source| source.text.contains(&line)) {
            faults.push(format!("{path}: no `{line}` in the file of its module"));
        }
    }
    assert_none("files that nothing compiles", &faults);
}

/// Files that are part of two crates, and why.
const SHARED: &[(&str, &str)] = &[(
    "tests/fuzz/targets/tokens.rs",
    "the issuer of the gate's own tests, which cannot depend on a crate that depends on theirs",
)];

#[test]
fn no_crate_takes_files_of_another() {
    let sources = ["crates", "tests"].into_iter().flat_map(|folder| files(folder, &[".rs"]));
    // In pieces, so that this file passes.
    let foreign = concat!("#[path = \"../../", "../crates/");
    let mut faults = Vec::new();
    for SourceFile { path, text } in sources {
        let is_listed = SHARED.iter().any(|(listed, _)| *listed == path);
        if text.contains(foreign) != is_listed {
            faults.push(path);
        }
    }
    assert_none("files that take one of another crate, or are listed and do not", &faults);
}

#[test]
fn crates_without_examples_are_those_whose_examples_are_not_tested() {
    let mut faults = Vec::new();
    for manifest in
        files("crates", &["Cargo.toml"]).into_iter().filter(|file| file.text.contains("doctest = false"))
    {
        let folder = manifest.path.replace("Cargo.toml", "src");
        let examples = files(&folder, &[".rs"]).into_iter().filter(|file| {
            let is_fence = |line: &str| line.starts_with("//! ```") || line.starts_with("/// ```");
            file.text.lines().any(|line| is_fence(line.trim_start()))
        });
        faults.extend(examples.map(|file| file.path));
    }
    assert_none("examples in documentation that `doctest = false` keeps from being compiled", &faults);
}

/// Cargo in a test builds what is built already, with other features, over the binary that other tests run.
#[test]
fn no_test_runs_cargo() {
    let call = concat!("Command::new(\"car", "go\")");
    let variable = concat!("var_os(\"CAR", "GO\")");
    let sources = ["crates", "tests"].into_iter().flat_map(|folder| files(folder, &[".rs"]));
    let found = sources.filter(|file| file.text.contains(call) || file.text.contains(variable));
    let faults: Vec<String> = found.map(|file| file.path).collect();
    assert_none("tests that run cargo", &faults);
}

#[test]
fn every_case_of_the_exam_is_sat() {
    let list = read("crates/store/src/testing/exam/mod.rs");
    let mut faults = Vec::new();
    for SourceFile { path, text } in files("crates/store/src/testing/exam", &[".rs"]) {
        for rest in text.split("\npub async fn ").skip(1) {
            let (name, arguments) = rest.split_once('(').unwrap();
            if arguments.starts_with("open: Open)") && !list.contains(&format!("{name},")) {
                faults.push(format!("{path}: {name}"));
            }
        }
    }
    assert_none("cases that are not in the list of crates/store/src/testing/exam/mod.rs", &faults);
}

#[test]
fn nothing_is_left_for_later() {
    // In pieces, so that this file passes.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
        concat!("#[ign", "ore"),
        concat!("unimple", "mented!"),
    ];
    let mut faults = Vec::new();
    for SourceFile { path, text } in
        files(".", &[".rs", ".lua", ".js", ".mjs", ".ts", ".py", ".go", ".sh", ".yaml"])
    {
        for (at, line) in text.lines().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| line.contains(**mark)) {
                faults.push(format!("{path}:{}: {mark}", at + 1));
            }
        }
    }
    assert_none("marks of unfinished work", &faults);
}
