//! Task options as they travel: in a create, and in the lines of an export.

use crate::stamp;
use codeq_api::task::{CreateBody, UniqueBody, UniqueUntil as Until};
use codeq_queue::options::{OptionsRequest, UniqueRequest};
use codeq_queue::{Refusal, TaskOptions, UniqueRule, UniqueUntil};
use std::time::Duration;

/// What a create asks for; the rules check it.
pub fn request(body: &CreateBody<'_>) -> Result<OptionsRequest, Refusal> {
    let expires_at = match body.expires_at.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => Some(stamp::parse(text).ok_or(Refusal::InvalidExpiry("'expiresAt' must be RFC3339"))?),
        None => None,
    };
    Ok(OptionsRequest {
        lane: body.lane.clone(),
        tags: body.tags.clone().unwrap_or_default(),
        unique: body.unique.clone().map(unique_request),
        expires_at,
        expire_seconds: body.expire_seconds,
        max_run_seconds: body.max_run_seconds,
        after: body.after.clone().unwrap_or_default(),
        on_dependency_failure: body.on_dependency_failure.clone(),
        batch_id: body.batch_id.clone(),
    })
}

fn unique_request(body: UniqueBody) -> UniqueRequest {
    let (until, until_seconds) = match body.until {
        None => (None, None),
        Some(Until::Word(word)) => (Some(word), None),
        Some(Until::Seconds(seconds)) => (None, Some(seconds)),
    };
    UniqueRequest {
        key: body.key,
        until,
        until_seconds,
        on_conflict: body.on_conflict,
        max_wait_seconds: body.max_wait_seconds,
    }
}

/// A unique rule whole, for an export.
pub fn unique_body(rule: &UniqueRule) -> UniqueBody {
    UniqueBody {
        key: rule.key.to_string(),
        until: Some(match rule.until {
            UniqueUntil::Started => Until::Word("started".into()),
            UniqueUntil::Ended => Until::Word("ended".into()),
            UniqueUntil::For(life) => Until::Seconds(seconds(life)),
        }),
        on_conflict: Some(rule.on_conflict.word().into()),
        max_wait_seconds: rule.max_wait.map(seconds),
    }
}

pub fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// The options of an exported task. Its instants may have passed.
pub fn imported(line: &codeq_api::admin::ExportedTask<'_>) -> Result<Option<Box<TaskOptions>>, Refusal> {
    let request = OptionsRequest {
        lane: Some(line.task.lane.to_string()),
        tags: line.task.tags.iter().map(|tag| tag.to_string()).collect(),
        unique: line.more.unique.clone().map(unique_request),
        expires_at: None,
        expire_seconds: None,
        max_run_seconds: line.more.max_run_seconds,
        after: line.task.after.iter().map(|id| id.to_string()).collect(),
        on_dependency_failure: line.more.on_dependency_failure.clone(),
        // Batches stay where they are.
        batch_id: None,
    };
    let mut options = request.check(codeq_queue::Time::ZERO)?.map(|boxed| *boxed).unwrap_or_default();
    options.expires_at = match &*line.task.expires_at {
        "" => None,
        text => Some(stamp::parse(text).ok_or(Refusal::InvalidExpiry("'expiresAt' must be RFC3339"))?),
    };
    Ok(options.boxed())
}
