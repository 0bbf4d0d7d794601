//! Batches: every item is an operation of its own; those of one shard are handed over together.

use crate::kvrocks::redis::connection::Reply;
use crate::kvrocks::redis::script::Call;
use crate::kvrocks::redis::writer::Operation;
use crate::kvrocks::store::StoreContext;
use codeq_queue::{Event, Failure};
use tokio::sync::oneshot;

/// One item of a batch.
pub enum Item<T> {
    /// Answered without asking.
    Answered(T),
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
    /// Answers in the order of the items.
    pub async fn run_batch<T>(&self, items: impl IntoIterator<Item = Item<T>>) -> Result<Vec<T>, Failure> {
        let mut by_shard: Vec<Vec<Operation>> = self.shards.iter().map(|_| Vec::new()).collect();
        let mut answers = Vec::new();
        for item in items {
            answers.push(match item {
                Item::Answered(value) => Ok(value),
                Item::Asked { shard, operation, answer } => {
                    by_shard[shard].push(operation);
                    Err(answer)
                }
            });
        }
        for (shard, operations) in self.shards.iter().zip(by_shard).filter(|(_, all)| !all.is_empty()) {
            shard.writer.hand_over(operations).await?;
        }
        let mut values = Vec::with_capacity(answers.len());
        for answer in answers {
            values.push(match answer {
                Ok(value) => value,
                Err(answer) => answer.await.unwrap_or(Err(Failure::Closed))?,
            });
        }
        Ok(values)
    }
}
