//! A thread of its own for heartbeats and streams, so that a handler that blocks cannot keep them back.

use std::io;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The thread ends when this is dropped.
pub(super) struct Pulse {
    pub runtime: Handle,
    _end: DropGuard,
}

impl Pulse {
    pub fn start() -> io::Result<Pulse> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, end) = (runtime.handle().clone(), CancellationToken::new());
        let ended = end.clone();
        let thread = std::thread::Builder::new().name("codeq-heartbeats".into());
        thread.spawn(move || runtime.block_on(ended.cancelled()))?;
        Ok(Pulse { runtime: handle, _end: end.drop_guard() })
    }
}
