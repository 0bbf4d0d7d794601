//! When and why a worker stops.

use crate::Error;
use std::sync::OnceLock;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(super) struct Fate {
    /// No more tasks are claimed.
    pub stop: CancellationToken,
    /// Jobs are given back.
    pub cut: CancellationToken,
    /// Reports are refused whatever they say.
    pub mute: CancellationToken,
    reason: OnceLock<Error>,
}

impl Fate {
    /// Stops the worker because of something that trying again does not mend. The first reason counts.
    pub fn end(&self, reason: Error) {
        let _ = self.reason.set(reason);
        self.stop.cancel();
    }

    /// As [`Fate::end`], because the worker may not report.
    pub fn end_mute(&self, reason: Error) {
        self.end(reason);
        self.mute.cancel();
    }

    pub fn outcome(&self) -> Result<(), Error> {
        self.reason.get().map_or(Ok(()), |reason| Err(reason.clone()))
    }
}
