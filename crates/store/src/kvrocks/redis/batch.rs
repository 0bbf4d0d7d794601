//! Batches: every item is an operation of its own; those of one shard are handed over together. The servers are independent of
//! each other: while one is away, the items of the others are done and answered.

use crate::kvrocks::redis::connection::Reply;
use crate::kvrocks::redis::script::Call;
use crate::kvrocks::redis::writer::Operation;
use crate::kvrocks::store::StoreContext;
use codeq_queue::store::Items;
use codeq_queue::{Event, Failure, Refusal};
use futures_util::future::join_all;
use tokio::sync::oneshot;

/// One item of a batch.
pub enum Item<T> {
    /// Answered without asking.
    Answered(T),
    /// It is not known whom to ask.
    Failed(Failure),
    Asked {
        shard: usize,
        operation: Operation,
        answer: oneshot::Receiver<Result<T, Failure>>,
    },
}

impl<T: Send + 'static> Item<T> {
    pub fn ask(
        shard: usize,
        call: Call,
        settle: impl FnOnce(Reply) -> Result<(T, Vec<Event>), Failure> + Send + 'static,
    ) -> Item<T> {
        let settle = |replies: Vec<Reply>| settle(replies.into_iter().next().unwrap_or(Reply::Nil));
        let (operation, answer) = Operation::new(vec![call], settle);
        Item::Asked { shard, operation, answer }
    }

    /// See [`Operation::without_waiting`].
    pub fn without_waiting(self) -> Item<T> {
        match self {
            Item::Asked { shard, operation, answer } => {
                Item::Asked { shard, operation: operation.without_waiting(), answer }
            }
            answered => answered,
        }
    }
}

impl StoreContext {
    /// Answers in the order of the items. Fails if one of them does, when all are over.
    pub async fn run_batch<T>(&self, items: impl IntoIterator<Item = Item<T>>) -> Result<Vec<T>, Failure> {
        self.run_each(items).await.into_iter().collect()
    }

    /// The same for callers who are told of each item what became of it. Fails if all of them do.
    pub async fn run_items<T>(
        &self,
        items: impl IntoIterator<Item = Item<Result<T, Refusal>>>,
    ) -> Result<Items<T>, Failure> {
        let answers = self.run_each(items).await.into_iter();
        whole(answers.map(|answer| answer.unwrap_or_else(|failure| Err(Refusal::Failed(failure)))).collect())
    }

    /// Answers in the order of the items, each with a failure of its own.
    pub async fn run_each<T>(&self, items: impl IntoIterator<Item = Item<T>>) -> Vec<Result<T, Failure>> {
        let mut by_shard: Vec<Vec<Operation>> = self.shards.iter().map(|_| Vec::new()).collect();
        let mut answers = Vec::new();
        for item in items {
            answers.push(match item {
                Item::Answered(value) => Ok(Ok(value)),
                Item::Failed(failure) => Ok(Err(failure)),
                Item::Asked { shard, operation, answer } => {
                    by_shard[shard].push(operation);
                    Err(answer)
                }
            });
        }
        let busy = self.shards.iter().zip(by_shard).filter(|(_, operations)| !operations.is_empty());
        // Operations that nobody takes are dropped, and whoever waits for them is told that the store is closed.
        join_all(busy.map(|(shard, operations)| shard.writer.hand_over(operations))).await;
        let mut values = Vec::with_capacity(answers.len());
        for answer in answers {
            values.push(match answer {
                Ok(value) => value,
                Err(answer) => answer.await.unwrap_or(Err(Failure::Closed)),
            });
        }
        values
    }
}

/// A request fails if every item of it does.
pub fn whole<T>(items: Items<T>) -> Result<Items<T>, Failure> {
    match items.first() {
        Some(Err(Refusal::Failed(failure)))
            if items.iter().all(|item| matches!(item, Err(Refusal::Failed(_)))) =>
        {
            Err(failure.clone())
        }
        _ => Ok(items),
    }
}
