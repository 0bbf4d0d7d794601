//! Importing a task: a line from elsewhere is checked as if its parts had been created and submitted here.

use crate::create::{check_headers, check_key, check_trace, check_url};
use crate::limits;
use crate::options::{TaskOptions, UniqueRule, UniqueUntil, check_lane, check_tags, check_unique_key};
use crate::queue::check_command;
use crate::refusal::Refusal;
use crate::result::{ResultRecord, check_artifacts};
use crate::store::Import;
use crate::task::{Body, State, Task, check_checkpoint};
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

impl Import {
    /// The import as it may be stored, or the first rule broken. Error texts are cut, as everywhere; whatever
    /// this server has made itself passes, however it is configured now. `now` is the instant of the import: what has
    /// happened has happened before it, and what is to happen is no further ahead than a create may ask for.
    pub fn check(self, now: Time) -> Result<Import, Refusal> {
        let Import { task, record } = self;
        if task.attempts > limits::IMPORTED_ATTEMPTS {
            return Err(Refusal::InvalidBody);
        }
        if matches!(task.state, State::Delayed { until } if until.since(now) > limits::DELAY) {
            return Err(Refusal::InvalidRunAt);
        }
        let body = Arc::new(check_body(&task.body, now)?);
        let error = task.error.as_deref().map(|text| limits::cut(text, limits::ERROR_BYTES).into());
        let checkpoint = task.checkpoint.as_deref().map(check_checkpoint).transpose()?;
        let refunds = task.refunds.min(task.attempts);
        let (created_at, updated_at) = (past(task.created_at, now), past(task.updated_at, now));
        let priority = task.priority.min(limits::PRIORITY_MAX);
        let task = Task {
            body,
            priority,
            error,
            refunds,
            max_attempts: task.max_attempts.max(1),
            checkpoint,
            progress: None,
            created_at,
            updated_at,
            ..task
        };
        Ok(Import { task, record: record.map(|record| check_record(record, now)).transpose()? })
    }
}

/// An instant that is over. Zero and below stand for no instant where tasks are kept as text.
fn past(at: Time, now: Time) -> Time {
    at.min(now).max(Time::from_millis(1))
}

fn check_body(body: &Body, now: Time) -> Result<Body, Refusal> {
    let command = check_command(&body.command)?.into();
    if body.payload.len() > limits::PAYLOAD_BYTES_MOST {
        return Err(Refusal::PayloadTooLarge);
    }
    check_headers(&body.headers)?;
    let (trace_parent, trace_state) = check_trace(body.trace_parent.as_deref(), body.trace_state.as_deref());
    Ok(Body {
        tenant: body.tenant.clone(),
        command,
        payload: body.payload.clone(),
        webhook: check_url(body.webhook.as_deref()).map_err(|_| Refusal::InvalidWebhookUrl)?,
        headers: body.headers.clone(),
        idempotency_key: check_key(body.idempotency_key.as_deref())?,
        trace_parent,
        trace_state,
        options: body
            .options
            .as_deref()
            .map(|options| check_options(options, now))
            .transpose()?
            .and_then(TaskOptions::boxed),
    })
}

fn check_options(options: &TaskOptions, now: Time) -> Result<TaskOptions, Refusal> {
    if options.max_run.is_some_and(|longest| longest > limits::MAX_RUN) {
        return Err(Refusal::InvalidMaxRun);
    }
    if options.expires_at.is_some_and(|at| at.since(now) > limits::DELAY) {
        return Err(Refusal::InvalidExpiry("'expiresAt' may be at most 366 days ahead"));
    }
    let is_long = |life: Duration| life > limits::DELAY;
    let unique = |unique: &UniqueRule| {
        let is_for_long = matches!(unique.until, UniqueUntil::For(life) if is_long(life));
        match is_for_long || unique.max_wait.is_some_and(is_long) {
            true => Err(Refusal::InvalidUnique("seconds must be between 1 and 31622400")),
            false => Ok(UniqueRule { key: check_unique_key(&unique.key)?, ..unique.clone() }),
        }
    };
    Ok(TaskOptions {
        lane: check_lane(options.lane.as_deref())?,
        tags: check_tags(&options.tags)?,
        unique: options.unique.as_ref().map(unique).transpose()?,
        expires_at: options.expires_at.map(|at| at.max(Time::from_millis(1))),
        max_run: options.max_run,
        accepted: None,
        after: options.after.iter().take(limits::DEPENDENCIES).copied().collect(),
        on_failure: options.on_failure,
        // Batches stay where they are.
        batch: None,
    })
}

fn check_record(record: ResultRecord, now: Time) -> Result<ResultRecord, Refusal> {
    if record.result.as_ref().is_some_and(|text| text.len() > limits::RESULT_BYTES) {
        return Err(Refusal::PayloadTooLarge);
    }
    check_artifacts(&record.artifacts)?;
    let error = record.error.as_deref().map(|text| limits::cut(text, limits::ERROR_BYTES).into());
    Ok(ResultRecord { error, completed_at: past(record.completed_at, now), ..record })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskId;
    use crate::result::Status;

    const NOW: Time = Time::from_millis(1_000_000_000_000);

    fn import(change: impl FnOnce(&mut Body)) -> Import {
        let mut body = Body {
            tenant: "t".into(),
            command: "c".into(),
            payload: "{}".into(),
            webhook: None,
            headers: Box::new([]),
            idempotency_key: None,
            trace_parent: None,
            trace_state: None,
            options: None,
        };
        change(&mut body);
        let task = Task {
            id: TaskId::from_bits(1),
            body: Arc::new(body),
            priority: 0,
            state: State::Ready { seq: 0 },
            attempts: 3,
            refunds: 9,
            max_attempts: 5,
            error: Some("é".repeat(limits::ERROR_BYTES).into()),
            checkpoint: None,
            progress: None,
            created_at: Time::ZERO,
            updated_at: Time::ZERO,
        };
        Import { task, record: None }
    }

    #[test]
    fn an_imported_task_obeys_the_rules_of_a_created_one() {
        let sound = import(|_| {}).check(NOW).unwrap();
        assert_eq!(sound.task.refunds, 3);
        assert_eq!(sound.task.error.unwrap().len(), limits::ERROR_BYTES);
        let refused = |change: fn(&mut Body)| import(change).check(NOW).unwrap_err();
        assert_eq!(refused(|body| body.command = "no command".into()), Refusal::InvalidCommand);
        let huge = "x".repeat(limits::PAYLOAD_BYTES_MOST + 1);
        assert_eq!(import(|body| body.payload = huge.into()).check(NOW), Err(Refusal::PayloadTooLarge));
        assert_eq!(refused(|body| body.webhook = Some("no url".into())), Refusal::InvalidWebhookUrl);
        let long = || format!("http://h/{}", "x".repeat(limits::URL_BYTES));
        assert_eq!(
            import(|body| body.webhook = Some(long().into())).check(NOW),
            Err(Refusal::InvalidWebhookUrl)
        );
        let key = || "k".repeat(limits::IDEMPOTENCY_KEY_BYTES + 1);
        let keyed = import(|body| body.idempotency_key = Some(key().into()));
        assert_eq!(keyed.check(NOW), Err(Refusal::IdempotencyKeyTooLong));
        let named = import(|body| body.headers = [("a b".to_owned(), String::new())].into());
        assert_eq!(named.check(NOW), Err(Refusal::InvalidHeaders));
    }

    #[test]
    fn attempts_of_an_imported_task_are_bounded() {
        let mut many = import(|_| {});
        many.task.attempts = limits::IMPORTED_ATTEMPTS;
        assert!(many.clone().check(NOW).is_ok());
        many.task.attempts += 1;
        assert_eq!(many.check(NOW), Err(Refusal::InvalidBody));
    }

    /// A result of the year 9999 was never removed, and a task of that year was held for ever.
    #[test]
    fn instants_of_an_imported_task_are_those_that_a_create_could_have_made() {
        let far = NOW.plus(limits::DELAY).plus(Duration::from_millis(1));
        let with = |change: fn(&mut Import)| {
            let mut import = import(|_| {});
            change(&mut import);
            import.check(NOW)
        };
        assert!(with(|import| import.task.state = State::Delayed { until: NOW.plus(limits::DELAY) }).is_ok());
        let mut late = import(|_| {});
        late.task.state = State::Delayed { until: far };
        assert_eq!(late.check(NOW), Err(Refusal::InvalidRunAt));
        let mut moved = import(|_| {});
        (moved.task.created_at, moved.task.updated_at) = (Time::from_millis(-5), far);
        let completed_at = far;
        let record = ResultRecord {
            status: Status::Completed,
            result: None,
            error: None,
            failure_reason: None,
            artifacts: Vec::new(),
            completed_at,
        };
        moved.record = Some(record);
        let sound = moved.check(NOW).unwrap();
        assert_eq!((sound.task.created_at, sound.task.updated_at), (Time::from_millis(1), NOW));
        assert_eq!(sound.record.unwrap().completed_at, NOW);
        let optional = |options: TaskOptions| import(|body| body.options = options.boxed()).check(NOW);
        assert!(
            optional(TaskOptions { expires_at: Some(NOW.plus(limits::DELAY)), ..Default::default() }).is_ok()
        );
        let expires = optional(TaskOptions { expires_at: Some(far), ..Default::default() });
        assert!(matches!(expires, Err(Refusal::InvalidExpiry(_))));
        let unique = |until: UniqueUntil, max_wait: Option<Duration>| {
            let on_conflict = crate::OnConflict::Keep;
            let rule = UniqueRule { key: "k".into(), until, on_conflict, max_wait };
            optional(TaskOptions { unique: Some(rule), ..Default::default() })
        };
        let long = limits::DELAY + Duration::from_secs(1);
        assert!(unique(UniqueUntil::For(limits::DELAY), Some(limits::DELAY)).is_ok());
        for (until, wait) in [(UniqueUntil::For(long), None), (UniqueUntil::Ended, Some(long))] {
            assert!(matches!(unique(until, wait), Err(Refusal::InvalidUnique(_))));
        }
    }
}
