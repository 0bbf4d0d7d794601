//! Errors on the wire: one place that gives every refusal and failure its status.

use crate::auth::Denied;
use crate::broker;
use crate::http::reply;
use crate::rate::RateScope;
use axum::http::header::{ALLOW, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use codeq_api::error::ErrorBody;
use codeq_queue::{Failure, Refusal};
use std::borrow::Cow;

/// What stands between a handler and its success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    pub status: StatusCode,
    pub code: &'static str,
    pub text: Cow<'static, str>,
    /// What broke; for the log, never for the caller.
    pub cause: Option<Failure>,
    extra: Extra,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Extra {
    None,
    RateLimit { scope: RateScope, operation: &'static str, retry_after_seconds: u64 },
    Field(Cow<'static, str>),
    Allow(HeaderValue),
}

impl Error {
    fn new(status: StatusCode, code: &'static str, text: impl Into<Cow<'static, str>>) -> Error {
        Error { status, code, text: text.into(), cause: None, extra: Extra::None }
    }

    pub fn route_not_found() -> Error {
        Error::new(StatusCode::NOT_FOUND, "route_not_found", "404 page not found")
    }

    pub fn method_not_allowed(allow: HeaderValue) -> Error {
        let error = Error::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "method not allowed");
        Error { extra: Extra::Allow(allow), ..error }
    }

    /// Only `codeq dev` refuses so.
    pub fn host_not_allowed() -> Error {
        let text =
            "codeq dev answers to localhost, 127.0.0.1 and [::1] only; use codeq serve for other names";
        Error::new(StatusCode::FORBIDDEN, "host_not_allowed", text)
    }

    pub fn body_too_large() -> Error {
        Error::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "request body too large")
    }

    pub fn shutting_down() -> Error {
        Error::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "shutting down")
    }

    /// The store is not open yet.
    pub fn starting() -> Error {
        Error::new(StatusCode::SERVICE_UNAVAILABLE, "storage_unavailable", "storage unavailable")
    }

    /// More bytes are in flight than the server, the tenant or the token may have.
    pub fn overfull() -> Error {
        Error::new(StatusCode::SERVICE_UNAVAILABLE, "storage_unavailable", "too many bytes in flight")
    }

    pub fn rate_limited(scope: RateScope, operation: &'static str, retry_after_seconds: u64) -> Error {
        let error = Error::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "rate limit exceeded");
        Error { extra: Extra::RateLimit { scope, operation, retry_after_seconds }, ..error }
    }

    /// The same error in the words of a route that has its own for this code.
    pub fn saying(self, code: &str, text: impl Into<Cow<'static, str>>) -> Error {
        match self.code == code {
            true => Error { text: text.into(), ..self },
            false => self,
        }
    }

    pub fn respond(&self, request_id: &str) -> Response {
        let mut body = ErrorBody {
            error: Cow::Borrowed(&self.text),
            code: Cow::Borrowed(self.code),
            request_id: Cow::Borrowed(request_id),
            ..ErrorBody::default()
        };
        match &self.extra {
            Extra::RateLimit { scope, operation, retry_after_seconds } => {
                body.scope = Some(scope.word().into());
                body.operation = Some((*operation).into());
                body.retry_after_seconds = Some(*retry_after_seconds);
            }
            Extra::Field(field) => body.field = Some(field.clone()),
            Extra::None | Extra::Allow(_) => {}
        }
        let mut response = reply::json(self.status, &body);
        let headers = response.headers_mut();
        match &self.extra {
            Extra::Allow(allow) => drop(headers.insert(ALLOW, allow.clone())),
            Extra::RateLimit { retry_after_seconds, .. } => {
                headers.insert(RETRY_AFTER, HeaderValue::from(*retry_after_seconds));
            }
            _ if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(1));
            }
            _ => {}
        }
        response
    }
}

impl From<broker::Error> for Error {
    fn from(error: broker::Error) -> Error {
        match error {
            broker::Error::Refused(refusal) => refusal.into(),
            broker::Error::Failed(failure) => failure.into(),
            broker::Error::Upload(_) => {
                Error::new(StatusCode::SERVICE_UNAVAILABLE, "storage_unavailable", error.to_string())
            }
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let error = match failure {
            Failure::Closed => return Error::shutting_down(),
            Failure::Unavailable { .. } => Error::starting(),
            Failure::Internal(_) => {
                Error::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error")
            }
        };
        Error { cause: Some(failure), ..error }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        let error = Error::new(status(&refusal), refusal.code(), refusal.to_string());
        match refusal {
            Refusal::InvalidTopic { field, .. }
            | Refusal::InvalidSchedule { field, .. }
            | Refusal::InvalidBatch { field, .. } => Error { extra: Extra::Field(field.into()), ..error },
            Refusal::InvalidPolicy { field, .. } | Refusal::PayloadInvalid { field, .. } => {
                Error { extra: Extra::Field(field.into()), ..error }
            }
            _ => error,
        }
    }
}

impl From<Denied> for Error {
    fn from(denied: Denied) -> Error {
        let status = StatusCode::from_u16(denied.status()).unwrap_or(StatusCode::UNAUTHORIZED);
        Error::new(status, denied.code(), denied.to_string())
    }
}

fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::NotFound
        | Refusal::SubscriptionNotFound
        | Refusal::DeliveryNotFound
        | Refusal::ResultNotFound
        | Refusal::ArtifactNotFound
        | Refusal::OperationNotFound
        | Refusal::ScheduleNotFound
        | Refusal::PolicyNotFound
        | Refusal::BatchNotFound
        | Refusal::TopicNotFound(_) => StatusCode::NOT_FOUND,
        Refusal::Cancelled
        | Refusal::LeaseLost
        | Refusal::NotInProgress
        | Refusal::AlreadyTerminal
        | Refusal::BackupElsewhere
        | Refusal::IdempotencyKeyTaken
        | Refusal::IdNotKept
        | Refusal::ScheduleCommandFixed
        | Refusal::QueueNotEmpty
        | Refusal::BatchClosed
        | Refusal::NotDelayed
        | Refusal::UniqueConflict
        | Refusal::NotDead => StatusCode::CONFLICT,
        Refusal::NotOwner | Refusal::EventTypeNotAllowed | Refusal::GroupNotAllowed => StatusCode::FORBIDDEN,
        Refusal::PayloadTooLarge | Refusal::ProgressTooLarge | Refusal::CheckpointTooLarge => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        Refusal::TooManyOperations(_)
        | Refusal::TooManyWaiting(_)
        | Refusal::TooManySchedules(_)
        | Refusal::TooManyPolicies(_)
        | Refusal::QueueFull
        | Refusal::TooManyBatches(_)
        | Refusal::TooManySubscriptions(_) => StatusCode::TOO_MANY_REQUESTS,
        Refusal::InvalidTopic { .. }
        | Refusal::InvalidSchedule { .. }
        | Refusal::InvalidPolicy { .. }
        | Refusal::InvalidBatch { .. }
        | Refusal::PayloadInvalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::NotSupported(_) => StatusCode::NOT_IMPLEMENTED,
        Refusal::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::InvalidBody
        | Refusal::InvalidCommand
        | Refusal::InvalidWebhookUrl
        | Refusal::InvalidRunAt
        | Refusal::RunAtTooFar
        | Refusal::DelayNegative
        | Refusal::DelayTooLong
        | Refusal::IdempotencyKeyTooLong
        | Refusal::IdempotencyKeysDiffer
        | Refusal::InvalidHeaders
        | Refusal::InvalidLane
        | Refusal::InvalidTags
        | Refusal::InvalidUnique(_)
        | Refusal::InvalidAfter(_)
        | Refusal::UnknownDependency(_)
        | Refusal::InvalidExpiry(_)
        | Refusal::InvalidMaxRun
        | Refusal::InvalidGrace
        | Refusal::InvalidHold(_)
        | Refusal::RefundWithoutDelay
        | Refusal::InvalidStatus
        | Refusal::ResultRequired
        | Refusal::ErrorRequired
        | Refusal::InvalidArtifact(_)
        | Refusal::InvalidSubscription(_)
        | Refusal::BatchTooLarge(_)
        | Refusal::CountTooLarge(_)
        | Refusal::WorkerIdRequired
        | Refusal::InvalidOrder
        | Refusal::InvalidWeights
        | Refusal::InvalidWorker(_)
        | Refusal::InvalidClock(_)
        | Refusal::WeightsWithoutFair
        | Refusal::InvalidBefore
        | Refusal::InvalidCursor
        | Refusal::InvalidFilter(_)
        | Refusal::ConfirmRequired
        | Refusal::DeletionPolicyRequired => StatusCode::BAD_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_documented_with_its_status_and_code() {
        let page = include_str!("../../../../docs/errors.md");
        let errors = [
            Error::route_not_found(),
            Error::method_not_allowed(HeaderValue::from_static("GET")),
            Error::body_too_large(),
            Error::host_not_allowed(),
            Error::overfull(),
            Error::shutting_down(),
            Error::rate_limited(RateScope::Worker, "claim", 3),
            Failure::unavailable("x").into(),
            Failure::Internal("x".into()).into(),
            Denied::MissingAuthorization.into(),
            Denied::InvalidAuthorization.into(),
            Denied::InvalidToken("invalid token".into()).into(),
            Denied::MissingEventTypes.into(),
            Denied::MissingScope.into(),
            Denied::ScopeNotGranted.into(),
            Denied::InvalidTenant.into(),
            Denied::AdminOnly.into(),
            Denied::Unavailable("x".into()).into(),
            Denied::NotConfigured("producer validator not configured").into(),
        ];
        for error in errors {
            let row = page.lines().find(|line| line.contains(&format!("| `{}` |", error.code)));
            let row = row.unwrap_or_else(|| panic!("docs/errors.md lacks {}", error.code));
            assert!(row.contains(error.status.as_str()), "{row} lacks {}", error.status);
        }
    }

    /// Generated clients refuse a code that the description does not name.
    #[test]
    fn every_documented_code_is_in_the_description() {
        let description = serde_json::from_str::<serde_json::Value>(codeq_api::OPENAPI).expect("it is JSON");
        let codes = description["components"]["schemas"]["ErrorCode"]["enum"].as_array().expect("codes");
        let rows = include_str!("../../../../docs/errors.md").lines().filter(|line| line.starts_with("| `"));
        for code in rows.filter_map(|row| row.split('`').nth(1)) {
            assert!(codes.iter().any(|known| known == code), "openapi.json lacks {code}");
        }
    }

    #[test]
    fn failures_say_when_to_come_back_and_keep_their_cause_to_themselves() {
        let error = Error::from(Failure::unavailable("/var/lib/codeq is full"));
        let response = error.respond("r");
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert!(!error.text.contains("codeq") && error.cause.is_some());
        let limited = Error::rate_limited(RateScope::Admin, "cleanup", 7).respond("r");
        assert_eq!(limited.headers()[RETRY_AFTER], "7");
    }

    /// Every 429 and 503 has `Retry-After`; that of too many operations at once had none, because only
    /// rate limits and 503 were thought of.
    #[test]
    fn every_answer_that_asks_to_come_back_says_when() {
        let error = Error::from(Refusal::TooManyOperations(8));
        assert_eq!(error.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(error.respond("r").headers()[RETRY_AFTER], "1");
    }
}
