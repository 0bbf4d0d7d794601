//! Refusals and failures in the words of the streams.

use crate::broker::Error;
use codeq_queue::{Failure, Refusal};
use std::borrow::Cow;
use tonic::{Code, Status};

pub type Text = Cow<'static, str>;

/// Codes of a `ServerError`.
pub const FAILED_PRECONDITION: &str = "FailedPrecondition";
pub const INVALID_ARGUMENT: &str = "InvalidArgument";
pub const PERMISSION_DENIED: &str = "PermissionDenied";

pub const ALREADY_AUTHENTICATED: &str = "already-authenticated";
pub const UNKNOWN_EVENT: &str = "unknown-event";
pub const MISSING_SCOPE: &str = "missing scope";

/// Why a create was not done.
pub fn create(error: &Error) -> Text {
    match error {
        Error::Refused(Refusal::DelayNegative) => "delaySeconds must be >= 0".into(),
        error => plain(error),
    }
}

/// Why a result was not taken; `status` is what the worker said.
pub fn result(error: &Error, status: &str) -> Text {
    match error {
        Error::Refused(Refusal::NotFound) => "task not found".into(),
        Error::Refused(Refusal::InvalidStatus) => {
            format!("invalid status (must be COMPLETED or FAILED): \"{status}\"").into()
        }
        error => plain(error),
    }
}

/// Why anything else was not done.
pub fn plain(error: &Error) -> Text {
    match error {
        Error::Refused(refusal) => refusal.to_string().into(),
        Error::Failed(Failure::Unavailable { .. } | Failure::Closed) => "storage unavailable".into(),
        Error::Failed(Failure::Internal(_)) => "internal error".into(),
        Error::Upload(_) => error.to_string().into(),
    }
}

/// The `ServerError` of a Ready that cannot be served: code and message.
pub fn ready(refusal: &Refusal) -> (&'static str, String) {
    let code = match refusal {
        Refusal::EventTypeNotAllowed => PERMISSION_DENIED,
        _ => INVALID_ARGUMENT,
    };
    (code, refusal.to_string())
}

/// Tells of a failure once per call, whatever the number of its items.
pub fn log_failure<T>(items: &[Result<T, Error>]) {
    let failure = items.iter().find_map(|item| match item {
        Err(Error::Failed(failure)) => Some(failure),
        _ => None,
    });
    if let Some(failure) = failure {
        tracing::warn!(err = %failure, "a call of a stream failed");
    }
}

/// What broke while reading, as the client is told. The library calls a message over the limit out of
/// range; the rest of the gRPC world says resource exhausted.
pub fn transport(status: Status) -> Status {
    match status.code() {
        Code::OutOfRange => Status::resource_exhausted(status.message()),
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_and_failures_have_the_words_of_the_streams() {
        let refused = |refusal| Error::Refused(refusal);
        let down = Error::Failed(Failure::unavailable("disk full"));
        let table = [
            (create(&refused(Refusal::DelayNegative)), "delaySeconds must be >= 0"),
            (create(&refused(Refusal::InvalidCommand)), "invalid command"),
            (create(&refused(Refusal::PayloadTooLarge)), "payload too large"),
            (create(&down), "storage unavailable"),
            (create(&Error::Failed(Failure::Internal("x".into()))), "internal error"),
            (result(&refused(Refusal::NotFound), ""), "task not found"),
            (result(&refused(Refusal::Cancelled), ""), "cancelled"),
            (
                result(&refused(Refusal::InvalidStatus), "X"),
                "invalid status (must be COMPLETED or FAILED): \"X\"",
            ),
            (result(&Error::Failed(Failure::Closed), ""), "storage unavailable"),
            (plain(&refused(Refusal::NotFound)), "not-found"),
            (plain(&refused(Refusal::Cancelled)), "cancelled"),
            (plain(&refused(Refusal::NotOwner)), "not-owner"),
            (plain(&down), "storage unavailable"),
        ];
        for (text, expected) in table {
            assert_eq!(text, expected);
        }
        let invalid = ready(&Refusal::InvalidCommand);
        assert_eq!(invalid, ("InvalidArgument", "invalid command".to_owned()));
        let foreign = ready(&Refusal::EventTypeNotAllowed);
        assert_eq!(foreign, ("PermissionDenied", "event type not allowed".to_owned()));
    }
}
