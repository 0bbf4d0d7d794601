//! Reads a YAML file into plain JSON values.
//!
//! YAML 1.2: only `true` and `false` are booleans. Duplicate keys, a second document, unknown tags
//! and numbers that are not finite are faults. A fault never quotes the file, which may hold secrets.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, NonFiniteFloatPolicy, Options};

use super::lines::Lines;

/// Largest configuration file.
pub(super) const FILE_BYTES: u64 = 1024 * 1024;
/// Deepest nesting of maps and lists.
const DEPTH: usize = 32;
/// Most parser events, repetitions through aliases included.
const EVENTS: usize = 200_000;

/// `Ok(None)` when there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<(Value, Lines)>, String> {
    let shown = path.display();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{shown}: {error}")),
    };
    let mut text = String::new();
    let size =
        file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| format!("{shown}: {error}"))?;
    if size as u64 > FILE_BYTES {
        return Err(format!("{shown}: larger than {FILE_BYTES} bytes"));
    }
    let value = parse(&text).map_err(|error| format!("{shown}: {error}"))?;
    Ok(Some((value, lines(&text))))
}

/// An empty document is null.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| describe(&error))
}

/// Where its keys stand.
pub(super) fn lines(text: &str) -> Lines {
    Lines::of(text, options())
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: EVENTS,
            max_nodes: EVENTS,
            max_depth: DEPTH,
            max_documents: 1,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: EVENTS },
        with_snippet: false,
    }
}

/// The library's words without its advice to programmers.
fn describe(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    if text.contains("Documents {") {
        return "more than one document".into();
    }
    text.replace(", set DuplicateKeyPolicy in Options if acceptable", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_yaml_1_2() {
        for (text, json) in [
            ("", "null"),
            ("a: 1", r#"{"a":1}"#),
            ("a: true", r#"{"a":true}"#),
            ("a: yes", r#"{"a":"yes"}"#),
            ("a: 18446744073709551615", r#"{"a":18446744073709551615}"#),
            ("a: 1.5", r#"{"a":1.5}"#),
            ("a: 0x10", r#"{"a":16}"#),
            ("a:", r#"{"a":null}"#),
            ("a: '12'", r#"{"a":"12"}"#),
            ("x: &k {b: 1}\ny: *k", r#"{"x":{"b":1},"y":{"b":1}}"#),
            ("x: &k {b: 1}\ny: {<<: *k, c: 2}", r#"{"x":{"b":1},"y":{"b":1,"c":2}}"#),
            ("---\na: 1\n...\n", r#"{"a":1}"#),
        ] {
            assert_eq!(parse(text).map(|value| value.to_string()).as_deref(), Ok(json), "{text}");
        }
    }

    #[test]
    fn faults_name_the_place_and_never_the_value() {
        for (text, fault) in [
            ("a: 1\na: 2", "duplicate mapping key: a at line 2, column 1"),
            ("a: 1\n---\nb: 2", "more than one document"),
            ("a: .nan", "non-finite float"),
            ("a: !!int hunter2", "line 1"),
            ("a: !foo hunter2", "unsupported tag"),
            ("a: \"hunter2", "line 1"),
            ("a: hunter2: b", "line 1"),
            ("a: *hunter2", "unknown anchor"),
            ("a: [hunter2", "line 1"),
        ] {
            let found = parse(text).expect_err(text);
            assert!(found.contains(fault) && !found.contains("hunter2"), "{text}: {found}");
        }
    }

    #[test]
    fn depth_repetition_and_size_are_bounded() {
        let deep = "[".repeat(DEPTH + 1) + &"]".repeat(DEPTH + 1);
        assert!(parse(&deep).is_err());
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for n in 1..9 {
            let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
        }
        assert!(parse(&bomb).is_err());
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(FILE_BYTES + 1).expect("a length");
        assert!(read(file.path()).expect_err("too large").contains("larger than"));
    }
}
