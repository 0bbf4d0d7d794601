//! Whether a server is there. One that refuses connections, or does not answer a PING for too long (`KvrocksOptions::silence`), is away: calls for
//! it fail at once, those on their way too, and it is probed until it answers. While it is there it is asked how it is.

use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::connection::{Command, Probe, Reply, Target};
use crate::kvrocks::redis::reply::{count, list};
use codeq_queue::store::ServerView;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Between two probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// Between two questions how it is.
const SURVEY_INTERVAL: Duration = Duration::from_secs(2);

/// Shared by all connections to one server.
pub struct Gate {
    away: watch::Sender<Option<String>>,
    times_away: AtomicU64,
    /// Where the master is and how it is, as last told.
    survey: Mutex<Option<(String, ServerView)>>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { away: watch::channel(None).0, times_away: AtomicU64::new(0), survey: Mutex::default() }
    }
}

impl Gate {
    /// Why the server is away, if it is.
    pub fn away(&self) -> Option<String> {
        self.away.borrow().clone()
    }

    /// Connections from before the last time are worth nothing: the first thing sent over one would be lost.
    pub fn times_away(&self) -> u64 {
        self.times_away.load(Ordering::Acquire)
    }

    /// Where the master is and how it is, as last told.
    pub fn survey(&self) -> Option<(String, ServerView)> {
        self.survey.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns when the server is away.
    pub async fn shuts(&self) -> String {
        let mut away = self.away.subscribe();
        let reason = away.wait_for(Option::is_some).await.map(|reason| reason.clone().unwrap_or_default());
        reason.unwrap_or_default()
    }

    /// Nothing gets to the server until a probe does.
    pub fn shut(self: &Arc<Self>, target: &Target, reason: &str) {
        let was_shut = self.away.send_replace(Some(reason.to_owned())).is_some();
        if !was_shut {
            self.times_away.fetch_add(1, Ordering::AcqRel);
            tracing::warn!(err = reason, "a server of the store is away");
            tokio::spawn(self.clone().keep_probing(target.clone()));
        }
    }

    async fn keep_probing(self: Arc<Self>, target: Target) {
        // Besides the prober only connections hold it, and maybe a watch.
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(PROBE_INTERVAL).await;
            match Probe::dial(&target).await {
                Ok(_) => {
                    self.away.send_replace(None);
                    tracing::info!("a server of the store is back");
                    return;
                }
                Err(reason) => drop(self.away.send_replace(Some(reason))),
            }
        }
    }

    /// Looks for ever whether the server is silent, and now and then how it is.
    pub async fn watch(self: Arc<Self>, target: Target, keys: Keys) {
        let (mut line, mut surveyed): (Option<Probe>, Option<Instant>) = (None, None);
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(PROBE_INTERVAL).await;
            if self.away().is_some() {
                line = None;
                continue;
            }
            let answered = match &mut line {
                Some(line) if surveyed.is_none_or(|at| at.elapsed() >= SURVEY_INTERVAL) => {
                    surveyed = Some(Instant::now());
                    self.ask_how_it_is(line, &target, &keys).await
                }
                Some(line) => line.ping().await,
                None => Probe::dial(&target).await.map(|made| line = Some(made)),
            };
            if let Err(reason) = answered {
                // A line that broke is made anew before anything is said about the server.
                match line.take() {
                    Some(_) if !reason.contains("timed out") => {}
                    _ => self.shut(&target, &reason),
                }
            }
        }
    }

    /// Fails if the server is not what it was: it may have been emptied.
    async fn ask_how_it_is(&self, line: &mut Probe, target: &Target, keys: &Keys) -> Result<(), String> {
        let size = |command: &str, name: &str| Command::new(command).arg(keys.of(name));
        let mut asked = vec![Command::new("ROLE"), size("SCARD", "queues"), size("HLEN", "tasks")];
        asked.extend(target.expected.iter().flat_map(|expected| expected.commands()));
        let sent = Instant::now();
        let mut replies = line.ask(&asked).await?;
        let round_trip = sent.elapsed();
        if let Some(expected) = &target.expected {
            expected.check(replies.split_off(replies.len().min(3)))?;
        }
        let [role, queues, tasks] = replies.as_slice() else { return Ok(()) };
        // The third part of what a master says is the list of its replicas; Kvrocks leaves it out without any.
        let replicas = list(list(role.clone()).get(2).cloned().unwrap_or(Reply::Nil)).len();
        let replicas = u64::try_from(replicas).unwrap_or(u64::MAX);
        let view = ServerView { replicas, round_trip, queues: count(queues), tasks: count(tasks) };
        *self.survey.lock().unwrap_or_else(PoisonError::into_inner) = Some((line.address.clone(), view));
        Ok(())
    }
}
