//! How a handler ends a job.

use crate::time::whole_seconds;
use serde::Serialize;
use serde_json::value::RawValue;
use std::fmt::Display;
use std::time::Duration;

/// What becomes of the task.
#[derive(Clone, Debug)]
pub struct Outcome(pub(crate) End);

#[derive(Clone, Debug)]
pub(crate) enum End {
    Complete(Box<RawValue>),
    Fail(String),
    Nack { reason: String, delay_seconds: i64, hold: Option<Hold> },
    Abandon { refund: bool },
}

/// What a nack keeps back besides the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Everything else of the task's lane.
    Lane,
    /// Everything else of the task's queue.
    Queue,
}

impl Hold {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Hold::Lane => "lane",
            Hold::Queue => "queue",
        }
    }
}

impl Outcome {
    /// The task is done. The server keeps results that are objects: nothing (`()`, `None`) becomes `{}`, and
    /// anything else that is not an object becomes `{"value": ...}`.
    pub fn complete(result: impl Serialize) -> Outcome {
        match object(&result) {
            Ok(result) => Outcome(End::Complete(result)),
            Err(error) => Outcome::fail(format!("the result cannot be written as JSON: {error}")),
        }
    }

    /// The task has failed for good; it is not tried again.
    pub fn fail(text: impl Into<String>) -> Outcome {
        let text = text.into();
        let is_blank = text.trim().is_empty();
        Outcome(End::Fail(if is_blank { "failed without a reason".into() } else { text }))
    }

    /// The task is to be tried again, after a pause by the policy of the server; if this was its last attempt
    /// it becomes a dead letter.
    pub fn nack(reason: impl Into<String>) -> Outcome {
        Outcome(End::Nack { reason: reason.into(), delay_seconds: 0, hold: None })
    }

    /// Sets the pause of a nack; in whole seconds, rounded up. Nothing else has one.
    pub fn after(mut self, delay: Duration) -> Outcome {
        if let End::Nack { delay_seconds, .. } = &mut self.0 {
            *delay_seconds = whole_seconds(delay);
        }
        self
    }

    /// Keeps the lane or the queue of a nack back until its pause is over, and the attempt does not count: for a
    /// service that asks to be left alone for a while. Needs [`Outcome::after`]; the least is a second.
    pub fn hold(mut self, what: Hold) -> Outcome {
        if let End::Nack { delay_seconds, hold, .. } = &mut self.0 {
            *hold = Some(what);
            *delay_seconds = (*delay_seconds).max(1);
        }
        self
    }

    /// The task goes back to the end of its queue at once. The attempt counts.
    pub fn abandon() -> Outcome {
        Outcome(End::Abandon { refund: false })
    }

    /// For a line in a log: `completed`, `failed`, `retried` or `given back`.
    pub fn name(&self) -> &'static str {
        match self.0 {
            End::Complete(_) => "completed",
            End::Fail(_) => "failed",
            End::Nack { .. } => "retried",
            End::Abandon { .. } => "given back",
        }
    }

    /// Like an abandon, but the attempt does not count.
    pub(crate) fn refund() -> Outcome {
        Outcome(End::Abandon { refund: true })
    }
}

fn object(result: &impl Serialize) -> serde_json::Result<Box<RawValue>> {
    let text = serde_json::to_string(result)?;
    RawValue::from_string(match text.as_bytes() {
        b"null" => "{}".to_owned(),
        [b'{', ..] => text,
        _ => format!("{{\"value\":{text}}}"),
    })
}

/// What a handler may return: an [`Outcome`], or a `Result` whose `Ok` completes the task and whose `Err` is
/// the reason of a nack.
pub trait IntoOutcome {
    /// What the worker reports.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<T: Serialize, E: Display> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(result) => Outcome::complete(result),
            // The other form of an error shows its causes, where there is one.
            Err(error) => Outcome::nack(format!("{error:#}")),
        }
    }
}

impl<E: Display> IntoOutcome for Result<Outcome, E> {
    fn into_outcome(self) -> Outcome {
        self.unwrap_or_else(|error| Outcome::nack(format!("{error:#}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(outcome: Outcome) -> String {
        match outcome.0 {
            End::Complete(result) => result.get().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn results_are_objects() {
        assert_eq!(completed(Outcome::complete(())), "{}");
        assert_eq!(completed(Outcome::complete(serde_json::json!({"a": 1}))), r#"{"a":1}"#);
        assert_eq!(completed(Outcome::complete([1, 2])), r#"{"value":[1,2]}"#);
        assert_eq!(completed(Ok::<_, String>("x").into_outcome()), r#"{"value":"x"}"#);
    }

    #[test]
    fn an_error_is_a_reason_to_try_again() {
        let outcome = Err::<(), _>("no luck").into_outcome().after(Duration::from_millis(1500));
        assert!(
            matches!(outcome.0, End::Nack { reason, delay_seconds: 2, hold: None } if reason == "no luck")
        );
        let outcome = Ok::<_, String>(Outcome::abandon()).into_outcome();
        assert!(matches!(outcome.0, End::Abandon { refund: false }));
    }

    #[test]
    fn a_hold_has_a_pause() {
        let outcome = Outcome::nack("busy").hold(Hold::Lane);
        assert!(matches!(outcome.0, End::Nack { delay_seconds: 1, hold: Some(Hold::Lane), .. }));
        let outcome = Outcome::nack("busy").hold(Hold::Queue).after(Duration::from_secs(30));
        assert!(matches!(outcome.0, End::Nack { delay_seconds: 30, hold: Some(Hold::Queue), .. }));
    }

    #[test]
    fn a_failure_always_has_a_text() {
        assert!(matches!(Outcome::fail(" ").0, End::Fail(text) if text == "failed without a reason"));
    }
}
