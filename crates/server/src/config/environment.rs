//! Takes settings from variables and flags.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::error::Fault;
use super::keys::{self, BACKEND_KEYS, KEYS, PERSISTENCE, codeq_name};
use super::settings::{Findings, Layer, Settings};
use super::values;

/// Variables of the command line (cli.md) and of older versions: known, but no settings.
const OTHER_NAMES: [&str; 12] = [
    "CODEQ_BASE_URL",
    "CODEQ_PRODUCER_TOKEN",
    "CODEQ_WORKER_TOKEN",
    "CODEQ_PROFILE",
    "CODEQ_IAM_BASE_URL",
    "CODEQ_IAM_API_KEY",
    "CODEQ_ADMIN",
    "CODEQ_CONFIG_DIR",
    "CODEQ_CLIENT_CERTIFICATE",
    CONFIG_PATH,
    "CODEQ_PPROF",
    "CODEQ_PPROF_ADDR",
];

/// Names the file when no flag does.
pub(super) const CONFIG_PATH: &str = "CODEQ_CONFIG_PATH";

const BACKENDS: &str = "sharding.backends";

/// The variables that are not empty, by name.
pub(super) type Variables = BTreeMap<String, String>;

/// An empty variable is unset.
pub(super) fn variables(env: Vec<(String, String)>) -> Variables {
    env.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// Takes the names of the table first, then the `CODEQ_` names, which win.
pub(super) fn take(settings: &mut Settings, variables: &Variables, findings: &mut Findings) {
    if let Some(text) = variables.get("PERSISTENCE_CONFIG") {
        settings.replace_persistence(text, "PERSISTENCE_CONFIG", Layer::Environment, findings);
    }
    for key in KEYS {
        if let Some((name, text)) = key.env.iter().find_map(|name| variables.get_key_value(*name)) {
            settings.take_text(key, text, name, Layer::Environment, findings);
        }
    }
    let mut known = take_codeq_names(settings, variables, findings);
    known.extend(take_backends(settings, variables, findings));
    take_unsupported(settings, variables);
    warn_unknown(variables, &known, findings);
}

fn take_codeq_names(
    settings: &mut Settings,
    variables: &Variables,
    findings: &mut Findings,
) -> BTreeSet<String> {
    let whole = codeq_name(PERSISTENCE);
    if let Some(text) = variables.get(&whole) {
        settings.replace_persistence(text, &whole, Layer::CodeqName, findings);
    }
    let mut known = BTreeSet::from([whole]);
    for key in KEYS {
        let name = codeq_name(key.path);
        if let Some(text) = variables.get(&name) {
            settings.take_text(key, text, &name, Layer::CodeqName, findings);
        }
        known.insert(name);
    }
    known
}

/// Each field of each shard that another source named has a variable too, so that passwords can stay
/// out of files.
fn take_backends(
    settings: &mut Settings,
    variables: &Variables,
    findings: &mut Findings,
) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut backends = settings.map(BACKENDS).clone();
    for (shard, entry) in &mut backends {
        for key in BACKEND_KEYS {
            let name = codeq_name(&format!("{BACKENDS}.{shard}.{}", key.path));
            if let Some(text) = variables.get(&name) {
                match values::from_text(key, text, &name) {
                    Ok(value) => entry[key.path] = value.unwrap_or(Value::Null),
                    Err(faults) => findings.faults.extend(faults),
                }
            }
            known.insert(name);
        }
    }
    settings.put(BACKENDS, backends);
    known
}

fn take_unsupported(settings: &mut Settings, variables: &Variables) {
    for (feature, names) in [
        ("raft", ["RAFT_ENABLED", "CODEQ_RAFT_ENABLED"]),
        ("cluster", ["CLUSTER_ENABLED", "CODEQ_CLUSTER_ENABLED"]),
    ] {
        let enabled = names.iter().filter_map(|name| variables.get(*name)).any(|text| values::is_true(text));
        settings.note_unsupported(feature, enabled);
    }
}

fn warn_unknown(variables: &Variables, known: &BTreeSet<String>, findings: &mut Findings) {
    let is_known = |name: &String| {
        known.contains(name)
            || OTHER_NAMES.contains(&name.as_str())
            || name.starts_with("CODEQ_RAFT_")
            || name.starts_with("CODEQ_CLUSTER_")
    };
    let unknown = variables.keys().filter(|name| name.starts_with("CODEQ_") && !is_known(name));
    findings.warnings.extend(unknown.map(|name| format!("unknown variable {name} is ignored")));
}

/// Takes the flags, which win over everything.
pub(super) fn take_flags(settings: &mut Settings, flags: &[(&'static str, String)], findings: &mut Findings) {
    for (path, text) in flags {
        match keys::find(path) {
            Some(key) => settings.take_text(key, text, path, Layer::Flag, findings),
            None => findings.faults.push(Fault::unknown(path)),
        }
    }
}
