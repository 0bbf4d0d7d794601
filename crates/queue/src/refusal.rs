//! The two ways to get no: a refusal (we are well, the answer is no) and a failure (something broke).

use thiserror::Error;

/// We are well and the answer is no. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    #[error("not-found")]
    NotFound,
    #[error("cancelled")]
    Cancelled,
    #[error("lease-lost")]
    LeaseLost,
    #[error("not-in-progress")]
    NotInProgress,
    #[error("not-owner")]
    NotOwner,
    /// An operator's cancel came after the end.
    #[error("not-in-progress")]
    AlreadyTerminal,
    /// An operator's requeue or delete of something that is not a dead letter.
    #[error("not a dead letter")]
    NotDead,
    #[error("invalid body")]
    InvalidBody,
    #[error("invalid command")]
    InvalidCommand,
    #[error("invalid webhook url")]
    InvalidWebhookUrl,
    #[error("invalid 'runAt' (use RFC3339)")]
    InvalidRunAt,
    #[error("invalid 'runAt' (at most 366 days ahead)")]
    RunAtTooFar,
    #[error("invalid 'delaySeconds' (must be >= 0)")]
    DelayNegative,
    #[error("invalid 'delaySeconds' (must be <= 31622400)")]
    DelayTooLong,
    #[error("invalid idempotencyKey (max 255 bytes)")]
    IdempotencyKeyTooLong,
    #[error("idempotencyKey and Idempotency-Key differ")]
    IdempotencyKeysDiffer,
    #[error("invalid headers")]
    InvalidHeaders,
    #[error("payload too large")]
    PayloadTooLarge,
    #[error("invalid status")]
    InvalidStatus,
    #[error("result required when status=COMPLETED")]
    ResultRequired,
    #[error("error required when status=FAILED")]
    ErrorRequired,
    #[error("{0}")]
    InvalidArtifact(String),
    #[error("{0}")]
    InvalidSubscription(&'static str),
    #[error("not-found")]
    SubscriptionNotFound,
    #[error("invalid {field}: {message}")]
    InvalidTopic { field: &'static str, message: &'static str },
    #[error("not-found")]
    DeliveryNotFound,
    #[error("batch size exceeds maximum of {0}")]
    BatchTooLarge(usize),
    #[error("count exceeds maximum of {0}")]
    CountTooLarge(usize),
    #[error("workerId is required")]
    WorkerIdRequired,
    #[error("event type not allowed")]
    EventTypeNotAllowed,
    #[error("groupId not allowed")]
    GroupNotAllowed,
    /// The task has not ended.
    #[error("result not found")]
    ResultNotFound,
    #[error("artifact not found")]
    ArtifactNotFound,
    #[error("invalid 'before' (use RFC3339)")]
    InvalidBefore,
    #[error("queue topic \"{0}\" not found")]
    TopicNotFound(String),
    #[error("deletionPolicy=Delete is required")]
    DeletionPolicyRequired,
    #[error("invalid cursor")]
    InvalidCursor,
    #[error("{0}")]
    InvalidFilter(String),
    #[error("confirm=true is required")]
    ConfirmRequired,
    #[error("operation not found")]
    OperationNotFound,
    #[error("too many operations are running (max {0})")]
    TooManyOperations(usize),
    /// The store has its own means.
    #[error("this store is backed up by its own means")]
    BackupElsewhere,
    /// An import whose key names another task here.
    #[error("idempotencyKey names another task")]
    IdempotencyKeyTaken,
    /// An import whose id this store cannot keep.
    #[error("the id cannot be kept by this store")]
    IdNotKept,
}

impl Refusal {
    /// The stable code a program can act on.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::NotFound => "task_not_found",
            Refusal::Cancelled => "cancelled",
            Refusal::LeaseLost => "lease_lost",
            Refusal::NotInProgress => "not_in_progress",
            Refusal::NotOwner => "not_owner",
            Refusal::AlreadyTerminal => "already_terminal",
            Refusal::NotDead => "not_dead",
            Refusal::InvalidBody => "invalid_body",
            Refusal::InvalidCommand => "invalid_command",
            Refusal::InvalidWebhookUrl => "invalid_webhook_url",
            Refusal::InvalidRunAt | Refusal::RunAtTooFar => "invalid_run_at",
            Refusal::DelayNegative | Refusal::DelayTooLong => "invalid_delay",
            Refusal::IdempotencyKeyTooLong | Refusal::IdempotencyKeysDiffer => "invalid_idempotency_key",
            Refusal::InvalidHeaders => "invalid_headers",
            Refusal::PayloadTooLarge => "payload_too_large",
            Refusal::InvalidStatus => "invalid_status",
            Refusal::ResultRequired => "result_required",
            Refusal::ErrorRequired => "error_required",
            Refusal::InvalidArtifact(_) => "invalid_artifact",
            Refusal::InvalidSubscription(_) => "invalid_subscription",
            Refusal::SubscriptionNotFound => "subscription_not_found",
            Refusal::InvalidTopic { .. } => "invalid_topic",
            Refusal::DeliveryNotFound => "delivery_not_found",
            Refusal::BatchTooLarge(_) | Refusal::CountTooLarge(_) => "batch_too_large",
            Refusal::WorkerIdRequired => "worker_id_required",
            Refusal::EventTypeNotAllowed => "event_type_not_allowed",
            Refusal::GroupNotAllowed => "group_not_allowed",
            Refusal::ResultNotFound => "result_not_found",
            Refusal::ArtifactNotFound => "artifact_not_found",
            Refusal::InvalidBefore => "invalid_before",
            Refusal::TopicNotFound(_) => "topic_not_found",
            Refusal::DeletionPolicyRequired => "deletion_policy_required",
            Refusal::InvalidCursor => "invalid_cursor",
            Refusal::InvalidFilter(_) => "invalid_filter",
            Refusal::ConfirmRequired => "confirm_required",
            Refusal::OperationNotFound => "operation_not_found",
            Refusal::TooManyOperations(_) => "too_many_operations",
            Refusal::BackupElsewhere => "backup_elsewhere",
            Refusal::IdempotencyKeyTaken => "idempotency_key_taken",
            Refusal::IdNotKept => "id_not_kept",
        }
    }
}

/// Something broke. What was asked may or may not have happened; asking again is safe.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Failure {
    /// The store cannot take this now (disk full, sync failed, backend unreachable).
    #[error("storage unavailable: {reason}")]
    Unavailable { reason: String, outcome_unknown: bool },
    /// The store is closing or closed.
    #[error("the store is closed")]
    Closed,
    /// A record was found damaged, or an invariant does not hold.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Failure {
    /// Nothing has happened.
    pub fn unavailable(reason: impl Into<String>) -> Failure {
        Failure::Unavailable { reason: reason.into(), outcome_unknown: false }
    }

    /// It may have happened.
    pub fn unknown(reason: impl Into<String>) -> Failure {
        Failure::Unavailable { reason: reason.into(), outcome_unknown: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each; the match in `code` makes sure that a new one is not forgotten there.
    fn all() -> Vec<Refusal> {
        vec![
            Refusal::NotFound,
            Refusal::Cancelled,
            Refusal::LeaseLost,
            Refusal::NotInProgress,
            Refusal::NotOwner,
            Refusal::AlreadyTerminal,
            Refusal::NotDead,
            Refusal::InvalidBody,
            Refusal::InvalidCommand,
            Refusal::InvalidWebhookUrl,
            Refusal::RunAtTooFar,
            Refusal::DelayNegative,
            Refusal::DelayTooLong,
            Refusal::IdempotencyKeyTooLong,
            Refusal::IdempotencyKeysDiffer,
            Refusal::InvalidHeaders,
            Refusal::PayloadTooLarge,
            Refusal::InvalidStatus,
            Refusal::ResultRequired,
            Refusal::ErrorRequired,
            Refusal::InvalidArtifact("too many artifacts (max 16)".into()),
            Refusal::InvalidSubscription("groupId is required"),
            Refusal::SubscriptionNotFound,
            Refusal::InvalidTopic { field: "maxAttempts", message: "must be between 1 and 100" },
            Refusal::DeliveryNotFound,
            Refusal::InvalidRunAt,
            Refusal::BatchTooLarge(100),
            Refusal::CountTooLarge(100),
            Refusal::WorkerIdRequired,
            Refusal::EventTypeNotAllowed,
            Refusal::GroupNotAllowed,
            Refusal::ResultNotFound,
            Refusal::ArtifactNotFound,
            Refusal::InvalidBefore,
            Refusal::TopicNotFound("acme.orders".into()),
            Refusal::DeletionPolicyRequired,
            Refusal::InvalidCursor,
            Refusal::InvalidFilter("unknown status \"GONE\"".into()),
            Refusal::ConfirmRequired,
            Refusal::OperationNotFound,
            Refusal::TooManyOperations(16),
            Refusal::BackupElsewhere,
            Refusal::IdempotencyKeyTaken,
            Refusal::IdNotKept,
        ]
    }

    #[test]
    fn every_refusal_is_documented_with_its_code() {
        let page = include_str!("../../../docs/errors.md");
        for refusal in all() {
            let code = refusal.code();
            assert!(page.contains(&format!("| `{code}` |")), "docs/errors.md lacks {code}");
            assert!(code.bytes().all(|c| c.is_ascii_lowercase() || c == b'_'), "{code}");
            assert!(!refusal.to_string().is_empty());
        }
    }
}
