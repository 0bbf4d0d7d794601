//! What scripts leave for other keyspaces, and who carries it there.
//!
//! Everything to be carried lies in the keyspace where it came up: ends that somebody waits for, held tasks that have to
//! ask, counts that the home of a batch is to hear of, batches that are due, members that are to be cancelled. The
//! process whose script left it looks at once, the one that sweeps looks with every sweep, and each takes a note away
//! only when it has arrived: any process may carry any note, and one that is carried twice changes nothing.

use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{list, string, strings};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::timers::shares::{ShareLine, ShareVerb};
use codeq_queue::store::{Cancel, TaskRef};
use codeq_queue::{Failure, TaskId, Time, limits};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Steps in a row; what is left then waits for the next sweep.
const ROUNDS: usize = 2000;
/// What could not be carried is tried again after this.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// A share that was prepared is left to whoever did for so long.
const PREPARED_FOR: Duration = Duration::from_secs(10);
/// Batches that are looked at together.
const TOGETHER: usize = 64;

/// Keyspaces in which this process has left something.
#[derive(Default)]
pub struct Carrier {
    keyspaces: Mutex<BTreeSet<usize>>,
    left: Notify,
}

impl Carrier {
    pub fn nudge(&self, keyspace: usize) {
        self.keyspaces.lock().expect("no one panics holding the numbers").insert(keyspace);
        self.left.notify_one();
    }

    fn take(&self) -> BTreeSet<usize> {
        std::mem::take(&mut *self.keyspaces.lock().expect("no one panics holding the numbers"))
    }
}

/// What one keyspace has to be carried.
struct Left {
    ended: Vec<String>,
    asks: Vec<String>,
    news: Vec<(String, Time)>,
    due: Vec<String>,
    cancelled: Vec<String>,
}

fn ids(texts: &[String]) -> Vec<TaskId> {
    texts.iter().filter_map(|text| TaskId::parse(text)).collect()
}

impl StoreContext {
    /// Carries what scripts of this process leave, until the store is closed.
    pub async fn keep_carrying(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.closed() => return,
                () = self.carrier.left.notified() => {}
            }
            let now = self.now.get();
            let carried = self.carrier.take().into_iter().map(|keyspace| self.carry(keyspace, now, now));
            for failure in join_all(carried).await.into_iter().filter_map(Result::err) {
                tracing::debug!(err = %failure, "something is left to the next sweep");
            }
        }
    }

    /// Carries everything of a keyspace that is to be carried. Held tasks ask that would ask by `asks_until`.
    pub async fn carry(&self, keyspace: usize, now: Time, asks_until: Time) -> Result<(), Failure> {
        let mut asks_until = asks_until;
        for _ in 0..ROUNDS {
            if *self.is_closed.borrow() {
                return Ok(());
            }
            let left = self.left(keyspace, now, asks_until).await?;
            asks_until = now;
            let mut carried = self.tell_ends(keyspace, &left.ended, now).await?;
            carried += self.ask_for(keyspace, &left.asks, now).await?;
            carried += self.tell_homes(keyspace, &left.news, now).await?;
            carried += self.look_after(&left.due, now).await?;
            carried += self.cancel_members(keyspace, &left.cancelled, now).await?;
            if carried == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn left(&self, keyspace: usize, now: Time, asks_until: Time) -> Result<Left, Failure> {
        let at = &self.shards[self.keyspaces[keyspace][0]];
        let most = limits::RELEASES_PER_STEP.to_string();
        let range = |name: &str, until: Time| {
            let until = until.millis().to_string();
            Command::new("ZRANGEBYSCORE").arg(at.keys.of(name)).args([
                "-inf",
                until.as_str(),
                "WITHSCORES",
                "LIMIT",
                "0",
                most.as_str(),
            ])
        };
        let commands = [
            range("ended", now),
            range("asks", asks_until),
            range("shares:news", now),
            range("batches:due", now),
            range("shares:cancelled", now),
        ];
        let mut replies = at.read(&commands).await?.into_iter().map(scored);
        let mut next = || replies.next().unwrap_or_default();
        let mut members = || next().into_iter().map(|(member, _)| member).collect();
        let (ended, asks) = (members(), members());
        let news = next();
        let mut members = || next().into_iter().map(|(member, _)| member).collect();
        Ok(Left { ended, asks, news, due: members(), cancelled: members() })
    }

    /// Tries what could not be carried again later, so that it does not keep others back.
    pub async fn postpone(
        &self,
        keyspace: usize,
        name: &str,
        members: &[String],
        until: Time,
    ) -> Result<(), Failure> {
        if members.is_empty() {
            return Ok(());
        }
        let at = &self.shards[self.keyspaces[keyspace][0]];
        let until = until.millis().to_string();
        let put = Command::new("ZADD").arg(at.keys.of(name)).arg("XX");
        let put = members.iter().fold(put, |put, member| put.arg(until.as_str()).arg(member.as_str()));
        at.read_one(put).await.map(|_| ())
    }

    pub async fn try_later(
        &self,
        keyspace: usize,
        name: &str,
        members: &[String],
        now: Time,
    ) -> Result<(), Failure> {
        self.postpone(keyspace, name, members, now.plus(TRY_AGAIN)).await
    }

    /// Brings counts of members to the homes of their batches. Gives how many arrived.
    async fn tell_homes(
        &self,
        keyspace: usize,
        news: &[(String, Time)],
        now: Time,
    ) -> Result<usize, Failure> {
        let (mut carried, mut left) = (0, Vec::new());
        for part in news.chunks(TOGETHER) {
            let told = part.iter().map(|(id, since)| self.tell_home(keyspace, id, *since, now));
            for ((id, _), told) in part.iter().zip(join_all(told).await) {
                match told {
                    Ok(true) => carried += 1,
                    Ok(false) | Err(_) => left.push(id.clone()),
                }
            }
        }
        self.try_later(keyspace, "shares:news", &left, now).await?;
        Ok(carried)
    }

    /// False if it has to be tried again.
    async fn tell_home(&self, keyspace: usize, id: &str, since: Time, now: Time) -> Result<bool, Failure> {
        let Some(id) = TaskId::parse(id) else { return Ok(false) };
        let Some(share) = self.share_on(keyspace, id).await? else {
            let heard = ShareVerb::Heard { version: 0 };
            return self.change_share(keyspace, id, now, heard).await.map(|_| true);
        };
        let home = self.find_home(id).await?.map(|home| home.record);
        let home = home.filter(|home| home.batch.end.is_none() && *home.batch.tenant == *share.tenant);
        let Some(home) = home else { return self.drop_share(keyspace, id, &share, now).await };
        if share.is_prepared && !home.knows(&share.name) {
            let is_young = now.since(since) < PREPARED_FOR;
            return if is_young { Ok(false) } else { self.drop_share(keyspace, id, &share, now).await };
        }
        let heard = self.change_home(id, now, |home| {
            let is_added = home.add(&share.name);
            Ok(home.hear(&share.name, share.counts) || is_added)
        });
        let Ok(home) = heard.await? else { return self.drop_share(keyspace, id, &share, now).await };
        if home.batch.end.is_some() {
            return Ok(true);
        }
        let version = share.counts.version;
        self.change_share(keyspace, id, now, ShareVerb::Heard { version }).await?;
        let cancels = home.batch.is_cancelled;
        let is_behind = home.batch.closed_at.is_some() && !share.counts.is_closed
            || cancels && !share.counts.is_cancelled;
        if is_behind {
            self.change_share(keyspace, id, now, ShareVerb::Shut { cancels, make: None }).await?;
        }
        Ok(true)
    }

    async fn drop_share(
        &self,
        keyspace: usize,
        id: TaskId,
        share: &ShareLine,
        now: Time,
    ) -> Result<bool, Failure> {
        let drop = ShareVerb::Drop { read: &share.text };
        self.change_share(keyspace, id, now, drop).await.map(|_| true)
    }

    /// Batches that close by themselves, have to tell who has members, or go.
    async fn look_after(&self, due: &[String], now: Time) -> Result<usize, Failure> {
        let mut carried = 0;
        for part in ids(due).chunks(TOGETHER) {
            let looked = join_all(part.iter().map(|id| self.look_after_one(*id, now))).await;
            carried += looked.iter().filter(|looked| matches!(looked, Ok(true))).count();
        }
        Ok(carried)
    }

    /// False if it has to be tried again.
    async fn look_after_one(&self, id: TaskId, now: Time) -> Result<bool, Failure> {
        let Some(found) = self.find_home(id).await? else { return Ok(false) };
        let batch = &found.record.batch;
        match (batch.end, batch.closed_at) {
            (Some(end), _) if found.record.is_told && end.expires <= now => {
                self.forget_home(&found, now).await.map(|()| true)
            }
            // Somebody else has told everybody since it was found to be due.
            (Some(_), _) if found.record.is_told => Ok(false),
            (Some(_), _) => self.end_everywhere(found, now).await,
            (None, Some(_)) => {
                let again = self.shut_everywhere(found.record, now).await?;
                self.put_off_missing(id, again.1, now).await
            }
            (None, None) => {
                let (record, failure) = self.refreshed(found.record, now).await?;
                let is_due = |at: Time| at <= now;
                let may_close = record.is_ok_and(|record| record.batch.closes_at().is_some_and(is_due));
                if may_close && failure.is_none() {
                    let close = self.change_home(id, now, |home| {
                        Ok(home.batch.closes_at().is_some_and(is_due) && home.batch.close(now))
                    });
                    return close.await.map(|_| true);
                }
                self.put_off_missing(id, failure, now).await
            }
        }
    }

    /// Looks after a batch again later if a keyspace did not answer, and else when it is due.
    async fn put_off_missing(
        &self,
        id: TaskId,
        failure: Option<Failure>,
        now: Time,
    ) -> Result<bool, Failure> {
        let Some(found) = self.find_home(id).await? else { return Ok(true) };
        let due = match failure {
            Some(_) => now.plus(limits::ASK_AGAIN),
            None => found.record.due(now),
        };
        self.put_off(&found, due, now).await?;
        Ok(due > now)
    }

    /// Nobody keeps counts of a batch that is over.
    async fn end_everywhere(
        &self,
        found: crate::kvrocks::timers::homes::FoundHome,
        now: Time,
    ) -> Result<bool, Failure> {
        let id = found.record.batch.id;
        for name in &found.record.names {
            let dropped = async {
                let keyspace = self.partition(name)?;
                match self.share_on(keyspace, id).await? {
                    Some(share) => self.drop_share(keyspace, id, &share, now).await,
                    None => Ok(true),
                }
            };
            if dropped.await.is_err() {
                self.put_off(&found, now.plus(limits::ASK_AGAIN), now).await?;
                return Ok(false);
            }
        }
        let told = self.change_home(id, now, |home| {
            home.is_told = true;
            Ok(true)
        });
        told.await.map(|_| true)
    }

    /// Cancels members of batches that were cancelled.
    async fn cancel_members(&self, keyspace: usize, batches: &[String], now: Time) -> Result<usize, Failure> {
        let (at, shard) = (&self.shards[self.keyspaces[keyspace][0]], self.keyspaces[keyspace][0]);
        let last = (limits::RELEASES_PER_STEP - 1).to_string();
        let (mut carried, mut left) = (0, Vec::new());
        for batch in batches {
            let members = at.keys.of(&format!("members:{batch}"));
            let range = Command::new("ZRANGE").arg(members).args(["0", last.as_str()]);
            let members = strings(at.read_one(range).await?);
            let known = self.known_on(shard, &members).await?;
            let cancels = members.iter().zip(known).filter_map(|(id, known)| {
                let tenant = known?.queue.tenant;
                Some(Cancel::now(TaskRef { tenant, id: TaskId::parse(id)? }))
            });
            let done = self
                .cancel_at(cancels.collect(), now)
                .await
                .map_or(0, |items| items.iter().filter(|item| item.is_ok()).count());
            match (members.is_empty(), done) {
                (false, 0) => left.push(batch.clone()),
                _ => carried += done,
            }
            if let Some(id) = TaskId::parse(batch) {
                self.change_share(keyspace, id, now, ShareVerb::Calm).await?;
            }
        }
        self.try_later(keyspace, "shares:cancelled", &left, now).await?;
        Ok(carried)
    }
}

/// Members of a range with the instants of their scores.
fn scored(reply: Reply) -> Vec<(String, Time)> {
    let pairs = list(reply);
    let pair = |pair: &[Reply]| {
        let score = string(pair[1].clone()).parse().unwrap_or(0.0);
        (string(pair[0].clone()), crate::kvrocks::verbs::read::millis(score))
    };
    pairs.chunks_exact(2).map(pair).collect()
}
