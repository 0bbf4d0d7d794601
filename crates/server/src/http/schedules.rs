//! Schedules, as producers put and watch them.

use super::audit::Deed;
use super::call::{Call, parse, parse_or_empty};
use super::error::Error;
use super::produce::create_request;
use super::repair::shown as operation_shown;
use super::reply;
use super::search::limit;
use crate::auth::Producer;
use crate::stamp;
use axum::http::StatusCode;
use axum::response::Response;
use codeq_api::json;
use codeq_api::schedule::{BackfillBody, NextTicks, PauseBody, ScheduleBody, SchedulePage, ScheduleView};
use codeq_api::task::CreateBody;
use codeq_queue::create::CreateRequest;
use codeq_queue::schedule::{REFUSED_FIELDS, Rhythm, Schedule, SchedulePut, ScheduleRequest};
use codeq_queue::{Refusal, Time};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ticks told when no number is asked for, and at most.
const NEXT: usize = 10;
const NEXT_MAX: usize = 1000;

fn invalid(field: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::InvalidSchedule { field, message: message.into() }
}

fn instant(field: &'static str, text: Option<&str>) -> Result<Option<Time>, Refusal> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    stamp::parse(text).map(Some).ok_or_else(|| invalid(field, "use RFC3339"))
}

pub async fn put(mut call: Call, producer: Producer) -> Result<Response, Error> {
    let text = call.read().await?;
    let body: ScheduleBody<'_> = parse(&text)?;
    let tenant = &producer.0.tenant;
    let request = request(tenant, &body)?;
    let (schedule, did) = call.broker()?.put_schedule(tenant, call.param("scheduleName"), request).await?;
    let status = match did {
        SchedulePut::Created => StatusCode::CREATED,
        SchedulePut::Changed | SchedulePut::Same => StatusCode::OK,
    };
    let response = reply::json(status, &shown(&schedule));
    // A schedule that is as it was is no deed: programs put theirs whenever they start.
    Ok(if did == SchedulePut::Same { Deed::dry().with(response) } else { response })
}

fn request(tenant: &Arc<str>, body: &ScheduleBody<'_>) -> Result<ScheduleRequest, Refusal> {
    let task_text = body.task.ok_or_else(|| invalid("task", "a task is required"))?.get();
    Ok(ScheduleRequest {
        cron: body.cron.clone(),
        every_seconds: body.every_seconds,
        anchor: instant("anchor", body.anchor.as_deref())?,
        timezone: body.timezone.clone(),
        task: task(tenant, task_text)?,
        task_text: task_text.to_owned(),
        overlap: body.overlap.clone(),
        catch_up: body.catch_up.clone(),
        catch_up_window_seconds: body.catch_up_window_seconds,
        jitter_seconds: body.jitter_seconds,
        start_at: instant("startAt", body.start_at.as_deref())?,
        end_at: instant("endAt", body.end_at.as_deref())?,
        paused: body.paused.unwrap_or(false),
    })
}

/// What each tick creates.
fn task(tenant: &Arc<str>, text: &str) -> Result<CreateRequest, Refusal> {
    let unreadable = || invalid("task", "must be the body of a create");
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text).map_err(|_| unreadable())?;
    for (name, field) in REFUSED_FIELDS {
        if fields.get(name).is_some_and(|value| value.get() != "null") {
            return Err(invalid(field, "a schedule's task cannot have it"));
        }
    }
    let body: CreateBody<'_> = json::read_checked(text).map_err(|_| unreadable())?;
    if body.command.is_none() || body.payload.is_none() {
        return Err(invalid("task", "command and payload are required"));
    }
    create_request(tenant, &Default::default(), body)
}

pub async fn get(call: Call, producer: Producer) -> Result<Response, Error> {
    let schedule = call.broker()?.schedule(&producer.0.tenant, call.param("scheduleName")).await?;
    Ok(reply::ok(&shown(&schedule)))
}

pub async fn list(call: Call, producer: Producer) -> Result<Response, Error> {
    let after = call.query("cursor").filter(|cursor| !cursor.is_empty());
    let limit = limit(call.query("limit").as_deref());
    let (found, next) = call.broker()?.schedules(&producer.0.tenant, after, limit).await?;
    Ok(reply::ok(&SchedulePage { items: found.iter().map(shown).collect(), next }))
}

pub async fn delete(call: Call, producer: Producer) -> Result<Response, Error> {
    call.broker()?.delete_schedule(&producer.0.tenant, call.param("scheduleName")).await?;
    Ok(reply::no_content())
}

pub async fn pause(mut call: Call, producer: Producer) -> Result<Response, Error> {
    let body: PauseBody = parse_or_empty(&call.read().await?)?;
    let paused =
        call.broker()?.pause_schedule(&producer.0.tenant, call.param("scheduleName"), body.note.as_deref());
    Ok(reply::ok(&shown(&paused.await?)))
}

pub async fn resume(call: Call, producer: Producer) -> Result<Response, Error> {
    let resumed = call.broker()?.resume_schedule(&producer.0.tenant, call.param("scheduleName")).await?;
    Ok(reply::ok(&shown(&resumed)))
}

pub async fn trigger(call: Call, producer: Producer) -> Result<Response, Error> {
    let task = call.broker()?.trigger_schedule(&producer.0.tenant, call.param("scheduleName")).await?;
    Ok(reply::json(StatusCode::ACCEPTED, &call.app.show(&task)))
}

pub async fn next(call: Call, producer: Producer) -> Result<Response, Error> {
    let count = match call.query("count").filter(|text| !text.is_empty()) {
        None => NEXT,
        Some(text) => {
            let count = text.parse().ok().filter(|count| (1..=NEXT_MAX).contains(count));
            count.ok_or_else(|| invalid("count", format!("must be between 1 and {NEXT_MAX}")))?
        }
    };
    let ticks = call.broker()?.next_ticks(&producer.0.tenant, call.param("scheduleName"), count).await?;
    Ok(reply::ok(&NextTicks { items: ticks.into_iter().map(Time::to_utc).collect() }))
}

pub async fn backfill(mut call: Call, producer: Producer) -> Result<Response, Error> {
    let body: BackfillBody = parse(&call.read().await?)?;
    let given = |field, text: Option<&str>| -> Result<Time, Refusal> {
        instant(field, text)?.ok_or_else(|| invalid(field, "is required"))
    };
    let (from, to) = (given("from", body.from.as_deref())?, given("to", body.to.as_deref())?);
    let (tenant, by) = (&producer.0.tenant, &producer.0.subject);
    let begun = call.broker()?.backfill_schedule(tenant, call.param("scheduleName"), from, to, by).await?;
    Ok(reply::json(StatusCode::ACCEPTED, &operation_shown(&begun, &call.app.stamp)))
}

fn shown(schedule: &Schedule) -> ScheduleView<'_> {
    let (definition, progress) = (&schedule.definition, &schedule.progress);
    let (cron, every) = match &definition.plan.rhythm {
        Rhythm::Cron(cron) => (Some(cron.text().into()), None),
        Rhythm::Every { seconds, anchor } => (None, Some((*seconds, *anchor))),
    };
    let text = |time: Option<Time>| time.map(Time::to_utc);
    let task: &RawValue = serde_json::from_str(&definition.task_text).expect("it was read when it was put");
    ScheduleView {
        name: Cow::Borrowed(&schedule.name),
        tenant_id: Cow::Borrowed(&schedule.tenant),
        cron,
        every_seconds: every.map(|(seconds, _)| seconds),
        anchor: text(every.map(|(_, anchor)| anchor)),
        timezone: definition.plan.zone.name().into(),
        task: Cow::Borrowed(task),
        overlap: definition.overlap.word().into(),
        catch_up: definition.catch_up.word().into(),
        catch_up_window_seconds: definition.catch_up_window.as_secs(),
        jitter_seconds: definition.jitter.as_secs(),
        start_at: text(definition.plan.start_at),
        end_at: text(definition.plan.end_at),
        paused: progress.is_paused,
        note: progress.note.as_deref().map(Into::into),
        next_at: text(progress.next_at),
        last_at: text(progress.last_at),
        last_task_id: progress.last_task.map(|id| id.to_string()),
        missed: progress.missed,
        skipped: progress.skipped,
        created_at: schedule.created_at.to_utc(),
        updated_at: schedule.updated_at.to_utc(),
    }
}
