//! Work that takes its time, on a thread that serves others as well: they go on on another one meanwhile.

use tokio::runtime::{Handle, RuntimeFlavor};

/// What takes so many bytes to read or to write takes more than a millisecond.
const LONG_BYTES: usize = 256 * 1024;

/// Does what takes a time in proportion to so many bytes; a hundred megabytes take seconds.
pub fn of<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > LONG_BYTES { aside(work) } else { work() }
}

/// Does what takes long whatever its size. A runtime of one thread has no other to go on.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// One body of 96 MB was read for seconds on a thread that serves a share of all connections.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_are_served_while_a_long_body_is_read() {
        let (told, hears) = std::sync::mpsc::channel();
        let reading = tokio::spawn(async move {
            // The only thread of the runtime is here: whoever answers does so on another one.
            tokio::spawn(async move { told.send(()) });
            of(LONG_BYTES + 1, || hears.recv_timeout(Duration::from_secs(30)))
        });
        assert_eq!(reading.await.expect("no panic"), Ok(()));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_by_itself() {
        assert_eq!((of(LONG_BYTES + 1, || 7), aside(|| 8)), (7, 8));
    }

    #[test]
    fn without_a_runtime_it_is_done_all_the_same() {
        assert_eq!(aside(|| 9), 9);
    }
}
