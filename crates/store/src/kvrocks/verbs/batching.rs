//! The verbs of batches.

use crate::kvrocks::store::{KvrocksStore, StoreContext};
use crate::kvrocks::timers::homes::HomeRecord;
use codeq_queue::batch::{Batch, Batches, NewBatch};
use codeq_queue::store::Answer;
use codeq_queue::{Failure, Refusal, TaskId, Time};
use std::sync::Arc;

/// Ids drawn to find one whose home answers.
const DRAWS: usize = 16;

impl StoreContext {
    async fn create_batch(self: Arc<Self>, new: NewBatch) -> Result<Result<Batch, Refusal>, Failure> {
        let now = self.enter().await?;
        let mut id = TaskId::from_bits(rand::random());
        for _ in 0..DRAWS {
            if self.shards[self.home_shard(id)].server.gate.away().is_none() {
                break;
            }
            id = TaskId::from_bits(rand::random());
        }
        self.make_home(HomeRecord::new(id, new, now), now).await
    }

    async fn batch(self: Arc<Self>, tenant: Arc<str>, id: TaskId) -> Result<Option<Batch>, Failure> {
        let now = self.enter().await?;
        let Some(home) = self.find_home(id).await?.filter(|home| home.record.batch.tenant == tenant) else {
            return Ok(None);
        };
        // What does not answer is shown as it was heard of last.
        let (record, _) = self.refreshed(home.record, now).await?;
        Ok(record.ok().map(|record| record.batch))
    }

    /// A batch with the counts that its keyspaces have now, and why one of them did not answer.
    pub async fn refreshed(
        &self,
        home: HomeRecord,
        now: Time,
    ) -> Result<(Result<HomeRecord, Refusal>, Option<Failure>), Failure> {
        if home.batch.end.is_some() || home.names.is_empty() {
            return Ok((Ok(home), None));
        }
        let (counts, failure) = self.ask_shares(&home, None, now).await;
        Ok((self.gather(home.batch.id, counts, now).await?, failure))
    }

    async fn gather(
        &self,
        id: TaskId,
        counts: Vec<(String, codeq_queue::batch::Counts)>,
        now: Time,
    ) -> Result<Result<HomeRecord, Refusal>, Failure> {
        self.change_home(id, now, |home| {
            Ok(counts.iter().fold(false, |is_new, (name, counts)| home.hear(name, *counts) || is_new))
        })
        .await
    }

    /// Closes a batch everywhere before it answers.
    async fn close_batch(
        self: Arc<Self>,
        tenant: Arc<str>,
        id: TaskId,
        cancels: bool,
    ) -> Result<Result<Batch, Refusal>, Failure> {
        let now = self.enter().await?;
        let closed = self.change_home(id, now, |home| match home.batch.tenant == tenant {
            false => Err(Refusal::BatchNotFound),
            true if cancels => Ok(home.batch.cancel(now)),
            true => Ok(home.batch.close(now)),
        });
        let home = match closed.await? {
            Ok(home) if home.batch.end.is_none() => home,
            answer => return Ok(answer.map(|home| home.batch)),
        };
        let (record, failure) = self.shut_everywhere(home, now).await?;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(record.map(|record| record.batch)),
        }
    }

    /// Has every keyspace of a batch take no more members.
    pub async fn shut_everywhere(
        &self,
        home: HomeRecord,
        now: Time,
    ) -> Result<(Result<HomeRecord, Refusal>, Option<Failure>), Failure> {
        let (counts, failure) = self.ask_shares(&home, Some(home.batch.is_cancelled), now).await;
        Ok((self.gather(home.batch.id, counts, now).await?, failure))
    }
}

impl Batches for KvrocksStore {
    fn create_batch(&self, new: NewBatch) -> Answer<Result<Batch, Refusal>> {
        self.run(|keeper| keeper.create_batch(new))
    }

    fn batch(&self, tenant: Arc<str>, id: TaskId) -> Answer<Option<Batch>> {
        self.run(|keeper| keeper.batch(tenant, id))
    }

    fn close_batch(&self, tenant: Arc<str>, id: TaskId) -> Answer<Result<Batch, Refusal>> {
        self.run(|keeper| keeper.close_batch(tenant, id, false))
    }

    fn cancel_batch(&self, tenant: Arc<str>, id: TaskId) -> Answer<Result<Batch, Refusal>> {
        self.run(|keeper| keeper.close_batch(tenant, id, true))
    }
}
