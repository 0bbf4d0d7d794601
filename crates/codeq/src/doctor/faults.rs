//! What is wrong with the configuration: each fault with its next step.

use super::report::Report;
use codeq_server::config::{ConfigError, Fault};

const REFERENCE: &str = "every key is explained in config.default.yaml";

pub fn check(report: &mut Report, error: &anyhow::Error) {
    let Some(error) = error.downcast_ref::<ConfigError>() else {
        return report.error("config", error.to_string(), REFERENCE);
    };
    for fault in error.faults() {
        let meant = fault.meant.as_ref().map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
        let place = fault.place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
        report.error("config", &*fault.text, format!("{meant}Correct the setting{place}; {REFERENCE}"));
    }
}

/// What to do about a configuration that is refused when a server starts: where each fault is, and what was meant.
pub fn advice(error: &anyhow::Error) -> Vec<String> {
    let Some(error) = error.downcast_ref::<ConfigError>() else { return Vec::new() };
    let says_more = |fault: &&Fault| fault.place.is_some() || fault.meant.is_some();
    let faults = error.faults().iter().filter(says_more).map(Fault::to_string);
    let next = "next: `codeq doctor` with the same settings names each fault with its next step";
    faults.chain([next.to_owned()]).collect()
}
