//! The first event of a stream: who is there, or why the stream ends at once.

use super::StreamContext;
use super::session::{Entered, Role};
use crate::auth::{Access, Denied, Producer, Worker};
use crate::telemetry::traces::http::Carried;
use codeq_queue::{Owner, Refusal, limits};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Status, Streaming};

/// How long a stream may stay without a Hello.
const HELLO_WAIT: Duration = Duration::from_secs(10);

pub fn hello_first() -> Status {
    Status::failed_precondition("first event must be Hello")
}

pub fn shutting_down() -> Status {
    Status::unavailable("shutting down")
}

/// Reads the Hello and lets the caller in.
pub async fn greet<R: Role>(
    office: &Arc<StreamContext>,
    incoming: &mut Streaming<R::Event>,
    carried: Option<Carried>,
) -> Result<Entered<R>, Status> {
    let first = hello::<R>(office, incoming).await?;
    R::enter(office, first.map_err(super::texts::transport)?.ok_or_else(hello_first)?, carried).await
}

/// The first message. Under a crowd of silent streams the time for it is shorter.
async fn hello<R: Role>(
    office: &StreamContext,
    incoming: &mut Streaming<R::Event>,
) -> Result<Result<Option<R::Event>, Status>, Status> {
    let waiting = office.lobby.enter();
    let first = tokio::time::timeout(HELLO_WAIT, incoming.message());
    tokio::select! {
        biased;
        first = first => first.map_err(|_| Status::deadline_exceeded("no Hello within 10s")),
        () = waiting.dismissed.cancelled() => {
            Err(Status::deadline_exceeded("no Hello, and too many others wait"))
        }
    }
}

pub async fn producer(office: &StreamContext, token: &str) -> Result<Producer, Status> {
    office.gate.producer_token(present(token)?, Access::Change).await.map_err(denied)
}

/// The worker and the owner of every lease it takes.
pub async fn worker(office: &StreamContext, token: &str, id: &str) -> Result<(Worker, Arc<Owner>), Status> {
    let worker = office.gate.worker_token(present(token)?).await.map_err(denied)?;
    let id = match id.trim() {
        "" => &worker.0.subject,
        id if id.len() > limits::WORKER_ID_BYTES => {
            return Err(Status::invalid_argument("invalid workerId (max 255 bytes)"));
        }
        id => id,
    };
    if id.is_empty() {
        return Err(Status::invalid_argument(Refusal::WorkerIdRequired.to_string()));
    }
    let owner = Arc::new(Owner::new(&worker.0.subject, id));
    Ok((worker, owner))
}

fn present(token: &str) -> Result<&str, Status> {
    match token.trim() {
        "" => Err(Status::unauthenticated("missing token")),
        token => Ok(token),
    }
}

pub fn denied(denied: Denied) -> Status {
    match denied {
        // Only to who may read, and nothing else.
        Denied::InvalidTenant | Denied::ScopeNotGranted => Status::permission_denied(denied.to_string()),
        Denied::Unavailable(_) => Status::unavailable(format!("auth failed: {denied}")),
        denied => Status::unauthenticated(format!("auth failed: {denied}")),
    }
}
