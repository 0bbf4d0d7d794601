//! Tasks as a producer creates them, and what it gets back.

use crate::time::{rfc3339, whole_seconds};
use crate::{Error, Unique, http};
use codeq_api::grpc::producer::CreateTask;
use codeq_api::task::{CreateBody, Headers, ResultRecord};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::{Duration, SystemTime};

/// A task as the server shows it.
pub type Task = codeq_api::task::Task<'static>;

/// A task to be created.
///
/// ```
/// use codeq_client::NewTask;
/// use std::time::Duration;
///
/// #[derive(serde::Serialize)]
/// struct RenderVideo { video: u64 }
///
/// let task = NewTask::new("render_video", &RenderVideo { video: 7 })
///     .priority(5)
///     .header("origin", "upload")
///     .max_attempts(3)
///     .delay(Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
pub struct NewTask {
    command: String,
    payload: Result<Box<RawValue>, Error>,
    priority: i32,
    webhook: Option<String>,
    headers: Vec<(String, String)>,
    max_attempts: i32,
    pub(crate) idempotency_key: Option<String>,
    run_at: Option<SystemTime>,
    delay: Duration,
    lane: Option<String>,
    tags: Vec<String>,
    unique: Option<Unique>,
    expires_in: Option<Duration>,
    expires_at: Option<SystemTime>,
    max_run: Option<Duration>,
    after: Vec<String>,
    runs_after_failure: bool,
    batch: Option<String>,
}

impl NewTask {
    /// A task with a payload that serde can write. If it cannot, the create fails.
    pub fn new(command: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> NewTask {
        let payload =
            serde_json::value::to_raw_value(payload).map_err(|error| Error::Json(error.to_string()));
        NewTask::with(command.into(), payload)
    }

    /// A task with a payload that is JSON text already; it is kept as it is.
    pub fn raw(command: impl Into<String>, payload: impl Into<String>) -> NewTask {
        let payload = RawValue::from_string(payload.into()).map_err(|error| Error::Json(error.to_string()));
        NewTask::with(command.into(), payload)
    }

    fn with(command: String, payload: Result<Box<RawValue>, Error>) -> NewTask {
        NewTask {
            command,
            payload,
            priority: 0,
            webhook: None,
            headers: Vec::new(),
            max_attempts: 0,
            idempotency_key: None,
            run_at: None,
            delay: Duration::ZERO,
            lane: None,
            tags: Vec::new(),
            unique: None,
            expires_in: None,
            expires_at: None,
            max_run: None,
            after: Vec::new(),
            runs_after_failure: false,
            batch: None,
        }
    }

    /// 0 to 9; 9 is served first.
    pub fn priority(mut self, priority: u8) -> NewTask {
        self.priority = priority.into();
        self
    }

    /// Where the server posts the result.
    pub fn webhook(mut self, url: impl Into<String>) -> NewTask {
        self.webhook = Some(url.into());
        self
    }

    /// Small metadata that travels with the task; at most 16.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> NewTask {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Deliveries before the task becomes a dead letter.
    pub fn max_attempts(mut self, attempts: u32) -> NewTask {
        self.max_attempts = i32::try_from(attempts).unwrap_or(i32::MAX);
        self
    }

    /// All creates with this key, command and tenant make one task. Without it the SDK makes up a key
    /// for every call, so that its own repetitions create once; a second call creates a second task.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> NewTask {
        self.idempotency_key = Some(key.into());
        self
    }

    /// The task becomes ready at this instant. Takes precedence over a delay.
    pub fn run_at(mut self, at: SystemTime) -> NewTask {
        self.run_at = Some(at);
        self
    }

    /// Delay before the task becomes ready, in whole seconds, rounded up.
    pub fn delay(mut self, delay: Duration) -> NewTask {
        self.delay = delay;
        self
    }

    /// Tasks of one lane share fairness, limits and, where asked, order.
    pub fn lane(mut self, lane: impl Into<String>) -> NewTask {
        self.lane = Some(lane.into());
        self
    }

    /// A label to find the task by; at most 8.
    pub fn tag(mut self, tag: impl Into<String>) -> NewTask {
        self.tags.push(tag.into());
        self
    }

    /// Of all tasks of the command with this key, one lives at a time.
    pub fn unique(mut self, unique: Unique) -> NewTask {
        self.unique = Some(unique);
        self
    }

    /// A task that nobody has claimed within this time fails with `EXPIRED`. In whole seconds, rounded up.
    pub fn expires_in(mut self, time: Duration) -> NewTask {
        self.expires_in = Some(time);
        self
    }

    /// As [`NewTask::expires_in`], as an instant.
    pub fn expires_at(mut self, at: SystemTime) -> NewTask {
        self.expires_at = Some(at);
        self
    }

    /// The longest run of one attempt. In whole seconds, rounded up.
    pub fn max_run(mut self, time: Duration) -> NewTask {
        self.max_run = Some(time);
        self
    }

    /// A task or a batch that has to end first.
    pub fn after(mut self, id: impl Into<String>) -> NewTask {
        self.after.push(id.into());
        self
    }

    /// Lets the task run also when something it waits for fails; otherwise it is cancelled then.
    pub fn run_after_failure(mut self) -> NewTask {
        self.runs_after_failure = true;
        self
    }

    /// The batch that the task joins.
    pub fn batch(mut self, id: impl Into<String>) -> NewTask {
        self.batch = Some(id.into());
        self
    }

    pub(crate) fn inline(&self) -> Result<InlineFields, Error> {
        Ok(InlineFields {
            command: self.command.clone(),
            payload: self.payload.as_ref().map_err(Clone::clone)?.get().to_owned(),
            priority: u8::try_from(self.priority).unwrap_or_default(),
            headers: self.headers.clone(),
            max_attempts: u32::try_from(self.max_attempts).ok().filter(|attempts| *attempts > 0),
            idempotency_key: self.idempotency_key.clone(),
            delay: match self.run_at {
                Some(at) => at.duration_since(SystemTime::now()).unwrap_or_default(),
                None => self.delay,
            },
            lane: self.lane.clone().unwrap_or_default(),
            tags: self.tags.clone(),
        })
    }

    pub(crate) fn is_null(&self) -> bool {
        self.payload.as_ref().is_ok_and(|payload| payload.get().trim() == "null")
    }

    /// The body of a create over HTTP.
    pub(crate) fn body(&self) -> Result<String, Error> {
        let payload = self.payload.as_ref().map_err(Clone::clone)?;
        let delay = whole_seconds(self.delay);
        let seconds = |time: Option<Duration>| time.map(|time| whole_seconds(time).max(1));
        #[allow(clippy::needless_update, reason = "fields that the body gains later are not set here")]
        let body = CreateBody {
            command: Some(self.command.clone()),
            payload: Some(payload),
            priority: Some(self.priority.into()),
            webhook: self.webhook.clone(),
            headers: (!self.headers.is_empty()).then(|| Headers(self.headers.clone())),
            max_attempts: (self.max_attempts > 0).then_some(self.max_attempts.into()),
            idempotency_key: self.idempotency_key.clone(),
            run_at: self.run_at.map(rfc3339),
            delay_seconds: (delay > 0).then_some(delay),
            lane: self.lane.clone(),
            tags: (!self.tags.is_empty()).then(|| self.tags.clone()),
            unique: self.unique.as_ref().map(Unique::body),
            expire_seconds: seconds(self.expires_in),
            expires_at: self.expires_at.map(rfc3339),
            max_run_seconds: seconds(self.max_run),
            ..CreateBody::default()
        };
        let on_dependency_failure = self.runs_after_failure.then_some("run");
        http::json(&DependentBody { body, after: &self.after, on_dependency_failure, batch_id: &self.batch })
    }

    /// The create over a stream; the number is filled in there.
    pub(crate) fn message(&self) -> Result<CreateTask, Error> {
        let payload = self.payload.as_ref().map_err(Clone::clone)?;
        Ok(CreateTask {
            command: self.command.clone(),
            payload: payload.get().as_bytes().to_vec().into(),
            priority: self.priority,
            webhook: self.webhook.clone().unwrap_or_default(),
            max_attempts: self.max_attempts,
            idempotency_key: self.idempotency_key.clone().unwrap_or_default(),
            run_at: self.run_at.map(prost_types::Timestamp::from),
            delay_seconds: i32::try_from(whole_seconds(self.delay)).unwrap_or(i32::MAX),
            headers: self.headers.iter().cloned().collect(),
            lane: self.lane.clone().unwrap_or_default(),
            unique: self.unique.as_ref().map(Unique::message),
            expires_at: self.expires_at.map(prost_types::Timestamp::from),
            expire_seconds: self.expires_in.map_or(0, |time| whole_seconds(time).max(1)),
            after: self.after.clone(),
            on_dependency_failure: if self.runs_after_failure { "run".to_owned() } else { String::new() },
            batch_id: self.batch.clone().unwrap_or_default(),
            tags: self.tags.clone(),
            max_run_seconds: self
                .max_run
                .map_or(0, |time| i32::try_from(whole_seconds(time).max(1)).unwrap_or(i32::MAX)),
            ..CreateTask::default()
        })
    }
}

/// A create with what it waits for and belongs to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DependentBody<'a> {
    #[serde(flatten)]
    body: CreateBody<'a>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    after: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    on_dependency_failure: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: &'a Option<String>,
}

/// What a queue of a test keeps of a task.
pub(crate) struct InlineFields {
    pub command: String,
    pub payload: String,
    pub priority: u8,
    pub headers: Vec<(String, String)>,
    pub max_attempts: Option<u32>,
    pub idempotency_key: Option<String>,
    pub delay: Duration,
    pub lane: String,
    pub tags: Vec<String>,
}

/// The answer to a create: the task is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Created {
    /// For everything else that can be asked about the task.
    pub id: String,
    /// The idempotency key named a task that was there already.
    pub replayed: bool,
    /// The unique key was taken; this is its holder.
    pub deduplicated: bool,
}

/// The end of a task.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The task as it is now.
    pub task: Task,
    /// Whether it ended as COMPLETED; if not, it has failed.
    pub is_completed: bool,
    /// What the worker returned, a JSON object.
    pub result: Option<Box<RawValue>>,
    /// Why it failed.
    pub error: Option<String>,
    /// `MAX_ATTEMPTS`, `CANCELLED`, `EXPIRED` or `DEPENDENCY`, if it was not a worker that ended it.
    pub failure_reason: Option<String>,
    /// Names and where to read them.
    pub artifacts: Vec<(String, String)>,
}

impl Finished {
    /// The result as a type of yours. A task without one is read as `{}`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let text = self.result.as_ref().map_or("{}", |result| result.get());
        serde_json::from_str(text).map_err(|error| Error::Json(error.to_string()))
    }

    pub(crate) fn read(text: &str) -> Result<Finished, Error> {
        let FinishedBody { result, task } = http::parse(text)?;
        let artifacts = result.artifacts.into_iter();
        Ok(Finished {
            task,
            is_completed: result.status == "COMPLETED",
            result: result.result.map(std::borrow::Cow::into_owned),
            error: result.error.map(std::borrow::Cow::into_owned),
            failure_reason: result.failure_reason.map(std::borrow::Cow::into_owned),
            artifacts: artifacts.map(|a| (a.name.into_owned(), a.url.into_owned())).collect(),
        })
    }
}

/// As [`codeq_api::task::Finished`], with a task that outlives the text.
#[derive(Deserialize)]
struct FinishedBody<'a> {
    #[serde(borrow)]
    result: ResultRecord<'a>,
    task: Task,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_payload_is_sent_to_the_byte() {
        let task = NewTask::raw("c", r#"{"a" : 9007199254740993}"#).delay(Duration::from_millis(1));
        let body = r#"{"command":"c","payload":{"a" : 9007199254740993},"priority":0,"delaySeconds":1}"#;
        assert_eq!(task.body().unwrap(), body);
        assert_eq!(&task.message().unwrap().payload[..], br#"{"a" : 9007199254740993}"#);
    }

    #[test]
    fn both_transports_say_the_same() {
        let unique =
            Unique::new("k").lasting(Duration::from_secs(9)).replace().max_wait(Duration::from_secs(60));
        let task = NewTask::raw("c", "1").lane("l").tag("t").unique(unique).after("a").run_after_failure();
        let task = task.batch("b").expires_in(Duration::from_millis(1)).max_run(Duration::from_secs(5));
        let body = r#"{"command":"c","payload":1,"priority":0,"lane":"l","tags":["t"],"unique":{"key":"k","until":9,"onConflict":"replace","maxWaitSeconds":60},"expireSeconds":1,"maxRunSeconds":5,"after":["a"],"onDependencyFailure":"run","batchId":"b"}"#;
        assert_eq!(task.body().unwrap(), body);
        let message = task.message().unwrap();
        let unique = message.unique.unwrap();
        assert_eq!((&*message.lane, &*message.batch_id, message.expire_seconds), ("l", "b", 1));
        assert_eq!((&*message.on_dependency_failure, message.max_run_seconds), ("run", 5));
        assert_eq!((message.tags, message.after), (vec!["t".to_owned()], vec!["a".to_owned()]));
        assert_eq!((unique.until_seconds, &*unique.on_conflict, unique.max_wait_seconds), (9, "replace", 60));
    }

    #[test]
    fn a_payload_that_is_not_json_is_refused_before_it_is_sent() {
        let task = NewTask::raw("c", "{");
        assert!(matches!(task.body(), Err(Error::Json(_))) && matches!(task.message(), Err(Error::Json(_))));
    }

    #[test]
    fn a_result_is_read_as_a_type() {
        let text = r#"{"result":{"taskId":"i","status":"COMPLETED","result":{"n":7},"completedAt":""},
            "task":{"id":"i","status":"COMPLETED"}}"#;
        let finished = Finished::read(text).unwrap();
        let result: std::collections::HashMap<String, u32> = finished.json().unwrap();
        assert!(finished.is_completed && result["n"] == 7 && finished.task.id == "i");
    }
}
