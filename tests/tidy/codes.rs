//! Every SDK has a type for every code of a refusal.

use crate::{assert_none, read};

/// Where an SDK names a code, and how.
const SDKS: [(&str, &str, &str); 3] = [
    ("sdks/python/src/codeq/errors.py", "(Refused, code=\"", "\")"),
    ("sdks/typescript/src/errors.ts", "\n  ", ": "),
    ("sdks/go/errors.go", " Code = \"", "\"\n"),
];

#[test]
fn every_code_of_the_description_has_a_type_in_every_sdk() {
    let codes = codes();
    let mut faults = Vec::new();
    for (path, before, after) in SDKS {
        let text = read(path);
        let missing = codes.iter().filter(|code| !text.contains(&format!("{before}{code}{after}")));
        faults.extend(missing.map(|code| format!("{path} lacks {code}")));
    }
    assert_none("codes without a type", &faults);
}

/// Those of `ErrorCode` in the description of the API.
fn codes() -> Vec<String> {
    let description = read("crates/api/openapi.json");
    let (_, schema) = description.split_once("\"ErrorCode\": {").unwrap();
    let (_, list) = schema.split_once("\"enum\": [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let codes: Vec<_> = list.split(',').map(|code| code.trim().trim_matches('"').to_owned()).collect();
    assert!(codes.len() > 50, "the description has codes");
    codes
}
