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
    /// An operator's delete of something that is not a dead letter, or a requeue of something that has not failed.
    #[error("not a dead letter")]
    NotDead,
    /// An operator's run-now of something that waits for no time.
    #[error("not delayed")]
    NotDelayed,
    /// An operator's requeue of a task whose unique key another one has by now.
    #[error("another task has the unique key")]
    UniqueConflict,
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
    #[error("invalid 'lane' (at most 128 bytes, no control characters)")]
    InvalidLane,
    #[error("invalid 'tags' (at most 8, each 1 to 64 of A-Z a-z 0-9 _ . : -)")]
    InvalidTags,
    #[error("invalid 'unique': {0}")]
    InvalidUnique(&'static str),
    #[error("invalid expiry: {0}")]
    InvalidExpiry(&'static str),
    #[error("invalid 'maxRunSeconds' (must be between 1 and 604800)")]
    InvalidMaxRun,
    #[error("progress too large (max 4096 bytes)")]
    ProgressTooLarge,
    #[error("checkpoint too large (max 65536 bytes)")]
    CheckpointTooLarge,
    #[error("invalid 'graceSeconds' (must be between 0 and 3600)")]
    InvalidGrace,
    #[error("refund needs 'delaySeconds' of at least 1")]
    RefundWithoutDelay,
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
    #[error("invalid 'order' (use listed or fair)")]
    InvalidOrder,
    #[error("invalid 'weights' (at most 256 commands, each with a number from 1 to 100)")]
    InvalidWeights,
    #[error("invalid 'weights' (they need order=fair)")]
    WeightsWithoutFair,
    /// What a worker says of itself: its name, or the rest.
    #[error("invalid {0}")]
    InvalidWorker(&'static str),
    /// A test moves the clock where it cannot go.
    #[error("invalid time: {0}")]
    InvalidClock(&'static str),
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
    #[error("too many calls of the tenant are waiting (max {0})")]
    TooManyWaiting(usize),
    #[error("calls of the tenant wait for too many queues (max {0})")]
    TooManyQueueWaits(usize),
    #[error("too many operations are running (max {0})")]
    TooManyOperations(usize),
    #[error("too many subscriptions (max {0})")]
    TooManySubscriptions(usize),
    /// What this kind of store cannot do.
    #[error("{0} are not supported by this store")]
    NotSupported(&'static str),
    /// The store has its own means.
    #[error("this store is backed up by its own means")]
    BackupElsewhere,
    #[error("invalid {field}: {message}")]
    InvalidSchedule { field: &'static str, message: String },
    #[error("schedule not found")]
    ScheduleNotFound,
    /// A schedule lives where the queue of its tasks lives.
    #[error("the command of a schedule cannot change; delete it first")]
    ScheduleCommandFixed,
    #[error("too many schedules (max {0})")]
    TooManySchedules(usize),
    #[error("invalid {field}: {message}")]
    InvalidPolicy { field: String, message: String },
    #[error("the queue has no policy")]
    PolicyNotFound,
    #[error("too many unique keys that are taken for some time (max {0} bytes)")]
    TooManyUniqueKeys(usize),
    #[error("too many policies (max {0})")]
    TooManyPolicies(usize),
    #[error("policies too large together (max {0} bytes)")]
    PoliciesTooLarge(usize),
    /// The order of tasks that live cannot change.
    #[error("'lanes.ordered' changes only while the queue has no live task")]
    QueueNotEmpty,
    #[error("the queue is full")]
    QueueFull,
    #[error("invalid 'hold': {0}")]
    InvalidHold(&'static str),
    /// `field` is a JSON pointer into the payload.
    #[error("invalid payload: {message}")]
    PayloadInvalid { field: String, message: String },
    #[error("invalid 'after': {0}")]
    InvalidAfter(&'static str),
    #[error("unknown dependency {0}")]
    UnknownDependency(Box<str>),
    #[error("invalid {field}: {message}")]
    InvalidBatch { field: &'static str, message: &'static str },
    #[error("batch not found")]
    BatchNotFound,
    /// It takes no more members.
    #[error("the batch is closed")]
    BatchClosed,
    #[error("too many batches (max {0})")]
    TooManyBatches(usize),
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
            Refusal::NotDelayed => "not_delayed",
            Refusal::UniqueConflict => "unique_conflict",
            Refusal::InvalidBody => "invalid_body",
            Refusal::InvalidCommand => "invalid_command",
            Refusal::InvalidWebhookUrl => "invalid_webhook_url",
            Refusal::InvalidRunAt | Refusal::RunAtTooFar => "invalid_run_at",
            Refusal::DelayNegative | Refusal::DelayTooLong | Refusal::RefundWithoutDelay => "invalid_delay",
            Refusal::IdempotencyKeyTooLong | Refusal::IdempotencyKeysDiffer => "invalid_idempotency_key",
            Refusal::InvalidHeaders => "invalid_headers",
            Refusal::InvalidLane => "invalid_lane",
            Refusal::InvalidTags => "invalid_tags",
            Refusal::InvalidUnique(_) => "invalid_unique",
            Refusal::InvalidExpiry(_) => "invalid_expiry",
            Refusal::InvalidMaxRun => "invalid_max_run",
            Refusal::ProgressTooLarge => "progress_too_large",
            Refusal::CheckpointTooLarge => "checkpoint_too_large",
            Refusal::InvalidGrace => "invalid_grace",
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
            Refusal::InvalidOrder => "invalid_order",
            Refusal::InvalidWeights | Refusal::WeightsWithoutFair => "invalid_weights",
            Refusal::InvalidWorker(_) => "invalid_worker",
            Refusal::InvalidClock(_) => "invalid_clock",
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
            Refusal::TooManyWaiting(_) | Refusal::TooManyQueueWaits(_) => "too_many_waiting",
            Refusal::TooManyOperations(_) => "too_many_operations",
            Refusal::TooManySubscriptions(_) => "too_many_subscriptions",
            Refusal::NotSupported(_) => "not_supported",
            Refusal::BackupElsewhere => "backup_elsewhere",
            Refusal::InvalidSchedule { .. } => "invalid_schedule",
            Refusal::ScheduleNotFound => "schedule_not_found",
            Refusal::ScheduleCommandFixed => "schedule_command_fixed",
            Refusal::TooManySchedules(_) => "too_many_schedules",
            Refusal::InvalidPolicy { .. } => "invalid_policy",
            Refusal::PolicyNotFound => "policy_not_found",
            Refusal::TooManyUniqueKeys(_) => "too_many_unique_keys",
            Refusal::TooManyPolicies(_) | Refusal::PoliciesTooLarge(_) => "too_many_policies",
            Refusal::QueueNotEmpty => "queue_not_empty",
            Refusal::QueueFull => "queue_full",
            Refusal::InvalidHold(_) => "invalid_hold",
            Refusal::PayloadInvalid { .. } => "payload_invalid",
            Refusal::InvalidAfter(_) => "invalid_after",
            Refusal::UnknownDependency(_) => "unknown_dependency",
            Refusal::InvalidBatch { .. } => "invalid_batch",
            Refusal::BatchNotFound => "batch_not_found",
            Refusal::BatchClosed => "batch_closed",
            Refusal::TooManyBatches(_) => "too_many_batches",
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
            Refusal::NotDelayed,
            Refusal::UniqueConflict,
            Refusal::InvalidBody,
            Refusal::InvalidCommand,
            Refusal::InvalidWebhookUrl,
            Refusal::RunAtTooFar,
            Refusal::DelayNegative,
            Refusal::DelayTooLong,
            Refusal::IdempotencyKeyTooLong,
            Refusal::IdempotencyKeysDiffer,
            Refusal::InvalidHeaders,
            Refusal::InvalidLane,
            Refusal::InvalidTags,
            Refusal::InvalidUnique("'key' must have 1 to 255 bytes"),
            Refusal::InvalidExpiry("'expiresAt' may be at most 366 days ahead"),
            Refusal::InvalidMaxRun,
            Refusal::ProgressTooLarge,
            Refusal::CheckpointTooLarge,
            Refusal::InvalidGrace,
            Refusal::RefundWithoutDelay,
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
            Refusal::InvalidOrder,
            Refusal::InvalidWeights,
            Refusal::WeightsWithoutFair,
            Refusal::InvalidWorker("Codeq-Worker (1 to 128 visible ASCII characters)"),
            Refusal::InvalidClock("it does not go back"),
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
            Refusal::TooManyWaiting(100_000),
            Refusal::TooManyQueueWaits(200_000),
            Refusal::TooManyOperations(16),
            Refusal::TooManySubscriptions(1000),
            Refusal::NotSupported("unique keys"),
            Refusal::BackupElsewhere,
            Refusal::InvalidSchedule { field: "cron", message: "the plan never fires".into() },
            Refusal::ScheduleNotFound,
            Refusal::ScheduleCommandFixed,
            Refusal::TooManySchedules(1000),
            Refusal::InvalidPolicy { field: "rate.limit".into(), message: "is required".into() },
            Refusal::PolicyNotFound,
            Refusal::TooManyUniqueKeys(1000),
            Refusal::TooManyPolicies(10_000),
            Refusal::PoliciesTooLarge(64 << 20),
            Refusal::QueueNotEmpty,
            Refusal::QueueFull,
            Refusal::InvalidHold("use lane or queue"),
            Refusal::PayloadInvalid { field: "/a".into(), message: "\"x\" is not a number".into() },
            Refusal::InvalidAfter("at most 100 ids"),
            Refusal::UnknownDependency("x".into()),
            Refusal::InvalidBatch { field: "name", message: "at most 128 bytes, no control characters" },
            Refusal::BatchNotFound,
            Refusal::BatchClosed,
            Refusal::TooManyBatches(1000),
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
