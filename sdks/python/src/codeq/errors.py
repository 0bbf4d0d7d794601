"""What can go wrong, one type per refusal.

A :class:`Refused` is an answer: the server is well and says no. Each ``code`` has its own class, so
``except codeq.errors.InvalidCommand`` works; a code that this version does not know is a plain :class:`Refused`.
:class:`Unavailable` is no answer: whether a write took effect is unknown, and the SDK has already tried again.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CodeqError(Exception):
    """The base of everything that the SDK raises."""


class Unavailable(CodeqError):
    """No answer, or one that says to come back later, until the call was given up."""

    def __init__(self, text: str, refusal: Refused | None = None) -> None:
        super().__init__(text)
        #: The last answer, if there was one: 429 or 503.
        self.refusal = refusal


class NotFinished(CodeqError):
    """The task had not ended when the time of ``wait`` was up."""


class TaskFailed(CodeqError):
    """The task ended without completing."""

    def __init__(self, task_id: str, error: str, reason: str | None) -> None:
        super().__init__(error or reason or "failed")
        self.task_id = task_id
        #: The text of the failure.
        self.error = error
        #: Why it failed if no worker failed it: ``MAX_ATTEMPTS``, ``CANCELLED``, ``EXPIRED``, ``DEPENDENCY``.
        self.reason = reason


class Refused(CodeqError):
    """The server said no."""

    by_code: ClassVar[dict[str, type[Refused]]] = {}

    def __init_subclass__(cls, code: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if code:
            Refused.by_code[code] = cls

    def __init__(
        self, status: int, code: str, text: str, request_id: str | None = None, field: str | None = None
    ) -> None:
        super().__init__(f"{text} ({code})" if code else text)
        #: The HTTP status; 0 for an item of a batch.
        self.status = status
        #: The stable code of the refusal.
        self.code = code
        self.text = text
        self.request_id = request_id
        #: The call had been sent before without an answer.
        self.is_repeat = False
        #: The field that was refused, where the server names one.
        self.field = field


class InvalidBody(Refused, code="invalid_body"): ...


class InvalidCommand(Refused, code="invalid_command"): ...


class InvalidWebhookUrl(Refused, code="invalid_webhook_url"): ...


class InvalidRunAt(Refused, code="invalid_run_at"): ...


class InvalidDelay(Refused, code="invalid_delay"): ...


class InvalidIdempotencyKey(Refused, code="invalid_idempotency_key"): ...


class InvalidHeaders(Refused, code="invalid_headers"): ...


class BatchTooLarge(Refused, code="batch_too_large"): ...


class WorkerIdRequired(Refused, code="worker_id_required"): ...


class InvalidStatus(Refused, code="invalid_status"): ...


class ResultRequired(Refused, code="result_required"): ...


class ErrorRequired(Refused, code="error_required"): ...


class InvalidArtifact(Refused, code="invalid_artifact"): ...


class InvalidSubscription(Refused, code="invalid_subscription"): ...


class InvalidBefore(Refused, code="invalid_before"): ...


class DeletionPolicyRequired(Refused, code="deletion_policy_required"): ...


class MissingAuthorization(Refused, code="missing_authorization"): ...


class InvalidAuthorization(Refused, code="invalid_authorization"): ...


class InvalidToken(Refused, code="invalid_token"): ...


class MissingEventTypes(Refused, code="missing_event_types"): ...


class MissingScope(Refused, code="missing_scope"): ...


class EventTypeNotAllowed(Refused, code="event_type_not_allowed"): ...


class GroupNotAllowed(Refused, code="group_not_allowed"): ...


class InvalidTenant(Refused, code="invalid_tenant"): ...


class AdminOnly(Refused, code="admin_only"): ...


class NotOwner(Refused, code="not_owner"): ...


class TaskNotFound(Refused, code="task_not_found"): ...


class ResultNotFound(Refused, code="result_not_found"): ...


class ArtifactNotFound(Refused, code="artifact_not_found"): ...


class SubscriptionNotFound(Refused, code="subscription_not_found"): ...


class TopicNotFound(Refused, code="topic_not_found"): ...


class DeliveryNotFound(Refused, code="delivery_not_found"): ...


class RouteNotFound(Refused, code="route_not_found"): ...


class MethodNotAllowed(Refused, code="method_not_allowed"): ...


class NotInProgress(Refused, code="not_in_progress"): ...


class LeaseLost(Refused, code="lease_lost"): ...


class Cancelled(Refused, code="cancelled"): ...


class TopicConflict(Refused, code="topic_conflict"): ...


class BodyTooLarge(Refused, code="body_too_large"): ...


class PayloadTooLarge(Refused, code="payload_too_large"): ...


class InvalidTopic(Refused, code="invalid_topic"): ...


class RateLimited(Refused, code="rate_limited"): ...


class Internal(Refused, code="internal"): ...


class AuthNotConfigured(Refused, code="auth_not_configured"): ...


class StorageUnavailable(Refused, code="storage_unavailable"): ...


class AuthUnavailable(Refused, code="auth_unavailable"): ...


class ShuttingDown(Refused, code="shutting_down"): ...


class InvalidCursor(Refused, code="invalid_cursor"): ...


class InvalidFilter(Refused, code="invalid_filter"): ...


class ConfirmRequired(Refused, code="confirm_required"): ...


class OperationNotFound(Refused, code="operation_not_found"): ...


class TooManyOperations(Refused, code="too_many_operations"): ...


class IdempotencyKeyTaken(Refused, code="idempotency_key_taken"): ...


class IdNotKept(Refused, code="id_not_kept"): ...


class NotDead(Refused, code="not_dead"): ...


class AlreadyTerminal(Refused, code="already_terminal"): ...


class TooManySubscriptions(Refused, code="too_many_subscriptions"): ...


class PolicyNotFound(Refused, code="policy_not_found"): ...


class QueueFull(Refused, code="queue_full"): ...


class PayloadInvalid(Refused, code="payload_invalid"): ...


class QueueNotEmpty(Refused, code="queue_not_empty"): ...


class ScheduleCommandFixed(Refused, code="schedule_command_fixed"): ...


class ScheduleNotFound(Refused, code="schedule_not_found"): ...


class UnknownDependency(Refused, code="unknown_dependency"): ...


class BatchClosed(Refused, code="batch_closed"): ...


class BatchNotFound(Refused, code="batch_not_found"): ...


class UniqueConflict(Refused, code="unique_conflict"): ...


class InvalidWorker(Refused, code="invalid_worker"): ...


class InvalidPolicy(Refused, code="invalid_policy"): ...


class TooManyPolicies(Refused, code="too_many_policies"): ...


class TooManyUniqueKeys(Refused, code="too_many_unique_keys"): ...


class InvalidHold(Refused, code="invalid_hold"): ...


class InvalidLane(Refused, code="invalid_lane"): ...


class InvalidTags(Refused, code="invalid_tags"): ...


class InvalidUnique(Refused, code="invalid_unique"): ...


class InvalidExpiry(Refused, code="invalid_expiry"): ...


class InvalidMaxRun(Refused, code="invalid_max_run"): ...


class InvalidGrace(Refused, code="invalid_grace"): ...


class ProgressTooLarge(Refused, code="progress_too_large"): ...


class CheckpointTooLarge(Refused, code="checkpoint_too_large"): ...


class InvalidOrder(Refused, code="invalid_order"): ...


class InvalidWeights(Refused, code="invalid_weights"): ...


class TooManyWaiting(Refused, code="too_many_waiting"): ...


class HostNotAllowed(Refused, code="host_not_allowed"): ...


class NotDelayed(Refused, code="not_delayed"): ...


class InvalidSchedule(Refused, code="invalid_schedule"): ...


class TooManySchedules(Refused, code="too_many_schedules"): ...


class InvalidAfter(Refused, code="invalid_after"): ...


class InvalidBatch(Refused, code="invalid_batch"): ...


class TooManyBatches(Refused, code="too_many_batches"): ...


class InvalidClock(Refused, code="invalid_clock"): ...


class BackupElsewhere(Refused, code="backup_elsewhere"): ...


class NotSupported(Refused, code="not_supported"): ...


def refusal(status: int, body: Any, request_id: str | None = None) -> Refused:
    """The refusal that an answer, or an item of a batch, tells of."""
    body = body if isinstance(body, dict) else {}
    code = str(body.get("code") or "")
    text = str(body.get("error") or f"status {status}")
    kind = Refused.by_code.get(code, Refused)
    return kind(status, code, text, body.get("requestId") or request_id, body.get("field"))
