//! What is wrong with the configuration: each fault with its next step.

use super::report::Report;
use codeq_server::config::{ConfigError, DEFAULT_YAML};

const NEXT: &str = "correct the setting; every key is explained in config.default.yaml";
/// How alike two names must be for one to be taken for a slip of the other.
const LIKENESS: f64 = 0.8;

pub fn check(report: &mut Report, error: &anyhow::Error) {
    let faults = match error.downcast_ref::<ConfigError>() {
        Some(ConfigError::Load(faults) | ConfigError::Invalid(faults)) => faults.clone(),
        None => vec![error.to_string()],
    };
    for fault in faults {
        let next = match meant(&fault) {
            Some(meant) => format!("did you mean {meant}? Every key is explained in config.default.yaml"),
            None => NEXT.into(),
        };
        report.error("config", fault, next);
    }
}

/// The name that a misspelt key is closest to.
fn meant(fault: &str) -> Option<&'static str> {
    let key = fault.strip_prefix("unknown key ")?.split(' ').next()?;
    let name = key.rsplit('.').next()?.to_lowercase();
    let likeness = |known: &str| strsim::jaro_winkler(&known.to_lowercase(), &name);
    let best = names().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= LIKENESS).then_some(best)
}

/// The names of all settings, from the reference.
fn names() -> impl Iterator<Item = &'static str> {
    let lines = DEFAULT_YAML.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_answered_with_what_was_meant() {
        for (fault, wanted) in [
            ("unknown key prot", Some("port")),
            ("unknown key limits.maxBodyByte", Some("maxBodyBytes")),
            ("unknown key zzz", None),
            ("logLevel must be debug", None),
        ] {
            assert_eq!(meant(fault), wanted, "{fault}");
        }
    }
}
