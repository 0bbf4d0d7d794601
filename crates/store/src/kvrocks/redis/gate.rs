//! Whether a server is there. One that refuses connections, or does not answer a PING for too long (`KvrocksOptions::silence`), is away: calls for
//! it fail at once, those on their way too, and it is probed until it answers. While it is there it is asked how it is.

use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::connection::{Command, Probe, REPLICA, Reply, Target};
use crate::kvrocks::redis::master::{follow_switches, locate};
use crate::kvrocks::redis::reply::{count, list, string};
use codeq_queue::store::ServerView;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Between two probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// Between two questions who is master, while it is away.
const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// Between two questions to the Sentinels while nothing seems to be wrong: what they tell by themselves may be lost.
const LOCATE_INTERVAL: Duration = Duration::from_secs(10);
/// Between two questions how it is.
const SURVEY_INTERVAL: Duration = Duration::from_secs(2);

/// Shared by all connections to one server.
pub struct Gate {
    away: watch::Sender<Option<String>>,
    times_away: AtomicU64,
    /// Where the master is and how it is, as last told.
    survey: Mutex<Option<(String, ServerView)>>,
    /// Where the newest connection leads.
    reached: Mutex<String>,
}

impl Default for Gate {
    fn default() -> Gate {
        let (away, times_away) = (watch::channel(None).0, AtomicU64::new(0));
        Gate { away, times_away, survey: Mutex::default(), reached: Mutex::default() }
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

    /// A connection was made to this address. Those that lead elsewhere are made anew if Sentinels name the master, who all call
    /// it the same.
    /// Gives whether they are.
    pub fn reached(&self, target: &Target, address: &str) -> bool {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = *reached != address && !reached.is_empty() && target.backend.sentinel.is_some();
        if is_other {
            self.away.send_modify(|_| {
                self.times_away.fetch_add(1, Ordering::AcqRel);
            });
        }
        address.clone_into(&mut reached);
        is_other
    }

    /// Somebody who must know says that the master is there. Connections that lead elsewhere are made anew.
    pub fn follow(self: &Arc<Self>, target: &Target, address: &str) {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !reached.is_empty() && reached != address {
            self.shut(target, &format!("{reached} is not the master any more, {address} is"));
        }
    }

    /// Returns when the server has been away once more than so often, though it may be back by then.
    pub async fn shuts(&self, times_away: u64) -> String {
        let mut away = self.away.subscribe();
        let told = away.wait_for(|_| self.times_away() != times_away).await;
        let reason = told.ok().and_then(|reason| reason.clone());
        reason.unwrap_or_else(|| {
            "the connection led to a server that was away, or is not the master any more".into()
        })
    }

    /// Nothing gets to the server until a probe does.
    pub fn shut(self: &Arc<Self>, target: &Target, reason: &str) {
        let mut was_shut = false;
        self.away.send_modify(|away| {
            was_shut = away.replace(reason.to_owned()).is_some();
            if !was_shut {
                self.times_away.fetch_add(1, Ordering::AcqRel);
            }
        });
        if !was_shut {
            tracing::warn!(err = reason, "a server of the store is away");
            tokio::spawn(self.clone().keep_probing(target.clone()));
        }
    }

    async fn keep_probing(self: Arc<Self>, target: Target) {
        // Besides the prober only connections hold it, and maybe a watch.
        while Arc::strong_count(&self) > 1 {
            match Probe::dial(&target).await {
                Ok(_) => {
                    self.away.send_replace(None);
                    tracing::info!("a server of the store is back");
                    return;
                }
                Err(reason) => drop(self.away.send_replace(Some(reason))),
            }
            tokio::time::sleep(if target.is_followed() { ASK_INTERVAL } else { PROBE_INTERVAL }).await;
        }
    }

    /// Looks for ever whether the server is silent, and now and then how it is.
    pub async fn watch(self: Arc<Self>, target: Target, keys: Keys) {
        tokio::spawn(follow_switches(Arc::downgrade(&self), target.clone()));
        let (mut line, mut surveyed): (Option<Probe>, Option<Instant>) = (None, None);
        let mut located = Instant::now();
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(PROBE_INTERVAL).await;
            if target.backend.sentinel.is_some() && located.elapsed() >= LOCATE_INTERVAL {
                located = Instant::now();
                self.look_for_master(&target).await;
            }
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
                    Some(_) if !reason.contains("timed out") && !reason.contains(REPLICA) => {}
                    _ => self.shut(&target, &reason),
                }
            }
        }
    }

    /// Whoever was master may have been cut off from the Sentinels, which have chosen another one, and go on to serve.
    async fn look_for_master(self: &Arc<Self>, target: &Target) {
        if let Ok(address) = locate(target).await {
            self.follow(target, &address);
        }
    }

    /// Fails if the server is not what it was: it may have been emptied, or be a replica now.
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
        if list(role.clone()).first().is_some_and(|role| string(role.clone()) == "slave") {
            return Err(format!("{}: {REPLICA}", line.address));
        }
        // The third part of what a master says is the list of its replicas; Kvrocks leaves it out without any.
        let replicas = list(list(role.clone()).get(2).cloned().unwrap_or(Reply::Nil)).len();
        let replicas = u64::try_from(replicas).unwrap_or(u64::MAX);
        let view = ServerView { replicas, round_trip, queues: count(queues), tasks: count(tasks) };
        *self.survey.lock().unwrap_or_else(PoisonError::into_inner) = Some((line.address.clone(), view));
        Ok(())
    }
}
