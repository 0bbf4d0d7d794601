//! Files and functions stay small enough to be read in one go.

use crate::{SourceFile, assert_none, files};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 60;

/// Longer files, how long they may be, and why.
const LONG_FILES: &[(&str, usize, &str)] = &[
    ("crates/api/src/admin.rs", 440, "the bodies of the operators' routes, one after another"),
    (
        "crates/server/src/broker/operations.rs",
        480,
        "bulk operations from start to end, one step function each",
    ),
    ("crates/server/src/http/docs.js", 560, "one page in one file: no build step"),
    ("crates/server/src/metrics.rs", 600, "a table: one entry for each metric"),
    (
        "crates/store/src/kvrocks/scripts/lanes.lua",
        450,
        "functions over the keys of one queue; a script is one text",
    ),
    ("crates/store/src/kvrocks/redis/writer.rs", 530, "one loop with the states of a group"),
    ("crates/store/src/local/format/entry.rs", 500, "one encoder and one decoder for each entry"),
    ("crates/store/src/local/rows/feeder.rs", 420, "one thread and its upkeep"),
    ("crates/store/src/local/rows/folding.rs", 450, "one fold with its tests"),
    ("crates/store/src/local/format/records.rs", 500, "rows of tables: encoders beside their decoders"),
    ("crates/store/src/kvrocks/redis/connection.rs", 420, "the one file that names the client library"),
    ("crates/store/src/local/shard/operate.rs", 520, "the operator's verbs of a shard"),
    ("crates/store/src/local/shard/apply.rs", 490, "one match over all entries"),
    ("crates/store/src/local/shard/work.rs", 520, "the worker's verbs of a shard"),
    ("crates/store/src/testing/exam/policies.rs", 440, "the cases of one topic of the exam"),
    ("crates/store/src/local/store/mod.rs", 600, "one method for each verb of the trait"),
    ("crates/store/src/kvrocks/store/mod.rs", 600, "one method for each verb of the trait"),
    ("crates/store/src/testing/exam/mod.rs", 520, "the list of all cases"),
    ("sdks/go/stream/internal/producerpb/producer.pb.go", 2000, "generated from proto/"),
    ("sdks/go/stream/internal/workerpb/worker.pb.go", 3000, "generated from proto/"),
    ("sdks/go/worker.go", 450, "one loop with its options"),
    ("sdks/python/src/codeq/client.py", 450, "one class, one method for each route"),
];

/// Longer functions (file, name), and why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[
    ("crates/codeq/src/bench/report.rs", "print", "one table"),
    ("crates/queue/src/refusal.rs", "code", "one match over all refusals"),
    ("crates/queue/src/refusal/tests.rs", "all", "one table of all refusals"),
    ("crates/server/src/metrics.rs", "render", "one table: a line for each metric"),
    (
        "crates/queue/src/schedule/plan_tests.rs",
        "half_past_two_over_the_changes_of_four_zones",
        "one table of cases",
    ),
    ("crates/server/src/config/tests/types.rs", "settings_of_kvrocks_and_s3", "one table of cases"),
    ("crates/server/src/http/error.rs", "status", "one match over all refusals"),
    ("crates/server/src/http/routes.rs", "table", "the route table"),
    ("crates/server/src/lib.rs", "run", "the life of the process, top to bottom"),
    ("crates/server/src/metrics.rs", "new", "one entry for each metric"),
    ("crates/store/src/local/format/entry.rs", "read", "one match over all entries"),
    ("crates/store/src/local/format/entry.rs", "write", "one match over all entries"),
    ("crates/store/src/local/directory/open.rs", "start", "one list of what is put together"),
    ("crates/store/src/local/shard/apply.rs", "change", "one match over all entries"),
    ("crates/store/src/local/shard/witness.rs", "witness", "one match over all entries"),
    ("tests/it/kvrocks/shards.rs", "a_command_moves_between_two_shards_of_one_server", "one story"),
];

#[test]
fn files_are_short() {
    let mut faults = Vec::new();
    for SourceFile { path, text } in files(".", &[".rs", ".lua", ".js", ".mjs", ".ts", ".py", ".go", ".sh"]) {
        let lines = text.lines().count();
        let listed = LONG_FILES.iter().find(|(file, _, _)| *file == path);
        let most = listed.map_or(FILE_LINES_MAX, |(_, most, _)| *most);
        if lines > most {
            faults.push(format!("{path}: {lines} lines, at most {most}"));
        }
    }
    assert_none("cut these files, or list them in tests/tidy/sizes.rs with a reason", &faults);
}

#[test]
fn what_is_listed_exists() {
    let listed =
        LONG_FILES.iter().map(|(path, _, _)| *path).chain(LONG_FUNCTIONS.iter().map(|(path, _, _)| *path));
    let gone: Vec<String> = listed
        .filter(|path| !std::path::Path::new(crate::ROOT).join(path).exists())
        .map(|path| format!("{path} is listed and does not exist"))
        .collect();
    assert_none("tests/tidy/sizes.rs", &gone);
}

/// Names and lengths of the functions of a formatted source: a function ends at the brace below its first letter.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some((before, after)) = code.split_once("fn ") else { continue };
        let is_declared = before.split_whitespace().all(|word| {
            matches!(word, "pub" | "async" | "const" | "unsafe" | "extern") || word.starts_with("pub(")
        });
        if !is_declared {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - code.len()]);
        let length =
            lines[at..].iter().position(|line| *line == end || line.ends_with(';') && at_same(line, &end));
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        found.push((name, length.map_or(1, |length| length + 1)));
    }
    found
}

/// A declaration without a body ends at its own indentation.
fn at_same(line: &str, end: &str) -> bool {
    line.len() - line.trim_start().len() == end.len() - 1
}

#[test]
fn functions_are_short() {
    let mut faults = Vec::new();
    for folder in ["crates", "tests"] {
        for SourceFile { path, text } in files(folder, &[".rs"]) {
            for (name, lines) in functions(&text).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX)
            {
                if !LONG_FUNCTIONS.iter().any(|(file, listed, _)| *file == path && *listed == name) {
                    faults.push(format!("{path}: {name} has {lines} lines"));
                }
            }
        }
    }
    assert_none("cut these functions, or list them in tests/tidy/sizes.rs with a reason", &faults);
}

#[test]
fn functions_are_measured_from_their_first_line_to_their_brace() {
    let text = "impl A {\n    pub fn one(\n        a: u8,\n    ) -> u8 {\n        a\n    }\n\n    fn two();\n}\nfn three() {}\n";
    let expected = [("one", 5), ("two", 1), ("three", 1)].map(|(name, lines)| (name.to_owned(), lines));
    assert_eq!(functions(text), expected);
}
