//! What producers do with batches, and items of a batch create that name earlier ones.

use super::{Broker, Error, Items};
use codeq_queue::batch::{Batch, BatchRequest, Batches};
use codeq_queue::create::CreateRequest;
use codeq_queue::dependency::earlier_item;
use codeq_queue::store::{Cancel, Created, TaskRef};
use codeq_queue::{Filter, Listed, Page, Refusal, TaskId, limits};
use std::sync::Arc;
use std::time::Duration;

/// A new batch, and the tasks that wait for it.
pub struct MadeBatch {
    pub batch: Batch,
    pub then: Vec<TaskId>,
}

impl Broker {
    fn batch_store(&self) -> Result<&dyn Batches, Refusal> {
        self.store.batching().ok_or(Refusal::NotSupported("batches"))
    }

    /// Makes a batch and the tasks that follow it, or none of them. They are checked before there is a batch; if one is
    /// refused all the same, what was made is taken back.
    pub async fn create_batch(
        &self,
        tenant: &Arc<str>,
        request: BatchRequest,
        then: Vec<CreateRequest>,
    ) -> Result<MadeBatch, Error> {
        let store = self.batch_store()?;
        let (new, on_failure) = request.check(tenant)?;
        if then.len() > limits::BATCH_THEN {
            return Err(Refusal::InvalidBatch { field: "then", message: "at most 10 tasks" }.into());
        }
        let (attempts, bytes) = (self.settings.max_attempts_default, self.settings.payload_bytes);
        for task in &then {
            if !task.options.after.is_empty() || task.options.unique.is_some() {
                let message = "its tasks cannot have 'after' or 'unique'";
                return Err(Refusal::InvalidBatch { field: "then", message }.into());
            }
            self.create_rules.check(&task.clone().check(attempts, bytes, self.now())?)?;
        }
        let batch = store.create_batch(new).await??;
        let follow = then.into_iter().map(|mut task| {
            task.options.after = vec![batch.id.to_string()];
            task.options.on_dependency_failure = Some(on_failure.word().into());
            Ok(task)
        });
        let (mut then, mut fault) = (Vec::new(), None);
        for item in self.create(follow.collect()).await {
            match item {
                Ok(created) => then.push(created),
                Err(error) => drop(fault.get_or_insert(error)),
            }
        }
        if let Some(error) = fault {
            self.take_back(&batch, &then).await;
            return Err(error);
        }
        Ok(MadeBatch { batch, then: then.into_iter().map(|created| created.task.id).collect() })
    }

    /// Ends what was made of a batch that cannot be made whole. The tasks go first: some follow a batch that fails. What
    /// cannot be taken back now goes when the batch closes by itself.
    async fn take_back(&self, batch: &Batch, then: &[Created]) {
        let made = then.iter().filter(|created| !created.is_replay);
        let cancel = |created: &Created| Cancel {
            task: TaskRef { tenant: batch.tenant.clone(), id: created.task.id },
            grace: Duration::ZERO,
            reason: None,
        };
        let cancelled = self.store.cancel(made.map(cancel).collect()).await.map(drop);
        let ended = match (cancelled, self.batch_store()) {
            (Ok(()), Ok(store)) => store.cancel_batch(batch.tenant.clone(), batch.id).await.map(drop),
            (failed, _) => failed,
        };
        if let Err(failure) = ended {
            tracing::warn!(err = %failure, batch = %batch.id, "a batch without all of its tasks was not taken back");
        }
    }

    pub async fn batch(&self, tenant: &Arc<str>, id: &str) -> Result<Batch, Error> {
        let store = self.batch_store()?;
        let found = store.batch(tenant.clone(), batch_id(id)?).await?;
        Ok(found.ok_or(Refusal::BatchNotFound)?)
    }

    pub async fn close_batch(&self, tenant: &Arc<str>, id: &str) -> Result<Batch, Error> {
        Ok(self.batch_store()?.close_batch(tenant.clone(), batch_id(id)?).await??)
    }

    pub async fn cancel_batch(&self, tenant: &Arc<str>, id: &str) -> Result<Batch, Error> {
        Ok(self.batch_store()?.cancel_batch(tenant.clone(), batch_id(id)?).await??)
    }

    /// A page of the members that are still there, the oldest first.
    pub async fn batch_members(
        &self,
        tenant: &Arc<str>,
        id: &str,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Listed, Error> {
        let batch = self.batch(tenant, id).await?;
        let filter = Arc::new(Filter { batch: Some(batch.id), ..Filter::default() });
        let tenant = Some(tenant.clone());
        Ok(self.store.list(Page { tenant, filter, is_newest_first: false, cursor, limit }).await??)
    }

    /// As [`Broker::create`], where an item may wait for earlier ones, named by their numbers. Those are created
    /// before it.
    pub async fn create_items(&self, requests: Vec<Result<CreateRequest, Refusal>>) -> Items<Created> {
        if !requests.iter().flatten().any(names_items) {
            return self.create(requests).await;
        }
        let mut answers: Vec<Option<Result<Created, Error>>> = requests.iter().map(|_| None).collect();
        let mut left: Vec<Option<Result<CreateRequest, Refusal>>> = requests.into_iter().map(Some).collect();
        // Items name earlier ones only, so every round creates one at least.
        while left.iter().any(Option::is_some) {
            let mut round = Vec::new();
            for (index, place) in left.iter_mut().enumerate() {
                let Some(request) = place.take() else { continue };
                match request.and_then(|request| resolved(request, index, &answers)) {
                    Ok(Resolved::Later(request)) => *place = Some(Ok(*request)),
                    Ok(Resolved::Now(request)) => round.push((index, Ok(*request))),
                    Err(refusal) => round.push((index, Err(refusal))),
                }
            }
            let (indexes, requests): (Vec<usize>, Vec<_>) = round.into_iter().unzip();
            for (index, answer) in indexes.into_iter().zip(self.create(requests).await) {
                answers[index] = Some(answer);
            }
        }
        answers.into_iter().map(|answer| answer.expect("every item was asked for")).collect()
    }
}

fn batch_id(text: &str) -> Result<TaskId, Refusal> {
    TaskId::parse(text).ok_or(Refusal::BatchNotFound)
}

fn names_items(request: &CreateRequest) -> bool {
    request.options.after.iter().any(|id| earlier_item(id).is_some())
}

enum Resolved {
    Now(Box<CreateRequest>),
    /// An item that it names is not there yet.
    Later(Box<CreateRequest>),
}

/// The request with ids in place of the numbers of earlier items.
fn resolved(
    mut request: CreateRequest,
    own: usize,
    answers: &[Option<Result<Created, Error>>],
) -> Result<Resolved, Refusal> {
    let named = |text: &String| earlier_item(text);
    let is_early = |index: usize| index < own && answers[index].is_none();
    if request.options.after.iter().filter_map(named).any(is_early) {
        return Ok(Resolved::Later(Box::new(request)));
    }
    for text in &mut request.options.after {
        let Some(index) = earlier_item(text) else { continue };
        match answers.get(index).filter(|_| index < own) {
            Some(Some(Ok(created))) => *text = created.task.id.to_string(),
            _ => return Err(Refusal::UnknownDependency(text.as_str().into())),
        }
    }
    Ok(Resolved::Now(Box::new(request)))
}
