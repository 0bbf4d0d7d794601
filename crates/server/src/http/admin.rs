//! What operators send.

use super::audit::Deed;
use super::call::{Call, parse_or_empty};
use super::error::Error;
use super::reply;
use crate::auth::{Admin, Denied, is_tenant};
use crate::stamp;
use axum::http::StatusCode;
use axum::response::Response;
use codeq_api::admin::{
    CleanedUp, CleanupBody, PolicyBody, QueueStats as StatsBody, QueueView, QueueViews, TopicBody,
};
use codeq_api::json;
use codeq_queue::topic::{self, Policy, Topic, TopicPut};
use codeq_queue::{QueueStats, Refusal};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whose queues an admin call is about. Only operators may name another tenant than their own, or all.
pub fn scope(call: &Call, admin: &Admin) -> Result<Option<Arc<str>>, Error> {
    match call.query("tenant").as_deref() {
        None => Ok(Some(admin.0.tenant.clone())),
        Some(own) if own == &*admin.0.tenant => Ok(Some(admin.0.tenant.clone())),
        Some(_) if !admin.0.is_operator => Err(Denied::AdminOnly.into()),
        Some("*") => Ok(None),
        Some(other) => Ok(Some(other.into())),
    }
}

/// The one tenant of a call about one task or queue.
pub fn one_tenant(call: &Call, admin: &Admin) -> Result<Arc<str>, Error> {
    let all = || Refusal::InvalidFilter("tenant=* is for lists; name the tenant".into());
    Ok(scope(call, admin)?.ok_or_else(all)?)
}

/// The tenant of a topic.
fn tenant(call: &Call, admin: &Admin) -> Result<Arc<str>, Error> {
    let message = "must match ^[a-z][a-z0-9-]{1,62}$";
    let tenant = scope(call, admin)?.filter(|tenant| is_tenant(tenant));
    Ok(tenant.ok_or(Refusal::InvalidTopic { field: "tenantId", message })?)
}

pub async fn queues(call: Call, admin: Admin) -> Result<Response, Error> {
    // A server may go or come meanwhile: whoever was away before or is away now may be missing.
    let before = super::health::away(&call.app);
    let mut queues = call.broker()?.queues(scope(&call, &admin)?).await?;
    let missing: Vec<String> = before
        .into_iter()
        .chain(super::health::away(&call.app))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    queues.sort_by(|a, b| (&a.command, &a.tenant).cmp(&(&b.command, &b.tenant)));
    if call.query("view").as_deref() == Some("stats") {
        let now = call.app.now();
        let view = |queue| view(queue, now);
        let views = QueueViews { queues: queues.iter().map(view).collect() };
        return Ok(reply::partial(reply::ok(&views), &missing));
    }
    let places: BTreeMap<String, u64> =
        queues.iter().flat_map(places).filter(|(_, count)| *count > 0).collect();
    Ok(reply::partial(reply::ok(&places), &missing))
}

/// The places of a queue under the labels that the original server gave them.
fn places(queue: &QueueStats) -> Vec<(String, u64)> {
    let command = queue.command.to_ascii_lowercase().replace(':', "%3a");
    let name = format!("codeq:q:{command}:{}", queue.tenant);
    let ready = queue
        .ready
        .iter()
        .enumerate()
        .map(|(priority, count)| (format!("{name}:pending:{priority}"), *count));
    let others = [("inprog", queue.in_progress), ("delayed", queue.delayed), ("dlq", queue.dead)];
    ready.chain(others.map(|(place, count)| (format!("{name}:{place}"), count))).collect()
}

pub fn view(queue: &QueueStats, now: codeq_queue::Time) -> QueueView<'_> {
    QueueView {
        stats: stats(queue, &queue.command),
        tenant_id: Cow::Borrowed(&queue.tenant),
        oldest_ready_age_seconds: queue.oldest_ready.map_or(0, |created| now.since(created).as_secs()),
        paused: queue.is_paused,
        lanes: queue.lanes,
        limited: queue.limited,
        policy: queue.policy.as_ref().and_then(|policy| serde_json::from_str(&policy.text).ok()),
        held: queue.held,
        failed: queue.failed,
    }
}

fn stats<'a>(queue: &QueueStats, command: &'a str) -> StatsBody<'a> {
    StatsBody {
        command: Cow::Borrowed(command),
        ready: queue.ready_total(),
        delayed: queue.delayed,
        in_progress: queue.in_progress,
        dlq: queue.dead,
    }
}

pub async fn queue(call: Call, admin: Admin) -> Result<Response, Error> {
    let command = call.param("command");
    let queues = match scope(&call, &admin)? {
        Some(tenant) => vec![call.broker()?.queue(&tenant, &command).await?],
        None => call.broker()?.queues(None).await?,
    };
    let mut sum =
        StatsBody { command: Cow::Borrowed(&command), ready: 0, delayed: 0, in_progress: 0, dlq: 0 };
    for queue in queues.iter().filter(|queue| queue.command.eq_ignore_ascii_case(&command)) {
        sum.ready += queue.ready_total();
        sum.delayed += queue.delayed;
        sum.in_progress += queue.in_progress;
        sum.dlq += queue.dead;
    }
    Ok(reply::ok(&sum))
}

pub async fn cleanup(mut call: Call, admin: Admin) -> Result<Response, Error> {
    let body: CleanupBody = parse_or_empty(&call.read().await?)?;
    let limit = body.limit.unwrap_or(0);
    let given = body.before.as_deref().filter(|text| !text.is_empty());
    let before = match given {
        Some(text) => stamp::parse(text).ok_or(Refusal::InvalidBefore)?,
        None => call.app.now(),
    };
    let shown = given.and_then(stamp::as_sent).unwrap_or_else(|| stamp::utc_seconds(before));
    let scope = scope(&call, &admin)?;
    let deleted = call.broker()?.cleanup(scope, before, limit).await?;
    Ok(Deed::count(deleted).with(reply::ok(&CleanedUp { before: shown, deleted, limit })))
}

pub async fn put_topic(mut call: Call, admin: Admin) -> Result<Response, Error> {
    let body = call.read().await?;
    topic::check_name(&call.param("topicName"))?;
    let body: PolicyBody = json::read(&body).map_err(|malformed| {
        Error::from(Refusal::InvalidBody).saying("invalid_body", format!("invalid request body: {malformed}"))
    })?;
    let name = call.param("topicName");
    let put = call.broker()?.put_topic(tenant(&call, &admin)?, name, policy(body)).await;
    let (topic, did) = put.map_err(in_words_of_topics)?;
    let status = match did {
        TopicPut::Created => StatusCode::CREATED,
        TopicPut::Changed | TopicPut::Same => StatusCode::OK,
    };
    Ok(reply::json(status, &shown(&topic)))
}

pub async fn topic(call: Call, admin: Admin) -> Result<Response, Error> {
    let name = call.param("topicName");
    let topic = call.broker()?.topic(tenant(&call, &admin)?, name).await.map_err(in_words_of_topics)?;
    Ok(reply::ok(&shown(&topic)))
}

pub async fn delete_topic(call: Call, admin: Admin) -> Result<Response, Error> {
    if call.query("deletionPolicy").as_deref() != Some("Delete") {
        return Err(Refusal::DeletionPolicyRequired.into());
    }
    let name = call.param("topicName");
    call.broker()?.delete_topic(tenant(&call, &admin)?, name).await.map_err(in_words_of_topics)?;
    Ok(reply::no_content())
}

fn in_words_of_topics(error: crate::broker::Error) -> Error {
    Error::from(error).saying("internal", "queue topic operation failed")
}

/// Zero is the same as leaving an optional number out.
fn policy(body: PolicyBody) -> Policy {
    Policy {
        priority_tiers: body.priority_tiers.unwrap_or_default(),
        max_attempts: body.max_attempts.unwrap_or(0),
        dead_letter_topic: body.dead_letter_topic_ref.unwrap_or_default(),
        retention_seconds: body.retention_seconds.filter(|seconds| *seconds != 0),
        max_consumers: body.max_consumers.filter(|count| *count != 0),
    }
}

fn shown(topic: &Topic) -> TopicBody<'_> {
    TopicBody {
        topic_id: topic::id(&topic.tenant, &topic.name),
        tenant_id: Cow::Borrowed(&topic.tenant),
        topic_name: Cow::Borrowed(&topic.name),
        policy: PolicyBody {
            priority_tiers: Some(topic.policy.priority_tiers.clone()),
            max_attempts: Some(topic.policy.max_attempts),
            dead_letter_topic_ref: Some(topic.policy.dead_letter_topic.clone()),
            retention_seconds: topic.policy.retention_seconds,
            max_consumers: topic.policy.max_consumers,
        },
        version: topic.version,
        created_at: topic.created_at.to_utc(),
        updated_at: topic.updated_at.to_utc(),
    }
}
