//! Who works, as operators see it.

use super::admin::scope;
use super::call::Call;
use super::error::Error;
use super::reply;
use crate::auth::Admin;
use axum::response::Response;
use codeq_api::admin::{WorkerBody, WorkersBody};

pub async fn list(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = scope(&call, &admin)?;
    let seen = call.broker()?.workers(tenant.as_deref()).await;
    let stamp = &call.app.stamp;
    let items = seen.iter().map(|worker| WorkerBody {
        worker: (&*worker.owner.worker_id).into(),
        sub: (&*worker.owner.subject).into(),
        tenant_id: (&*worker.tenant).into(),
        protocol: worker.protocol.word().into(),
        commands: worker.commands.iter().map(|command| command.trim().into()).collect(),
        info: worker.info.clone(),
        running: worker.running.iter().map(ToString::to_string).collect(),
        running_count: worker.running_count as u64,
        last_seen_at: stamp.text(worker.last_seen),
    });
    Ok(reply::ok(&WorkersBody { items: items.collect() }))
}
