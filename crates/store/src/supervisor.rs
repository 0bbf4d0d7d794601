//! Work in the background that lasts as long as its process.
//!
//! A panic ends a task without a word, and whoever relies on it waits for ever. So what is [kept](Supervisor::keep) is begun
//! again, and told: in the log, and by [`Supervisor::failing`] to those who ask whether the process is well. What cannot be
//! begun again is [vital](vital): the process ends with it, and whoever started the process starts it again.

use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How long after a failure work counts as failing.
const FAILING: Duration = Duration::from_secs(60);
/// How long work rests before it is begun again: what fails at once must not use up a processor.
const PAUSE: Duration = Duration::from_secs(1);

/// Begins work again that fails, and knows what has.
#[derive(Default)]
pub struct Supervisor {
    failed: Mutex<BTreeMap<&'static str, Failures>>,
}

struct Failures {
    count: u64,
    last: Instant,
}

impl Supervisor {
    /// Does the work until it ends by itself; after a panic it is begun again. The name is for people.
    pub fn keep<F: Future<Output = ()> + Send>(
        self: &Arc<Self>,
        name: &'static str,
        begin: impl Fn() -> F + Send + Sync + 'static,
    ) -> JoinHandle<()> {
        let supervisor = self.clone();
        tokio::spawn(async move {
            while AssertUnwindSafe(async { begin().await }).catch_unwind().await.is_err() {
                tracing::error!(work = name, "background work has failed and is begun again");
                supervisor.note(name);
                tokio::time::sleep(PAUSE).await;
            }
        })
    }

    /// Work of this name has failed.
    pub fn note(&self, name: &'static str) {
        let mut failed = self.failed();
        let failures = failed.entry(name).or_insert(Failures { count: 0, last: Instant::now() });
        (failures.count, failures.last) = (failures.count + 1, Instant::now());
    }

    /// What has failed lately, by name.
    pub fn failing(&self) -> Vec<&'static str> {
        self.failing_at(Instant::now())
    }

    fn failing_at(&self, now: Instant) -> Vec<&'static str> {
        let failed = self.failed();
        let lately = failed.iter().filter(|(_, failures)| now.duration_since(failures.last) < FAILING);
        lately.map(|(name, _)| *name).collect()
    }

    /// How often each work has failed; what never did is not there.
    pub fn failures(&self) -> Vec<(&'static str, u64)> {
        self.failed().iter().map(|(name, failures)| (*name, failures.count)).collect()
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<&'static str, Failures>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does work without which the process is of no use. A panic ends the process.
pub fn vital<T: Send + 'static>(
    name: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(async move {
        AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(work = name, "work without which nothing goes on has failed; the process ends");
            std::process::exit(1)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Timers, senders of callbacks and whoever works off operations ended with their first panic, and nobody was told.
    #[tokio::test]
    async fn work_that_panics_is_begun_again_and_told_until_it_is_well() {
        let supervisor = Arc::<Supervisor>::default();
        assert!(supervisor.failing().is_empty() && supervisor.failures().is_empty());
        let begun = Arc::<AtomicU32>::default();
        let beginning = begun.clone();
        let kept = supervisor.keep("sweep", move || {
            let number = beginning.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::task::yield_now().await;
                assert!(number == 2, "not yet");
            }
        });
        kept.await.expect("it ends as its work ends");
        assert_eq!(begun.load(Ordering::Relaxed), 3);
        assert_eq!((supervisor.failing(), supervisor.failures()), (vec!["sweep"], vec![("sweep", 2)]));
        let later = Instant::now() + FAILING;
        assert_eq!((supervisor.failing_at(later), supervisor.failures()), (vec![], vec![("sweep", 2)]));
    }

    #[tokio::test]
    async fn work_whose_beginning_panics_is_begun_again() {
        let supervisor = Arc::<Supervisor>::default();
        let begun = Arc::<AtomicU32>::default();
        let beginning = begun.clone();
        let begin = move || {
            assert!(beginning.fetch_add(1, Ordering::Relaxed) > 0, "not yet");
            std::future::ready(())
        };
        supervisor.keep("feed", begin).await.expect("it ends as its work ends");
        assert_eq!((begun.load(Ordering::Relaxed), supervisor.failing()), (2, vec!["feed"]));
    }

    #[tokio::test]
    async fn vital_work_that_ends_well_ends_nothing_else() {
        assert_eq!(vital("accept", async { 7 }).await.expect("no panic"), 7);
    }
}
