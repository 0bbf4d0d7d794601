//! Bulk operations that are under way.

use crate::kvrocks::format::record::instant;
use crate::kvrocks::redis::connection::Command;
use crate::kvrocks::redis::reply::{found, list};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::operation::Step;
use codeq_queue::{
    Failure, Filter, Operation, OperationKind, OperationState, TaskId, TaskStatus, Time, Whereabouts,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FilterText {
    command: Option<String>,
    status: Option<String>,
    place: Option<String>,
    worker_id: Option<String>,
    error: Option<String>,
    created_after: Option<i64>,
    created_before: Option<i64>,
    updated_after: Option<i64>,
    updated_before: Option<i64>,
    idempotency_key: Option<String>,
    headers: Vec<(String, String)>,
    group: Option<String>,
    #[serde(default)]
    lane: Option<String>,
    #[serde(default)]
    tag: Option<String>,
    #[serde(default)]
    schedule: Option<String>,
    #[serde(default)]
    batch: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StepText {
    /// Tenants and ids.
    tasks: Vec<(String, String)>,
    next: Option<String>,
}

/// The version comes first, because a script reads it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OperationText {
    version: u64,
    id: String,
    tenant_id: Option<String>,
    kind: String,
    filter: FilterText,
    max_attempts: Option<u32>,
    rate_per_second: u32,
    state: String,
    matched: Option<u64>,
    processed: u64,
    failed: u64,
    created_at: String,
    updated_at: String,
    error: Option<String>,
    cursor: Option<String>,
    step: Option<StepText>,
    holder: String,
    held_until_ms: i64,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    cause: Option<String>,
}

const STATUSES: [TaskStatus; 4] =
    [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed, TaskStatus::Failed];

fn filter_text(filter: &Filter) -> FilterText {
    FilterText {
        command: filter.command.clone(),
        status: filter.status.map(|status| status.word().into()),
        place: filter.place.map(|place| place.word().into()),
        worker_id: filter.worker_id.clone(),
        error: filter.error.clone(),
        created_after: filter.created_after.map(Time::millis),
        created_before: filter.created_before.map(Time::millis),
        updated_after: filter.updated_after.map(Time::millis),
        updated_before: filter.updated_before.map(Time::millis),
        idempotency_key: filter.idempotency_key.clone(),
        headers: filter.headers.clone(),
        group: filter.group.clone(),
        lane: filter.lane.clone(),
        tag: filter.tag.clone(),
        schedule: filter.schedule.clone(),
        batch: filter.batch.map(|batch| batch.to_string()),
    }
}

/// `None` if it names a batch that is none: without that condition the filter would mean more tasks.
fn filter_of(text: FilterText) -> Option<Filter> {
    let batch = match text.batch {
        Some(id) => Some(TaskId::parse(&id)?),
        None => None,
    };
    Some(Filter {
        command: text.command,
        status: text.status.and_then(|word| STATUSES.into_iter().find(|status| status.word() == word)),
        place: text.place.and_then(|word| Whereabouts::parse(&word)),
        worker_id: text.worker_id,
        error: text.error,
        created_after: text.created_after.map(Time::from_millis),
        created_before: text.created_before.map(Time::from_millis),
        updated_after: text.updated_after.map(Time::from_millis),
        updated_before: text.updated_before.map(Time::from_millis),
        idempotency_key: text.idempotency_key,
        headers: text.headers,
        group: text.group,
        lane: text.lane,
        tag: text.tag,
        schedule: text.schedule,
        batch,
    })
}

fn step_text(step: &Step) -> StepText {
    let tasks = step.tasks.iter().map(|(tenant, id)| (tenant.to_string(), id.to_string()));
    StepText { tasks: tasks.collect(), next: step.next.clone() }
}

fn step_of(text: StepText) -> Step {
    let task = |(tenant, id): (String, String)| Some((tenant.into(), TaskId::parse(&id)?));
    Step { tasks: text.tasks.into_iter().filter_map(task).collect(), next: text.next }
}

fn text_of(operation: &Operation) -> String {
    let text = OperationText {
        version: operation.version,
        id: format!("{:032x}", operation.id),
        tenant_id: operation.tenant.as_deref().map(Into::into),
        kind: operation.kind.word().into(),
        filter: filter_text(&operation.filter),
        max_attempts: operation.max_attempts,
        rate_per_second: operation.rate_per_second,
        state: operation.state.word().into(),
        matched: operation.matched,
        processed: operation.processed,
        failed: operation.failed,
        created_at: operation.created_at.to_utc(),
        updated_at: operation.updated_at.to_utc(),
        error: operation.error.clone(),
        cursor: operation.cursor.clone(),
        step: operation.step.as_ref().map(step_text),
        holder: format!("{:032x}", operation.holder),
        held_until_ms: operation.held_until.millis(),
        by: operation.by.as_deref().map(Into::into),
        cause: operation.cause.clone(),
    };
    serde_json::to_string(&text).expect("texts and numbers can be written")
}

fn parse(text: &[u8]) -> Option<Operation> {
    let text: OperationText = serde_json::from_slice(text).ok()?;
    Some(Operation {
        id: u128::from_str_radix(&text.id, 16).ok()?,
        tenant: text.tenant_id.map(Into::into),
        kind: OperationKind::ALL.into_iter().find(|kind| kind.word() == text.kind)?,
        filter: filter_of(text.filter)?,
        max_attempts: text.max_attempts,
        rate_per_second: text.rate_per_second,
        state: OperationState::ALL.into_iter().find(|state| state.word() == text.state)?,
        matched: text.matched,
        processed: text.processed,
        failed: text.failed,
        created_at: instant(&text.created_at)?,
        updated_at: instant(&text.updated_at)?,
        error: text.error,
        cursor: text.cursor,
        step: text.step.map(step_of),
        version: text.version,
        holder: u128::from_str_radix(&text.holder, 16).ok()?,
        held_until: Time::from_millis(text.held_until_ms),
        by: text.by.map(Into::into),
        cause: text.cause,
    })
}

impl StoreContext {
    pub async fn put_operation(self: Arc<Self>, operation: Operation) -> Result<bool, Failure> {
        self.enter().await?;
        let call = Call::new(Script::OperationPut, vec![self.home().keys.of("ops")])
            .arg(format!("{:032x}", operation.id))
            .number(operation.version)
            .arg(text_of(&operation));
        self.compare_and_set(call).await
    }

    pub async fn operations(self: Arc<Self>) -> Result<Vec<Operation>, Failure> {
        self.enter().await?;
        let texts = list(self.home().read_one(Command::new("HVALS").arg(self.home().keys.of("ops"))).await?);
        let mut all: Vec<Operation> =
            texts.into_iter().filter_map(found).filter_map(|text| parse(&text)).collect();
        all.sort_by_key(|operation| (operation.created_at, operation.id));
        Ok(all)
    }

    pub async fn remove_operation(self: Arc<Self>, id: u128) -> Result<(), Failure> {
        self.enter().await?;
        let remove = Command::new("HDEL").arg(self.home().keys.of("ops")).arg(format!("{id:032x}"));
        self.home().read_one(remove).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_read_as_it_was_written() {
        let operation = Operation {
            id: 7,
            tenant: Some("acme".into()),
            kind: OperationKind::Requeue,
            filter: Filter {
                status: Some(TaskStatus::Failed),
                place: Some(Whereabouts::Dead),
                headers: vec![("a".into(), "b".into())],
                created_after: Some(Time::from_millis(1)),
                lane: Some("l".into()),
                tag: Some("x".into()),
                schedule: Some("s".into()),
                batch: Some(TaskId::from_bits(9)),
                ..Filter::default()
            },
            max_attempts: Some(3),
            rate_per_second: 10,
            state: OperationState::Running,
            matched: None,
            processed: 4,
            failed: 1,
            created_at: Time::from_millis(1_700_000_000_001),
            updated_at: Time::from_millis(1_700_000_000_002),
            error: None,
            cursor: Some("c".into()),
            step: Some(Step { tasks: vec![("t".into(), TaskId::from_bits(1))], next: None }),
            version: 12,
            holder: u128::MAX,
            held_until: Time::from_millis(5),
            by: Some("ann".into()),
            cause: Some("timeout".into()),
        };
        let text = text_of(&operation);
        assert!(text.starts_with("{\"version\":12,"), "{text}");
        assert_eq!(parse(text.as_bytes()), Some(operation));
    }
}
