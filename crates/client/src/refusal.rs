//! From the codes and texts of the server to [`Error`].
//!
//! HTTP tells a status and a code, items of a batch a code, streams a text. The table says what belongs
//! together.

use crate::Error;

/// Text on a stream, code, status over HTTP.
const TABLE: [(&str, &str, u16); 26] = [
    ("command is required", "invalid_command", 400),
    ("invalid command", "invalid_command", 400),
    ("delaySeconds must be >= 0", "invalid_delay", 400),
    ("invalid 'delaySeconds' (must be <= 31622400)", "invalid_delay", 400),
    ("invalid 'runAt' (at most 366 days ahead)", "invalid_run_at", 400),
    ("invalid webhook url", "invalid_webhook_url", 400),
    ("invalid idempotencyKey (max 255 bytes)", "invalid_idempotency_key", 400),
    ("invalid headers", "invalid_headers", 400),
    ("invalid payload", "invalid_body", 400),
    ("invalid result_json", "invalid_body", 400),
    ("error required when status=FAILED", "error_required", 400),
    ("payload too large", "payload_too_large", 413),
    ("missing scope", "missing_scope", 403),
    ("event type not allowed", "event_type_not_allowed", 403),
    ("invalid tenant claims", "invalid_tenant", 403),
    ("storage unavailable", "storage_unavailable", 503),
    ("batch submit failed", "storage_unavailable", 503),
    ("shutting down", "shutting_down", 503),
    ("internal error", "internal", 500),
    ("lease-lost", "lease_lost", 409),
    ("cancelled", "cancelled", 409),
    ("not-in-progress", "not_in_progress", 409),
    ("not-owner", "not_owner", 403),
    ("not-found", "task_not_found", 404),
    ("task not found", "task_not_found", 404),
    ("workerId is required", "worker_id_required", 400),
];

/// What a stream says about an item.
pub(crate) fn from_text(text: &str) -> Error {
    let row = TABLE.iter().find(|(known, ..)| *known == text);
    let (code, status) = row.map_or(("refused", 400), |(_, code, status)| (*code, *status));
    classify(status, code, text)
}

/// What an item of an HTTP batch says.
pub(crate) fn from_code(code: &str, text: &str) -> Error {
    let status = TABLE.iter().find(|(_, known, _)| *known == code).map_or(400, |(.., status)| *status);
    classify(status, code, text)
}

pub(crate) fn classify(status: u16, code: &str, text: &str) -> Error {
    match status {
        401 => Error::Unauthorized { message: text.to_owned() },
        429 | 500.. => Error::unavailable(text),
        _ => Error::refused(status, code, text),
    }
}

/// How a stream, or the attempt to open one, ended.
pub(crate) fn from_status(status: &tonic::Status) -> Error {
    use tonic::Code;
    let refused = |status_code: u16, code: &str| Error::refused(status_code, code, status.message());
    match status.code() {
        Code::Unauthenticated => Error::Unauthorized { message: status.message().to_owned() },
        Code::PermissionDenied => refused(403, "invalid_tenant"),
        Code::InvalidArgument => refused(400, "worker_id_required"),
        Code::FailedPrecondition => refused(400, "invalid_body"),
        Code::Unimplemented => refused(404, "route_not_found"),
        _ => Error::broken(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_stream_gets_the_code_and_status_it_has_over_http() {
        let refused = from_text("payload too large");
        assert_eq!(refused.to_string(), "refused with 413 payload_too_large: payload too large");
        assert!(from_text("storage unavailable").is_retryable());
        assert!(from_text("internal error").is_retryable());
        assert_eq!(from_text("something new").code(), "refused");
    }

    #[test]
    fn items_of_a_batch_are_told_apart_by_their_code() {
        assert!(from_code("storage_unavailable", "batch submit failed").is_retryable());
        assert!(!from_code("invalid_headers", "invalid headers").is_retryable());
    }
}
