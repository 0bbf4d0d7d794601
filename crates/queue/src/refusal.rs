//! The two ways to get no: a refusal (we are well, the answer is no) and a failure (something broke).

mod failure;

pub use failure::Failure;

use thiserror::Error;

/// We are well and the answer is no. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// No such task in the tenant, or no longer.
    #[error("not-found")]
    NotFound,
    /// The task was cancelled while its worker ran it.
    #[error("cancelled")]
    Cancelled,
    /// A newer attempt has the task, or its lease was over before a heartbeat.
    #[error("lease-lost")]
    LeaseLost,
    /// No worker holds the task: it waits, or it has ended.
    #[error("not-in-progress")]
    NotInProgress,
    /// Another worker holds the task.
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
    /// The request cannot be read as what the route takes.
    #[error("invalid body")]
    InvalidBody,
    /// A command is 1 to 128 of `[A-Za-z0-9_.:-]`.
    #[error("invalid command")]
    InvalidCommand,
    /// A webhook is an absolute http or https URL with a host, at most 2,048 bytes long.
    #[error("invalid webhook url")]
    InvalidWebhookUrl,
    /// `runAt` is not an RFC 3339 instant.
    #[error("invalid 'runAt' (use RFC3339)")]
    InvalidRunAt,
    /// `runAt` is more than [`DELAY`](crate::limits::DELAY) ahead.
    #[error("invalid 'runAt' (at most 366 days ahead)")]
    RunAtTooFar,
    /// `delaySeconds` is below zero.
    #[error("invalid 'delaySeconds' (must be >= 0)")]
    DelayNegative,
    /// `delaySeconds` is more than [`DELAY`](crate::limits::DELAY).
    #[error("invalid 'delaySeconds' (must be <= 31622400)")]
    DelayTooLong,
    /// The idempotency key is too long.
    #[error("invalid idempotencyKey (max 255 bytes)")]
    IdempotencyKeyTooLong,
    /// Body and header name different idempotency keys.
    #[error("idempotencyKey and Idempotency-Key differ")]
    IdempotencyKeysDiffer,
    /// Headers are at most 16, with names of 1 to 64 of `[A-Za-z0-9_.-]`, together at most 4 KiB.
    #[error("invalid headers")]
    InvalidHeaders,
    /// The lane is too long or has a control character.
    #[error("invalid 'lane' (at most 128 bytes, no control characters)")]
    InvalidLane,
    /// Too many tags, or one that is too long or has another character.
    #[error("invalid 'tags' (at most 8, each 1 to 64 of A-Z a-z 0-9 _ . : -)")]
    InvalidTags,
    /// The text says what is wrong with the unique rule.
    #[error("invalid 'unique': {0}")]
    InvalidUnique(&'static str),
    /// The text says what is wrong with the expiry.
    #[error("invalid expiry: {0}")]
    InvalidExpiry(&'static str),
    /// The longest run is none that a task may have.
    #[error("invalid 'maxRunSeconds' (must be between 1 and 604800)")]
    InvalidMaxRun,
    /// The progress of a heartbeat is too large.
    #[error("progress too large (max 4096 bytes)")]
    ProgressTooLarge,
    /// The checkpoint of a report is too large.
    #[error("checkpoint too large (max 65536 bytes)")]
    CheckpointTooLarge,
    /// The grace of a cancel is too long, or below zero.
    #[error("invalid 'graceSeconds' (must be between 0 and 3600)")]
    InvalidGrace,
    /// A nack that uses no attempt has to say when the task is tried again.
    #[error("refund needs 'delaySeconds' of at least 1")]
    RefundWithoutDelay,
    /// The payload, or the result, is larger than allowed.
    #[error("payload too large")]
    PayloadTooLarge,
    /// The status of a result is neither COMPLETED nor FAILED.
    #[error("invalid status")]
    InvalidStatus,
    /// COMPLETED came without a result.
    #[error("result required when status=COMPLETED")]
    ResultRequired,
    /// FAILED came without an error text.
    #[error("error required when status=FAILED")]
    ErrorRequired,
    /// The text names the artifact and what is wrong with it.
    #[error("{0}")]
    InvalidArtifact(String),
    /// The text names the field.
    #[error("{0}")]
    InvalidSubscription(&'static str),
    /// The subscription is unknown or has expired.
    #[error("not-found")]
    SubscriptionNotFound,
    /// The policy of a topic, or its name.
    #[error("invalid {field}: {message}")]
    InvalidTopic {
        /// As the wire spells it.
        field: &'static str,
        /// What its value must be.
        message: &'static str,
    },
    /// The callback is unknown, or is not one that failed.
    #[error("not-found")]
    DeliveryNotFound,
    /// With the greatest number of items.
    #[error("batch size exceeds maximum of {0}")]
    BatchTooLarge(usize),
    /// With the greatest number of tasks that one claim may ask for.
    #[error("count exceeds maximum of {0}")]
    CountTooLarge(usize),
    /// Neither the token nor the stream names the worker, so that nobody would hold the lease.
    #[error("workerId is required")]
    WorkerIdRequired,
    /// The order of a claim is neither `listed` nor `fair`.
    #[error("invalid 'order' (use listed or fair)")]
    InvalidOrder,
    /// Too many weights, or one that is too small or too large.
    #[error("invalid 'weights' (at most 256 commands, each with a number from 1 to 100)")]
    InvalidWeights,
    /// Weights came with an order that does not use them.
    #[error("invalid 'weights' (they need order=fair)")]
    WeightsWithoutFair,
    /// What a worker says of itself: its name, or the rest.
    #[error("invalid {0}")]
    InvalidWorker(&'static str),
    /// A test moves the clock where it cannot go.
    #[error("invalid time: {0}")]
    InvalidClock(&'static str),
    /// The token does not allow the command.
    #[error("event type not allowed")]
    EventTypeNotAllowed,
    /// The token belongs to another group.
    #[error("groupId not allowed")]
    GroupNotAllowed,
    /// The task has not ended.
    #[error("result not found")]
    ResultNotFound,
    /// The result has no such file in the server's keeping.
    #[error("artifact not found")]
    ArtifactNotFound,
    /// `before` is not an RFC 3339 instant.
    #[error("invalid 'before' (use RFC3339)")]
    InvalidBefore,
    /// With the id of the topic, tenant included.
    #[error("queue topic \"{0}\" not found")]
    TopicNotFound(String),
    /// The delete of a topic needs `deletionPolicy=Delete`.
    #[error("deletionPolicy=Delete is required")]
    DeletionPolicyRequired,
    /// The cursor is not one that this listing has given.
    #[error("invalid cursor")]
    InvalidCursor,
    /// The text names the part of the filter.
    #[error("{0}")]
    InvalidFilter(String),
    /// The delete of dead letters has to be confirmed.
    #[error("confirm=true is required")]
    ConfirmRequired,
    /// The operation is unknown, or ended long ago.
    #[error("operation not found")]
    OperationNotFound,
    /// With the greatest number that may wait at a time.
    #[error("too many calls of the tenant are waiting (max {0})")]
    TooManyWaiting(usize),
    /// With the greatest number that may run at a time.
    #[error("too many operations are running (max {0})")]
    TooManyOperations(usize),
    /// With the greatest number that a tenant may have.
    #[error("too many subscriptions (max {0})")]
    TooManySubscriptions(usize),
    /// What this kind of store cannot do.
    #[error("{0} are not supported by this store")]
    NotSupported(&'static str),
    /// The store has its own means.
    #[error("this store is backed up by its own means")]
    BackupElsewhere,
    /// The definition of a schedule, or its name.
    #[error("invalid {field}: {message}")]
    InvalidSchedule {
        /// As the wire spells it.
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// The tenant has no schedule of this name.
    #[error("schedule not found")]
    ScheduleNotFound,
    /// A schedule lives where the queue of its tasks lives.
    #[error("the command of a schedule cannot change; delete it first")]
    ScheduleCommandFixed,
    /// With the greatest number that a tenant may have.
    #[error("too many schedules (max {0})")]
    TooManySchedules(usize),
    /// The policy of a queue.
    #[error("invalid {field}: {message}")]
    InvalidPolicy {
        /// The path of the field, such as `rate.limit`.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// Nothing restricts the queue.
    #[error("the queue has no policy")]
    PolicyNotFound,
    /// With the greatest number that a tenant may have.
    #[error("too many policies (max {0})")]
    TooManyPolicies(usize),
    /// The order of tasks that live cannot change.
    #[error("'lanes.ordered' changes only while the queue has no live task")]
    QueueNotEmpty,
    /// As many tasks wait as the policy of the queue allows.
    #[error("the queue is full")]
    QueueFull,
    /// The text says what is wrong with the hold of a nack.
    #[error("invalid 'hold': {0}")]
    InvalidHold(&'static str),
    /// The payload does not match the schema that the policy of the queue asks for.
    #[error("invalid payload: {message}")]
    PayloadInvalid {
        /// A JSON pointer into the payload.
        field: String,
        /// What the schema wants there.
        message: String,
    },
    /// The text says what is wrong with the dependencies.
    #[error("invalid 'after': {0}")]
    InvalidAfter(&'static str),
    /// With the id, which names no task or batch of the tenant.
    #[error("unknown dependency {0}")]
    UnknownDependency(Box<str>),
    /// A batch, or what follows it.
    #[error("invalid {field}: {message}")]
    InvalidBatch {
        /// As the wire spells it.
        field: &'static str,
        /// What its value must be.
        message: &'static str,
    },
    /// The tenant has no such batch, or no longer.
    #[error("batch not found")]
    BatchNotFound,
    /// It takes no more members.
    #[error("the batch is closed")]
    BatchClosed,
    /// With the greatest number that a tenant may have.
    #[error("too many batches (max {0})")]
    TooManyBatches(usize),
    /// An import whose key names another task here.
    #[error("idempotencyKey names another task")]
    IdempotencyKeyTaken,
    /// An import whose id this store cannot keep.
    #[error("the id cannot be kept by this store")]
    IdNotKept,
    /// Not a refusal: this item failed while others did not, because they are on servers of their own.
    #[error("{0}")]
    Failed(Failure),
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
            Refusal::TooManyWaiting(_) => "too_many_waiting",
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
            Refusal::TooManyPolicies(_) => "too_many_policies",
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
            Refusal::Failed(_) => "storage_unavailable",
        }
    }
}

#[cfg(test)]
mod tests;
