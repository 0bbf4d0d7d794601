//! Within a crate, one public type name means one thing.

use crate::{assert_none, files};
use std::collections::BTreeMap;

/// Names that are used more than once today. New ones are not added: a name of two words says what the type holds.
const REPEATED: &[(&str, &[&str])] = &[
    ("codeq", &["Access", "Auth", "Deed", "List", "Login", "Tally", "Target", "Watch", "Worker"]),
    (
        "server",
        &[
            "Artifacts",
            "Claimed",
            "Error",
            "Group",
            "Held",
            "Key",
            "Known",
            "Limits",
            "Reader",
            "Ready",
            "Streams",
            "Webhooks",
        ],
    ),
    (
        "store",
        &[
            "Call",
            "Entry",
            "Group",
            "Image",
            "Item",
            "Meters",
            "OpenError",
            "Part",
            "Reply",
            "Shard",
            "Walk",
            "Watch",
            "Writer",
        ],
    ),
];

/// The name of a type that is visible outside of its file.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[test]
fn public_types_of_a_crate_have_different_names() {
    let mut named: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for file in files("crates", &[".rs"]) {
        let mut parts = file.path.split('/');
        let (Some(_), Some(package), Some("src")) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if file.path.contains("/tests") {
            continue;
        }
        for name in file.text.lines().filter_map(public_type) {
            named.entry((package.to_owned(), name.to_owned())).or_default().push(file.path.clone());
        }
    }
    let is_listed = |package: &str, name: &str| {
        REPEATED.iter().any(|(listed, names)| *listed == package && names.contains(&name))
    };
    let mut faults = Vec::new();
    for ((package, name), paths) in &named {
        if paths.len() > 1 && !is_listed(package, name) {
            faults.push(format!("{package}: {name} in {}", paths.join(", ")));
        }
    }
    for (package, name) in
        REPEATED.iter().flat_map(|(package, names)| names.iter().map(move |name| (package, name)))
    {
        if named.get(&((*package).to_owned(), (*name).to_owned())).is_none_or(|paths| paths.len() < 2) {
            faults.push(format!("{package}: {name} is listed as repeated and is not"));
        }
    }
    assert_none("public type names that are used twice (tests/tidy/names.rs)", &faults);
}
