//! What the Kvrocks store measures: how long its groups waited for replicas.

use crate::local::{Meter, Reading};
use std::time::Duration;

/// Upper bounds of the waits, in seconds.
const WAIT_SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5];

/// Shared by the writers of a store and whoever shows it.
#[derive(Debug, Default)]
pub struct Meters {
    waits: Meter,
}

impl Meters {
    /// From sending a group to the answer of its replicas, or to giving up.
    pub fn waited(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.waits.add(&WAIT_SECONDS, took.as_secs_f64(), nanos);
    }

    /// Seconds that groups waited for replicas.
    pub fn waits(&self) -> Reading {
        self.waits.read(&WAIT_SECONDS, 1e-9)
    }
}
