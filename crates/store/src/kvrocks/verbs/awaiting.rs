//! Results, and waiting for them.

use crate::kvrocks::coordination::waiting::LOOK_AGAIN;
use crate::kvrocks::format::outcome::parse_result;
use crate::kvrocks::format::record;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::patience::ask_all;
use crate::kvrocks::redis::reply::{found, list};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::create::spread_of;
use crate::kvrocks::verbs::read::unwritten;
use codeq_queue::Failure;
use codeq_queue::store::{ResultLookup, TaskRef, Wait};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long it may take to tell the others that somebody waits; otherwise he looks again by himself.
const SAID_WITHIN: Duration = Duration::from_millis(100);

impl StoreContext {
    pub async fn result(self: Arc<Self>, task: TaskRef, wait: Wait) -> Result<ResultLookup, Failure> {
        let watch = self.teller.watchers.clone().watch(task.id);
        self.await_result(&task, wait, watch.told()).await
    }

    async fn await_result(
        &self,
        task: &TaskRef,
        wait: Wait,
        watched: &Notify,
    ) -> Result<ResultLookup, Failure> {
        let mut has_waited = false;
        loop {
            let told = watched.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            let now = match self.enter().await {
                Err(Failure::Closed) if has_waited => return Ok(ResultLookup::Pending),
                now => now?,
            };
            let lookup = self.look_up(task).await?;
            let left = match wait {
                Wait::No => None,
                Wait::Until(end) => Some(end.since(now)).filter(|left| !left.is_zero()),
                Wait::Forever => Some(LOOK_AGAIN),
            };
            let Some(left) = left.filter(|_| lookup == ResultLookup::Pending) else { return Ok(lookup) };
            if self.say_who_waits().await {
                continue;
            }
            let left = if self.is_stepped() { LOOK_AGAIN } else { left.min(LOOK_AGAIN) };
            has_waited = true;
            tokio::select! {
                () = &mut told => {}
                () = tokio::time::sleep(left) => {}
                () = self.closed() => return Ok(ResultLookup::Pending),
            }
        }
    }

    /// Tells the other processes that somebody waits for a result here. True if they may not have known: what has ended until
    /// now was not told.
    async fn say_who_waits(&self) -> bool {
        match self.teller.presence.awaiting() {
            Some((message, true)) => {
                let said = self.teller.publisher.publish(message);
                matches!(tokio::time::timeout(SAID_WITHIN, said).await, Ok(Ok(())))
            }
            Some((message, false)) => {
                self.teller.publisher.say(message);
                false
            }
            None => false,
        }
    }

    async fn look_up(&self, task: &TaskRef) -> Result<ResultLookup, Failure> {
        let likely = match self.memory.recall(task.id) {
            Some(known) => Some(self.keyspace_of(known.shard)),
            None if self.sharding.spread => Some(self.keyspace_of(self.spread_index(spread_of(task.id)))),
            None => None,
        };
        let mut failure = None;
        if let Some(keyspace) = likely {
            match self.look_up_on(keyspace, task).await {
                Ok(Some(lookup)) => return Ok(lookup),
                Ok(None) => {}
                Err(away) => failure = Some(away),
            }
        }
        let others = (0..self.keyspaces.len()).filter(|keyspace| Some(*keyspace) != likely);
        for answer in ask_all(others.map(|keyspace| self.look_up_on(keyspace, task))).await {
            match answer {
                Ok(Some(lookup)) => return Ok(lookup),
                Ok(None) => {}
                Err(away) => failure = Some(away),
            }
        }
        failure.map_or(Ok(ResultLookup::NotFound), Err)
    }

    /// `None` if the task is not there.
    async fn look_up_on(&self, keyspace: usize, task: &TaskRef) -> Result<Option<ResultLookup>, Failure> {
        let (at, id) = (&self.shards[self.keyspaces[keyspace][0]], task.id.to_string());
        let get = |name: &str| Command::new("HGET").arg(at.keys.of(name)).arg(id.as_str());
        let commands = [Command::new("MULTI"), get("tasks"), get("results"), Command::new("EXEC")];
        let pair = list(at.read(&commands).await?.pop().unwrap_or(Reply::Nil));
        let mut texts = pair.into_iter().map(found);
        let (text, result) = (texts.next().flatten(), texts.next().flatten());
        let Some(found) = text.and_then(|text| record::parse(&text)) else { return Ok(None) };
        Ok(Some(match found.body.tenant == task.tenant {
            false => ResultLookup::NotFound,
            true if found.state.is_live() => ResultLookup::Pending,
            true => {
                let record = result.and_then(|text| parse_result(&text));
                let record = record.unwrap_or_else(|| unwritten(&found));
                ResultLookup::Done { task: found, record }
            }
        }))
    }
}
