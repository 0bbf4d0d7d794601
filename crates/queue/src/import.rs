//! Importing a task: a line from elsewhere is checked as if its parts had been created and submitted here.

use crate::create::{check_headers, check_key, check_trace, check_url};
use crate::limits;
use crate::options::{TaskOptions, UniqueRule, check_lane, check_tags, check_unique_key};
use crate::queue::check_command;
use crate::refusal::Refusal;
use crate::result::{ResultRecord, check_artifacts};
use crate::store::Import;
use crate::task::{Body, Task, check_checkpoint};
use std::sync::Arc;

impl Import {
    /// The import as it may be stored, or the first rule broken. Error texts are cut, as everywhere; whatever
    /// this server has made itself passes, however it is configured now.
    pub fn check(self) -> Result<Import, Refusal> {
        let Import { task, record } = self;
        if task.attempts > limits::IMPORTED_ATTEMPTS {
            return Err(Refusal::InvalidBody);
        }
        let body = Arc::new(check_body(&task.body)?);
        let error = task.error.as_deref().map(|text| limits::cut(text, limits::ERROR_BYTES).into());
        let checkpoint = task.checkpoint.as_deref().map(check_checkpoint).transpose()?;
        let refunds = task.refunds.min(task.attempts);
        let task = Task { body, error, refunds, checkpoint, progress: None, ..task };
        Ok(Import { task, record: record.map(check_record).transpose()? })
    }
}

fn check_body(body: &Body) -> Result<Body, Refusal> {
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
        options: body.options.as_deref().map(check_options).transpose()?.and_then(TaskOptions::boxed),
    })
}

fn check_options(options: &TaskOptions) -> Result<TaskOptions, Refusal> {
    if options.max_run.is_some_and(|longest| longest > limits::MAX_RUN) {
        return Err(Refusal::InvalidMaxRun);
    }
    let unique =
        |unique: &UniqueRule| Ok(UniqueRule { key: check_unique_key(&unique.key)?, ..unique.clone() });
    Ok(TaskOptions {
        lane: check_lane(options.lane.as_deref())?,
        tags: check_tags(&options.tags)?,
        unique: options.unique.as_ref().map(unique).transpose()?,
        expires_at: options.expires_at,
        max_run: options.max_run,
        accepted: None,
        after: options.after.iter().take(limits::DEPENDENCIES).copied().collect(),
        on_failure: options.on_failure,
        // Batches stay where they are.
        batch: None,
    })
}

fn check_record(record: ResultRecord) -> Result<ResultRecord, Refusal> {
    if record.result.as_ref().is_some_and(|text| text.len() > limits::RESULT_BYTES) {
        return Err(Refusal::PayloadTooLarge);
    }
    check_artifacts(&record.artifacts)?;
    let error = record.error.as_deref().map(|text| limits::cut(text, limits::ERROR_BYTES).into());
    Ok(ResultRecord { error, ..record })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{State, TaskId, Time};

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
        let sound = import(|_| {}).check().unwrap();
        assert_eq!(sound.task.refunds, 3);
        assert_eq!(sound.task.error.unwrap().len(), limits::ERROR_BYTES);
        let refused = |change: fn(&mut Body)| import(change).check().unwrap_err();
        assert_eq!(refused(|body| body.command = "no command".into()), Refusal::InvalidCommand);
        let huge = "x".repeat(limits::PAYLOAD_BYTES_MOST + 1);
        assert_eq!(import(|body| body.payload = huge.into()).check(), Err(Refusal::PayloadTooLarge));
        assert_eq!(refused(|body| body.webhook = Some("no url".into())), Refusal::InvalidWebhookUrl);
        let long = || format!("http://h/{}", "x".repeat(limits::URL_BYTES));
        assert_eq!(
            import(|body| body.webhook = Some(long().into())).check(),
            Err(Refusal::InvalidWebhookUrl)
        );
        let key = || "k".repeat(limits::IDEMPOTENCY_KEY_BYTES + 1);
        let keyed = import(|body| body.idempotency_key = Some(key().into()));
        assert_eq!(keyed.check(), Err(Refusal::IdempotencyKeyTooLong));
        let named = import(|body| body.headers = [("a b".to_owned(), String::new())].into());
        assert_eq!(named.check(), Err(Refusal::InvalidHeaders));
    }

    #[test]
    fn attempts_of_an_imported_task_are_bounded() {
        let mut many = import(|_| {});
        many.task.attempts = limits::IMPORTED_ATTEMPTS;
        assert!(many.clone().check().is_ok());
        many.task.attempts += 1;
        assert_eq!(many.check(), Err(Refusal::InvalidBody));
    }
}
