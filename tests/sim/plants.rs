//! Bugs on purpose, to see that the simulation finds them. Most are planted between the clients and the
//! store, where they look to a client exactly like a bug behind it; some are in the store itself, in builds
//! with debug assertions only.

use super::action::{Action, Reply};
use codeq_queue::store::{Claim, Created, TaskRef, Wait};
use codeq_queue::{Failure, NewTask, Store, Task, TaskId};
use codeq_store::local::Durability;
use codeq_store::testing::planted::{self, Bug};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// Answers do not wait for the disk.
    AnswerBeforeSync,
    /// The attempt in a report is not looked at.
    NoFencing,
    /// A claim that waits sees only what was there when it came.
    LostWakeup,
    /// Frames of the journal are believed whatever their hash says.
    SkippedChecksum,
    /// A key is looked up first and stored with its task later.
    KeyOutsideTransition,
    /// Timers go off a millisecond early.
    TimerOffByOne,
    /// One task more runs than the policy of a queue allows.
    LimitOffByOne,
    /// A member of a batch that ends is counted twice.
    CountedTwice,
    /// What waits for a task is not told of its end.
    EndNotTold,
}

impl Plant {
    /// What concerns every store of this process.
    pub fn sow(plant: Option<Plant>) {
        planted::plant(match plant {
            Some(Plant::SkippedChecksum) => Some(Bug::SkippedChecksum),
            Some(Plant::TimerOffByOne) => Some(Bug::TimerOffByOne),
            Some(Plant::LimitOffByOne) => Some(Bug::LimitOffByOne),
            Some(Plant::CountedTwice) => Some(Bug::CountedTwice),
            Some(Plant::EndNotTold) => Some(Bug::EndNotTold),
            _ => None,
        });
    }

    pub fn durability(plant: Option<Plant>) -> Durability {
        match plant {
            Some(Plant::AnswerBeforeSync) => Durability::Os,
            _ => Durability::Fsync,
        }
    }
}

/// The way from the clients to the store, and what is planted on it.
#[derive(Clone)]
pub struct Door {
    pub store: Arc<dyn Store>,
    pub tenant: Arc<str>,
    pub plant: Option<Plant>,
    pub keys: Arc<Mutex<BTreeMap<(String, String), TaskId>>>,
}

impl Door {
    pub async fn perform(&self, mut action: Action) -> Result<Reply, Failure> {
        if self.plant == Some(Plant::NoFencing) {
            unfence(&mut action);
        }
        match action {
            Action::Create(new) if self.plant == Some(Plant::KeyOutsideTransition) => {
                self.create_unsafely(new).await
            }
            action => action.perform(&*self.store, &self.tenant).await,
        }
    }

    pub async fn wait(&self, claim: Claim) -> Result<Vec<Task>, Failure> {
        if self.plant != Some(Plant::LostWakeup) {
            return self.store.claim(claim).await;
        }
        let found = self.store.claim(Claim { wait: Wait::No, ..claim }).await?;
        match found.is_empty() {
            true => std::future::pending().await,
            false => Ok(found),
        }
    }

    async fn create_unsafely(&self, new: NewTask) -> Result<Reply, Failure> {
        let Some(key) = new.body.idempotency_key.clone() else {
            return Action::Create(new).perform(&*self.store, &self.tenant).await;
        };
        let name = (new.body.command.to_string(), key.to_string());
        let known = self.keys().get(&name).copied();
        if let Some(id) = known {
            let found = self.store.get(vec![TaskRef { tenant: self.tenant.clone(), id }]).await?.remove(0);
            if let Some(task) = found {
                return Ok(Reply::Created(Ok(Created { task, is_replay: true, is_duplicate: false })));
            }
        }
        let mut body = (*new.body).clone();
        body.idempotency_key = None;
        let new = NewTask { body: Arc::new(body), ..new };
        let reply = Action::Create(new).perform(&*self.store, &self.tenant).await?;
        if let Reply::Created(Ok(made)) = &reply {
            self.keys().insert(name, made.task.id);
        }
        Ok(reply)
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), TaskId>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unfence(action: &mut Action) {
    match action {
        Action::Heartbeat(beat) => beat.report.attempt = None,
        Action::Submit(submit) => submit.report.attempt = None,
        Action::Nack(nack) => nack.report.attempt = None,
        Action::Abandon(abandon) => abandon.report.attempt = None,
        _ => {}
    }
}
