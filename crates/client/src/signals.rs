//! The signals that end a worker.

use std::io;

/// Resolves at the first SIGTERM or SIGINT. The next one ends the process at once.
#[cfg(unix)]
pub(crate) fn first() -> io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tokio::spawn(async move {
            let number = tokio::select! {
                _ = terminate.recv() => 15,
                _ = interrupt.recv() => 2,
            };
            std::process::exit(128 + number);
        });
    })
}

/// Resolves at the first Ctrl-C. The next one ends the process at once.
#[cfg(not(unix))]
pub(crate) fn first() -> io::Result<impl Future<Output = ()> + Send> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
        tokio::spawn(async {
            let _ = tokio::signal::ctrl_c().await;
            std::process::exit(130);
        });
    })
}
