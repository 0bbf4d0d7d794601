//! A call that waits is woken by what it waits for.

use super::{Checked, Violation, broken};
use crate::sim::look::PATIENCE;
use std::future::Future;

const CHECK: &str = "wake";

/// Awaits an answer that must come.
pub async fn answered<T>(what: &str, answer: impl Future<Output = T>) -> Result<T, Violation> {
    let late = || Violation { check: CHECK, what: format!("no answer within {PATIENCE:?}: {what}") };
    tokio::time::timeout(PATIENCE, answer).await.map_err(|_| late())
}

pub fn woken(is_woken: bool) -> Checked {
    match is_woken {
        true => Ok(()),
        false => broken(CHECK, "a claim still waits although there is a task for it"),
    }
}
