//! What clients ask of a store, one call each, and what they hear.

use codeq_queue::batch::{Batch, NewBatch};
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::store::{
    Abandon, Cancel, Claim, Created, Heartbeat, Nack, Report, Returned, Submit, TaskRef,
};
use codeq_queue::{Delivery, Failure, NewTask, QueueKey, Refusal, ResultRecord, Store, Task, TaskId, Time};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub enum Action {
    Create(NewTask),
    Claim(Claim),
    Heartbeat(Heartbeat),
    Submit(Submit),
    Nack(Nack),
    Abandon(Abandon),
    Cancel(TaskRef),
    Requeue(TaskRef),
    Remove(TaskRef),
    Cleanup(Time),
    Pause(QueueKey),
    Resume(QueueKey),
    PutPolicy(QueueKey, &'static str),
    CreateBatch(NewBatch),
    CloseBatch(TaskId),
    CancelBatch(TaskId),
    TakeDeliveries(Duration),
    ReportDelivery(Delivery, DeliveryReport),
}

#[derive(Clone, Debug)]
pub enum Reply {
    Created(Result<Created, Refusal>),
    Lent(Vec<Task>),
    Extended(Result<(), Refusal>),
    Ended(Result<ResultRecord, Refusal>),
    Returned(Result<Returned, Refusal>),
    Operated(Result<Task, Refusal>),
    Deliveries(Vec<Delivery>),
    Grouped(Result<Batch, Refusal>),
    Nothing,
}

impl Action {
    /// The attempt that a worker speaks for.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Action::Heartbeat(beat) => Some(&beat.report),
            Action::Submit(submit) => Some(&submit.report),
            Action::Nack(nack) => Some(&nack.report),
            Action::Abandon(abandon) => Some(&abandon.report),
            _ => None,
        }
    }

    pub async fn perform(self, store: &dyn Store, tenant: &str) -> Result<Reply, Failure> {
        Ok(match self {
            Action::Create(new) => Reply::Created(store.create(vec![new]).await?.remove(0)),
            Action::Claim(claim) => Reply::Lent(store.claim(claim).await?),
            Action::Heartbeat(beat) => {
                Reply::Extended(store.heartbeat(vec![beat]).await?.remove(0).map(|_| ()))
            }
            Action::Submit(submit) => Reply::Ended(store.submit(vec![submit]).await?.remove(0)),
            Action::Nack(nack) => Reply::Returned(store.nack(vec![nack]).await?.remove(0)),
            Action::Abandon(abandon) => Reply::Returned(store.abandon(vec![abandon]).await?.remove(0)),
            Action::Cancel(task) => Reply::Operated(store.cancel(vec![Cancel::now(task)]).await?.remove(0)),
            Action::Requeue(task) => Reply::Operated(store.requeue(vec![task], None).await?.remove(0)),
            Action::TakeDeliveries(hold) => Reply::Deliveries(store.take_deliveries(4, hold).await?),
            Action::CreateBatch(_) | Action::CloseBatch(_) | Action::CancelBatch(_) => {
                self.group(store, tenant).await?
            }
            other => other.change(store, tenant).await.map(|()| Reply::Nothing)?,
        })
    }

    async fn group(self, store: &dyn Store, tenant: &str) -> Result<Reply, Failure> {
        let batching = store.batching().expect("an embedded store keeps batches");
        let tenant: Arc<str> = tenant.into();
        Ok(Reply::Grouped(match self {
            Action::CreateBatch(new) => batching.create_batch(new).await?,
            Action::CloseBatch(id) => batching.close_batch(tenant, id).await?,
            Action::CancelBatch(id) => batching.cancel_batch(tenant, id).await?,
            _ => unreachable!("only batches are grouped"),
        }))
    }

    /// What is answered with nothing that anyone needs.
    async fn change(self, store: &dyn Store, tenant: &str) -> Result<(), Failure> {
        match self {
            Action::Remove(task) => drop(store.remove(vec![task]).await?),
            Action::Cleanup(before) => drop(store.cleanup(tenant.into(), before, 100).await?),
            Action::Pause(queue) => drop(store.pause(queue).await?),
            Action::Resume(queue) => drop(store.resume(queue).await?),
            Action::PutPolicy(queue, text) => {
                let policing = store.policing().expect("an embedded store keeps policies");
                drop(policing.put_policy(queue, text.into()).await?);
            }
            Action::ReportDelivery(delivery, report) => {
                drop(store.report_delivery(delivery.id, report).await?);
            }
            _ => unreachable!("answered above"),
        }
        Ok(())
    }
}
