//! Searching and explaining, as operators see it.

use super::admin::{one_tenant, scope};
use super::call::Call;
use super::error::Error;
use super::{filter, reply, show};
use crate::auth::Admin;
use crate::broker::{Group, Reason};
use crate::stamp::WireTime;
use axum::response::Response;
use codeq_api::admin::{AttemptBody, Attempts, GroupBody, GroupsBody, TaskPage};
use codeq_api::explain::{ExplainBody, ReasonBody};
use codeq_queue::policy::Obstacle;
use codeq_queue::store::Position;
use codeq_queue::{Attempt, Filter, Page, Refusal, Whereabouts};
use std::borrow::Cow;
use std::sync::Arc;

/// Tasks on a page when nothing, or no number, is asked for.
const PAGE: usize = 50;
/// Tasks on a page at most.
const PAGE_MAX: usize = 500;

/// Parameters of a listing that are not its filter.
const LISTING: [&str; 5] = ["order", "limit", "cursor", "payload", PAYLOAD_CONTAINS];
const PAYLOAD_CONTAINS: &str = "payloadContains";
/// Bytes of what is searched for in payloads.
const PART_BYTES: usize = 1024;

pub async fn list(call: Call, admin: Admin) -> Result<Response, Error> {
    let filter = filter::of_query(&call, &LISTING)?;
    let has_payload = call.query("payload").as_deref() == Some("true");
    page(call, admin, filter, has_payload).await
}

pub async fn dead_letters(call: Call, admin: Admin) -> Result<Response, Error> {
    of_place(call, admin, Whereabouts::Dead).await
}

pub async fn failed(call: Call, admin: Admin) -> Result<Response, Error> {
    of_place(call, admin, Whereabouts::Failed).await
}

async fn of_place(call: Call, admin: Admin, place: Whereabouts) -> Result<Response, Error> {
    let filter = filter::of_query(&call, &LISTING)?;
    let filter = Filter { place: Some(place), ..in_command(&call, filter) };
    page(call, admin, filter, true).await
}

/// The filter narrowed to the command of the path; `*` is every command.
pub fn in_command(call: &Call, filter: Filter) -> Filter {
    match call.param("command") {
        all if all == "*" => filter,
        command => Filter { command: Some(command), ..filter },
    }
}

async fn page(call: Call, admin: Admin, filter: Filter, has_payload: bool) -> Result<Response, Error> {
    let is_newest_first = match call.query("order").as_deref() {
        None | Some("" | "newest") => true,
        Some("oldest") => false,
        Some(_) => return Err(Refusal::InvalidFilter("invalid order (newest or oldest)".into()).into()),
    };
    let asked = Page {
        tenant: scope(&call, &admin)?,
        filter: Arc::new(filter),
        is_newest_first,
        cursor: call.query("cursor").filter(|cursor| !cursor.is_empty()),
        limit: limit(call.query("limit").as_deref()),
    };
    let broker = call.broker()?;
    let (listed, examined) = match part(&call)? {
        None => (broker.list(asked).await?, None),
        Some(part) => {
            let found = broker.search_payloads(asked, &part).await?;
            (found.listed, Some(found.examined))
        }
    };
    let items = listed.tasks.iter().map(|task| {
        let mut shown = show::with_key(call.app.show(task), task);
        if !has_payload {
            shown.payload = Cow::Borrowed("");
            (shown.checkpoint, shown.progress) = (None, None);
        }
        shown
    });
    let page = TaskPage { items: items.collect(), next: listed.next, partial: listed.missing, examined };
    Ok(reply::partial(reply::ok(&page), &page.partial))
}

/// What payloads are searched for, if they are.
fn part(call: &Call) -> Result<Option<String>, Refusal> {
    match call.query(PAYLOAD_CONTAINS).filter(|part| !part.is_empty()) {
        Some(part) if part.len() > PART_BYTES => {
            Err(Refusal::InvalidFilter(format!("{PAYLOAD_CONTAINS} is longer than {PART_BYTES} bytes")))
        }
        part => Ok(part),
    }
}

/// How many items of a list are asked for.
pub fn limit(asked: Option<&str>) -> usize {
    let asked = asked.and_then(|text| text.trim().parse::<i64>().ok());
    asked.map_or(PAGE, |asked| usize::try_from(asked).unwrap_or(1).clamp(1, PAGE_MAX))
}

pub async fn explain(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = one_tenant(&call, &admin)?;
    let explained = call.broker()?.explain(&tenant, &call.param("id")).await?;
    let stamp = &call.app.stamp;
    Ok(reply::ok(&ExplainBody {
        task_id: explained.task.id.to_string(),
        state: explained.state.into(),
        summary: explained.summary(),
        reasons: explained.reasons.iter().map(|reason| reason_body(reason, stamp)).collect(),
        next_change_at: explained.next_change_at.map(|at| stamp.text(at)),
    }))
}

fn reason_body(reason: &Reason, stamp: &WireTime) -> ReasonBody {
    let plain = ReasonBody { code: reason.code().into(), text: reason.text(), ..ReasonBody::default() };
    match reason {
        Reason::Queued { position: Some(Position { ahead, ahead_at_higher_priority }) } => ReasonBody {
            position: ahead.map(|ahead| ahead + ahead_at_higher_priority + 1),
            ahead_at_higher_priority: Some(*ahead_at_higher_priority),
            ..plain
        },
        Reason::NoRecentClaimer { last_claim } => {
            ReasonBody { last_claim_at: last_claim.map(|at| stamp.text(at)), ..plain }
        }
        Reason::Delayed { until, is_retry } => ReasonBody {
            until: Some(stamp.text(*until)),
            because: Some(if *is_retry { "retry" } else { "scheduled" }.into()),
            ..plain
        },
        Reason::Limited(obstacle) => limited_body(obstacle, stamp, plain),
        Reason::CancelRequested { deadline } => ReasonBody { deadline: Some(stamp.text(*deadline)), ..plain },
        Reason::Running { worker_id, attempt, lease_until } => ReasonBody {
            worker_id: Some(worker_id.clone()),
            attempt: Some(*attempt),
            lease_until: Some(stamp.text(*lease_until)),
            ..plain
        },
        Reason::LeaseOverdue { lease_until } => {
            ReasonBody { lease_until: Some(stamp.text(*lease_until)), ..plain }
        }
        Reason::Dead { failure_reason, error } => ReasonBody {
            failure_reason: failure_reason.map(str::to_owned),
            error: Some(error.clone()),
            ..plain
        },
        Reason::Failed { failure_reason, error } => ReasonBody {
            failure_reason: failure_reason.map(|reason| reason.word().to_owned()),
            error: Some(error.clone()),
            ..plain
        },
        Reason::WaitingFor { count, ids } => ReasonBody {
            count: Some(*count as u64),
            ids: ids.iter().map(ToString::to_string).collect(),
            ..plain
        },
        Reason::Queued { position: None } | Reason::QueuePaused | Reason::Completed | Reason::Cancelled => {
            plain
        }
    }
}

fn limited_body(obstacle: &Obstacle, stamp: &WireTime, plain: ReasonBody) -> ReasonBody {
    match obstacle {
        Obstacle::QueueAtConcurrency { limit, running } => {
            ReasonBody { limit: Some(*limit), running: Some(*running), ..plain }
        }
        Obstacle::LaneAtConcurrency { lane, limit, running } => {
            let lane = Some(lane.to_string());
            ReasonBody { lane, limit: Some(*limit), running: Some(*running), ..plain }
        }
        Obstacle::RateLimited { until } | Obstacle::HeldUntil { until } => {
            ReasonBody { until: Some(stamp.text(*until)), ..plain }
        }
        Obstacle::LaneInOrder { task } => ReasonBody { task_id: Some(task.to_string()), ..plain },
    }
}

pub async fn attempts(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = one_tenant(&call, &admin)?;
    let attempts = call.broker()?.attempts(&tenant, &call.param("id")).await?;
    let items = attempts.iter().map(|attempt| attempt_body(attempt, &call.app.stamp)).collect();
    Ok(reply::ok(&Attempts { items }))
}

fn attempt_body(attempt: &Attempt, stamp: &WireTime) -> AttemptBody {
    let end = attempt.end.as_ref();
    AttemptBody {
        attempt: attempt.attempt,
        worker_id: attempt.worker_id.to_string(),
        claimed_at: stamp.text(attempt.claimed_at),
        ended_at: end.map(|end| stamp.text(end.at)),
        outcome: end.map(|end| end.outcome.word().into()),
        error: end.and_then(|end| end.error.as_deref()).map(str::to_owned),
    }
}

pub async fn groups(call: Call, admin: Admin) -> Result<Response, Error> {
    groups_of(call, admin, Whereabouts::Dead).await
}

pub async fn failed_groups(call: Call, admin: Admin) -> Result<Response, Error> {
    groups_of(call, admin, Whereabouts::Failed).await
}

async fn groups_of(call: Call, admin: Admin, place: Whereabouts) -> Result<Response, Error> {
    let command = Some(call.param("command")).filter(|command| command != "*");
    let found = call.broker()?.groups(scope(&call, &admin)?, command, place).await?;
    let groups = found.groups.iter().map(|group| group_body(group, &call.app.stamp)).collect();
    let body = GroupsBody { groups, truncated: found.is_truncated };
    Ok(reply::partial(reply::ok(&body), &found.missing))
}

fn group_body(group: &Group, stamp: &WireTime) -> GroupBody {
    GroupBody {
        group: group.id.clone(),
        command: group.command.clone(),
        count: group.count,
        error: group.error.clone(),
        examples: group.examples.iter().map(ToString::to_string).collect(),
        first_seen: stamp.text(group.first_seen),
        last_seen: stamp.text(group.last_seen),
    }
}
