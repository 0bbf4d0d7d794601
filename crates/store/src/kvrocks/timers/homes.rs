//! What the home of a batch knows of it: one record, replaced whole by whoever has read it last.
//!
//! The rules are those of [`Batch`]; a partition is a keyspace, called by the name of one of its shards. A change that
//! others were quicker with is made anew on what they left.

use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, found, list};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::create::spread_of;
use codeq_queue::batch::{Batch, BatchEnd, Counts, NewBatch};
use codeq_queue::{Failure, Refusal, Standing, TaskId, Time, limits};
use futures_util::future::join_all;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often a change is made anew.
const TRIES: u32 = 40;
/// The longest pause between two tries, in milliseconds.
const PAUSE_MS: u64 = 20;
/// A batch that only waits for its members is asked about again after this, should a server have lost what it told.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
pub struct HomeRecord {
    pub batch: Batch,
    /// What the keyspaces are called that `shares` counts.
    pub names: Vec<String>,
    /// Whether these know that it is over.
    pub is_told: bool,
}

pub struct FoundHome {
    pub shard: usize,
    text: String,
    pub record: HomeRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HomeText {
    tenant: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    created_at_ms: i64,
    close_after_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed_at_ms: Option<i64>,
    #[serde(default)]
    cancelled: bool,
    shares: Vec<CountsText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<EndText>,
    #[serde(default)]
    told: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CountsText {
    name: String,
    live: u64,
    completed: u64,
    failed: u64,
    joined_at_ms: i64,
    closed: bool,
    cancelled: bool,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndText {
    at_ms: i64,
    completed: bool,
    expires_ms: i64,
}

impl HomeRecord {
    pub fn new(id: TaskId, new: NewBatch, now: Time) -> HomeRecord {
        HomeRecord { batch: Batch::new(id, new, now), names: Vec::new(), is_told: false }
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.names.iter().position(|known| known == name).and_then(|at| u32::try_from(at).ok())
    }

    pub fn knows(&self, name: &str) -> bool {
        self.number(name).is_some()
    }

    /// Lets a keyspace have members; whether it is new.
    pub fn register(&mut self, name: &str) -> Result<bool, Refusal> {
        match self.number(name) {
            Some(number) => self.batch.register(number),
            None => {
                let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                let is_new = self.batch.register(number)?;
                self.names.push(name.into());
                Ok(is_new)
            }
        }
    }

    /// Lets it have members although no more may join: they have moved there.
    pub fn add(&mut self, name: &str) -> bool {
        if self.knows(name) || self.batch.end.is_some() {
            return false;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.batch.shares.insert(number, Counts::default());
        self.names.push(name.into());
        true
    }

    pub fn hear(&mut self, name: &str, counts: Counts) -> bool {
        self.number(name).is_some_and(|number| self.batch.hear(number, counts))
    }

    /// When it is to be looked after.
    pub fn due(&self, now: Time) -> Time {
        match (self.batch.end, self.batch.closes_at()) {
            (Some(end), _) if self.is_told => end.expires,
            (Some(_), _) => now,
            (None, Some(at)) => at,
            (None, None) if self.batch.behind().next().is_some() => now,
            (None, None) => now.plus(LOOK_AGAIN),
        }
    }

    fn text(&self) -> String {
        let batch = &self.batch;
        let shares = batch.shares.iter().map(|(number, counts)| CountsText {
            name: self.names.get(*number as usize).cloned().unwrap_or_default(),
            live: counts.live,
            completed: counts.completed,
            failed: counts.failed,
            joined_at_ms: counts.joined_at.millis(),
            closed: counts.is_closed,
            cancelled: counts.is_cancelled,
            version: counts.version,
        });
        let text = HomeText {
            tenant: batch.tenant.to_string(),
            name: batch.name.as_deref().map(Into::into),
            created_at_ms: batch.created_at.millis(),
            close_after_ms: u64::try_from(batch.close_after.as_millis()).unwrap_or(u64::MAX),
            closed_at_ms: batch.closed_at.map(Time::millis),
            cancelled: batch.is_cancelled,
            shares: shares.collect(),
            ended: batch.end.map(|end| EndText {
                at_ms: end.at.millis(),
                completed: end.is_completed,
                expires_ms: end.expires.millis(),
            }),
            told: self.is_told,
        };
        serde_json::to_string(&text).expect("texts and numbers can be written")
    }

    fn parse(id: TaskId, text: &str) -> Option<HomeRecord> {
        let text: HomeText = serde_json::from_str(text).ok()?;
        let names: Vec<String> = text.shares.iter().map(|share| share.name.clone()).collect();
        let counts = |share: &CountsText| Counts {
            live: share.live,
            completed: share.completed,
            failed: share.failed,
            joined_at: Time::from_millis(share.joined_at_ms),
            is_closed: share.closed,
            is_cancelled: share.cancelled,
            version: share.version,
        };
        let batch = Batch {
            id,
            tenant: text.tenant.into(),
            name: text.name.map(Into::into),
            created_at: Time::from_millis(text.created_at_ms),
            close_after: Duration::from_millis(text.close_after_ms),
            closed_at: text.closed_at_ms.map(Time::from_millis),
            is_cancelled: text.cancelled,
            shares: (0..).zip(text.shares.iter().map(counts)).collect(),
            end: text.ended.map(|end| BatchEnd {
                at: Time::from_millis(end.at_ms),
                is_completed: end.completed,
                expires: Time::from_millis(end.expires_ms),
            }),
        };
        Some(HomeRecord { batch, names, is_told: text.told })
    }
}

impl StoreContext {
    /// Where a batch of this id is made.
    pub fn home_shard(&self, id: TaskId) -> usize {
        match self.sharding.spread {
            true => self.spread.home(spread_of(id)),
            false => self.default_shard,
        }
    }

    /// Looks where they are likely to be, then everywhere else. Fails if one was not found and somewhere it may be
    /// nobody answered.
    pub async fn find_homes(&self, ids: &[TaskId]) -> Result<HashMap<TaskId, FoundHome>, Failure> {
        let (homes, failure) = self.look_for_homes(ids, true).await;
        match failure {
            Some(failure) if ids.iter().any(|id| !homes.contains_key(id)) => Err(failure),
            _ => Ok(homes),
        }
    }

    /// What was found, and why somebody did not answer.
    pub async fn look_for_homes(
        &self,
        ids: &[TaskId],
        everywhere: bool,
    ) -> (HashMap<TaskId, FoundHome>, Option<Failure>) {
        let likely = |id: &TaskId| self.keyspace_of(self.home_shard(*id));
        let mut homes = HashMap::new();
        let mut failure = self.read_homes(&mut homes, ids, |id, keyspace| likely(id) == keyspace).await;
        let left: Vec<TaskId> = ids.iter().filter(|id| !homes.contains_key(*id)).copied().collect();
        if everywhere && !left.is_empty() && self.keyspaces.len() > 1 {
            let more = self.read_homes(&mut homes, &left, |id, keyspace| likely(id) != keyspace).await;
            failure = failure.or(more);
        }
        (homes, failure)
    }

    /// Gives why somebody did not answer.
    async fn read_homes(
        &self,
        homes: &mut HashMap<TaskId, FoundHome>,
        ids: &[TaskId],
        is_there: impl Fn(&TaskId, usize) -> bool,
    ) -> Option<Failure> {
        let asked = (0..self.keyspaces.len()).filter_map(|keyspace| {
            let own: Vec<TaskId> = ids.iter().filter(|id| is_there(id, keyspace)).copied().collect();
            let shard = self.keyspaces[keyspace][0];
            let at = &self.shards[shard];
            let get = Command::new("HMGET").arg(at.keys.of("batches"));
            let get = own.iter().map(TaskId::to_string).fold(get, Command::arg);
            (!own.is_empty()).then_some(async move { (shard, own, at.read_one(get).await) })
        });
        let mut failure = None;
        for (shard, own, answer) in join_all(asked).await {
            match answer {
                Err(away) => failure = Some(away),
                Ok(texts) => homes.extend(own.into_iter().zip(list(texts)).filter_map(|(id, text)| {
                    let text = String::from_utf8(found(text)?).ok()?;
                    let record = HomeRecord::parse(id, &text)?;
                    Some((id, FoundHome { shard, text, record }))
                })),
            }
        }
        failure
    }

    pub async fn find_home(&self, id: TaskId) -> Result<Option<FoundHome>, Failure> {
        Ok(self.find_homes(&[id]).await?.remove(&id))
    }

    /// Changes a batch by the rules, and ends it if nothing is left to wait for. `change` says whether anything changed.
    pub async fn change_home(
        &self,
        id: TaskId,
        now: Time,
        mut change: impl FnMut(&mut HomeRecord) -> Result<bool, Refusal>,
    ) -> Result<Result<HomeRecord, Refusal>, Failure> {
        for tried in 0..TRIES {
            let Some(found) = self.find_home(id).await? else { return Ok(Err(Refusal::BatchNotFound)) };
            let mut record = found.record.clone();
            match change(&mut record) {
                Err(refusal) => return Ok(Err(refusal)),
                Ok(false) => return Ok(Ok(record)),
                Ok(true) => {}
            }
            let has_ended = record.batch.try_end(now, self.rules.retention);
            let due = record.due(now);
            if self.put_home(&found, &record, due, has_ended, now).await? {
                return Ok(Ok(record));
            }
            let pause = rand::random_range(0..=PAUSE_MS.min(u64::from(tried)));
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Err(Failure::unavailable("the batch changes all the time"))
    }

    /// False if somebody else was quicker.
    async fn put_home(
        &self,
        found: &FoundHome,
        record: &HomeRecord,
        due: Time,
        has_ended: bool,
        now: Time,
    ) -> Result<bool, Failure> {
        let ended = match record.batch.standing() {
            Standing::Succeeded if has_ended => "C",
            Standing::Failed if has_ended => "F",
            _ => "",
        };
        let word = self.batch_put(found, &record.text(), &due.millis().to_string(), ended, now).await?;
        Ok(word == "OK")
    }

    /// Looks after a batch at another time than it would.
    pub async fn put_off(&self, found: &FoundHome, due: Time, now: Time) -> Result<(), Failure> {
        self.put_home(found, &found.record, due, false, now).await.map(|_| ())
    }

    pub async fn make_home(&self, record: HomeRecord, now: Time) -> Result<Result<Batch, Refusal>, Failure> {
        let shard = self.home_shard(record.batch.id);
        let (text, due) = (record.text(), record.due(now).millis().to_string());
        let nothing = FoundHome { shard, text: String::new(), record };
        Ok(match self.batch_put(&nothing, &text, &due, "", now).await?.as_str() {
            "TOO_MANY" => Err(Refusal::TooManyBatches(limits::BATCHES)),
            _ => Ok(nothing.record.batch),
        })
    }

    pub async fn forget_home(&self, found: &FoundHome, now: Time) -> Result<(), Failure> {
        self.batch_put(found, "", "", "", now).await.map(|_| ())
    }

    async fn batch_put(
        &self,
        found: &FoundHome,
        text: &str,
        due: &str,
        ended: &str,
        now: Time,
    ) -> Result<String, Failure> {
        let at = &self.shards[found.shard];
        let call = Call::new(Script::BatchPut, vec![at.keys.of("tasks")])
            .arg(found.record.batch.id.to_string())
            .arg(found.text.as_str())
            .arg(text)
            .arg(due)
            .arg(ended)
            .arg(&*found.record.batch.tenant)
            .number(limits::BATCHES)
            .number(now.millis());
        let settle = |replies: Vec<Reply>| {
            let answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            Ok((answer.word, Vec::new()))
        };
        at.writer.run(vec![call], settle).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let new =
            NewBatch { tenant: "acme".into(), name: Some("n".into()), close_after: Duration::from_secs(7) };
        let id = TaskId::from_bits(5);
        let mut record = HomeRecord::new(id, new, Time::from_millis(9));
        assert_eq!(record.register("p3"), Ok(true));
        assert_eq!((record.register("default"), record.register("p3")), (Ok(true), Ok(false)));
        record.batch.close(Time::from_millis(11));
        assert!(record.hear("p3", Counts { completed: 4, is_closed: true, version: 9, ..Counts::default() }));
        assert!(record.hear("default", Counts { is_closed: true, version: 1, ..Counts::default() }));
        assert!(record.batch.try_end(Time::from_millis(12), Duration::from_secs(1)));
        let back = HomeRecord::parse(id, &record.text()).unwrap();
        assert_eq!((back.batch, back.names, back.is_told), (record.batch, record.names, false));
    }
}
