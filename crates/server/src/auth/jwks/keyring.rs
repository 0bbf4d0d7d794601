//! The keys of one endpoint, kept at hand.
//!
//! Keys are fresh for five minutes. After that they are still used while new ones are fetched in the
//! background. If the endpoint fails, they are used for up to an hour; only then, or when there
//! never were any, is a request refused with a request to retry. There is one fetch at a time, in a task of its
//! own: a request that goes away does not take the others' fetch with it.
//!
//! Ages are measured by the given clock. If it was set back, keys count as old, not as fresh forever.

use super::fetch::Source;
use super::keys::{Key, KeySet};
use crate::auth::denied::Denied;
use crate::auth::known::Proof;
use codeq_queue::Time;
use codeq_store::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;

const FRESH_FOR: Duration = Duration::from_secs(5 * 60);
const USABLE_FOR: Duration = Duration::from_secs(60 * 60);
/// Between two fetches caused by a `kid` that is not in the set.
const UNKNOWN_KID_PAUSE: Duration = Duration::from_secs(30);
/// Between two tries while nothing can be verified.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// Between two tries while old keys still serve.
const STALE_PAUSE: Duration = Duration::from_secs(10);

pub struct Keyring {
    source: Source,
    clock: Arc<dyn Clock>,
    /// Rises when a key leaves the set or changes: what it verified is then forgotten.
    generation: Arc<AtomicU64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    set: Option<Arc<KeySet>>,
    /// Why the last fetch failed; none if it went well.
    failure: Option<String>,
    /// When the last fetch ended.
    tried_at: Option<Time>,
    /// When an unknown `kid` last caused a fetch.
    searched_at: Option<Time>,
    /// Closes when the fetch under way ends.
    flight: Option<Landing>,
}

type Landing = watch::Receiver<()>;

enum Step {
    Use(Arc<KeySet>),
    Wait(Landing),
}

impl Keyring {
    pub fn new(source: Source, clock: Arc<dyn Clock>) -> Keyring {
        Keyring { source, clock, generation: Arc::default(), state: Mutex::default() }
    }

    /// The keys to verify with, and whether they were fetched just now.
    ///
    /// Waits only if there are none that may be used. Refuses with `Unavailable`.
    pub async fn current(self: &Arc<Keyring>) -> Result<(Arc<KeySet>, bool), Denied> {
        let step = self.step(&mut self.state(), self.clock.now())?;
        match step {
            Step::Use(set) => Ok((set, false)),
            Step::Wait(landing) => {
                landed(landing).await;
                let (state, now) = (self.state(), self.clock.now());
                Ok((state.usable(now).ok_or_else(|| state.unavailable())?, true))
            }
        }
    }

    /// The keys after a fetch for a `kid` that was not found, or as they are if the last such fetch
    /// is too recent. Refuses with `Unavailable` while the endpoint fails: the key may exist.
    pub async fn look_again(self: &Arc<Keyring>) -> Result<Arc<KeySet>, Denied> {
        let landing = self.search(&mut self.state(), self.clock.now());
        if let Some(landing) = landing {
            landed(landing).await;
        }
        let (state, now) = (self.state(), self.clock.now());
        match state.usable(now) {
            Some(set) if state.failure.is_none() => Ok(set),
            _ => Err(state.unavailable()),
        }
    }

    /// From here on `set` may not verify any more.
    pub fn end_of(&self, set: &KeySet) -> Time {
        set.fetched_at.plus(USABLE_FOR)
    }

    pub fn proof(&self, set: &KeySet) -> Proof {
        Proof { generation: self.generation.clone(), seen: set.generation }
    }

    #[cfg(test)]
    pub async fn settled(&self) {
        let flight = self.state().flight();
        if let Some(landing) = flight {
            landed(landing).await;
        }
    }

    fn step(self: &Arc<Keyring>, state: &mut State, now: Time) -> Result<Step, Denied> {
        let Some(set) = state.usable(now) else {
            if state.flight().is_none()
                && state.failure.is_some()
                && !is_past(state.tried_at, OUTAGE_PAUSE, now)
            {
                return Err(state.unavailable());
            }
            return Ok(Step::Wait(self.flight(state)));
        };
        if is_past(Some(set.fetched_at), FRESH_FOR, now) && is_past(state.tried_at, STALE_PAUSE, now) {
            self.flight(state);
        }
        Ok(Step::Use(set))
    }

    fn search(self: &Arc<Keyring>, state: &mut State, now: Time) -> Option<Landing> {
        if state.flight().is_none() {
            if !is_past(state.searched_at, UNKNOWN_KID_PAUSE, now) {
                return None;
            }
            state.searched_at = Some(now);
        }
        Some(self.flight(state))
    }

    /// The fetch under way, or a new one.
    fn flight(self: &Arc<Keyring>, state: &mut State) -> Landing {
        if let Some(landing) = state.flight() {
            return landing;
        }
        let (in_flight, landing) = watch::channel(());
        state.flight = Some(landing.clone());
        let ring = self.clone();
        tokio::spawn(async move {
            let outcome = ring.source.fetch().await;
            ring.land(outcome);
            drop(in_flight);
        });
        landing
    }

    fn land(&self, outcome: Result<Vec<Key>, String>) {
        let (mut state, now) = (self.state(), self.clock.now());
        state.tried_at = Some(now);
        state.flight = None;
        match outcome {
            Ok(keys) => self.replace(&mut state, keys, now),
            Err(text) => {
                tracing::warn!(host = self.source.host(), reason = %text, "could not refresh the keys of an issuer");
                state.failure = Some(text);
            }
        }
    }

    fn replace(&self, state: &mut State, keys: Vec<Key>, now: Time) {
        if state.set.as_ref().is_some_and(|old| !old.is_kept_by(&keys)) {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        let generation = self.generation.load(Ordering::Acquire);
        state.set = Some(Arc::new(KeySet { keys, fetched_at: now, generation }));
        state.failure = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no one panics holding the keys")
    }
}

impl State {
    fn usable(&self, now: Time) -> Option<Arc<KeySet>> {
        self.set.clone().filter(|set| now.since(set.fetched_at) < USABLE_FOR)
    }

    /// A closed channel is a fetch that ended, even if it never told.
    fn flight(&self) -> Option<Landing> {
        self.flight.clone().filter(|landing| landing.has_changed().is_ok())
    }

    fn unavailable(&self) -> Denied {
        let interrupted = || "failed to fetch JWKS: interrupted".to_owned();
        Denied::Unavailable(self.failure.clone().unwrap_or_else(interrupted))
    }
}

/// Nothing is ever sent: the channel closes when the fetch is over.
async fn landed(mut landing: Landing) {
    let _closed = landing.changed().await;
}

/// Whether `pause` has gone by since `then`; a `then` in the future is a clock that was set back.
fn is_past(then: Option<Time>, pause: Duration, now: Time) -> bool {
    then.is_none_or(|then| now < then || now.since(then) >= pause)
}
