// What can go wrong, one class per refusal.
//
// A `Refused` is an answer: the server is well and says no. A code that this version does not know is a plain `Refused`.
// `Unavailable` is no answer: whether a write took effect is unknown, and the SDK has already tried again.

/** The base of everything that the SDK throws. */
export class CodeqError extends Error {
  constructor(text: string, options?: ErrorOptions) {
    super(text, options);
    this.name = new.target.name;
  }
}

/** No answer, or one that says to come back later, until the call was given up. */
export class Unavailable extends CodeqError {
  /** The last answer, if there was one: 429 or 503. */
  readonly refusal: Refused | undefined;
  constructor(text: string, refusal?: Refused, options?: ErrorOptions) {
    super(text, options);
    this.refusal = refusal;
  }
}

/** The task had not ended when the time of `wait` was up. */
export class NotFinished extends CodeqError {}

/** The task ended without completing. */
export class TaskFailed extends CodeqError {
  readonly taskId: string;
  /** The text of the failure. */
  readonly error: string;
  /** Why it failed if no worker failed it: `MAX_ATTEMPTS`, `CANCELLED`, `EXPIRED`, `DEPENDENCY`. */
  readonly reason: string | undefined;
  constructor(taskId: string, error: string, reason: string | undefined) {
    super(error || reason || "failed");
    this.taskId = taskId;
    this.error = error;
    this.reason = reason;
  }
}

/** What is known of a refusal. */
export interface Refusal {
  status: number;
  code: string;
  text: string;
  requestId?: string | undefined;
  field?: string | undefined;
}

/** The server said no. */
export class Refused extends CodeqError {
  /** The HTTP status; 0 for an item of a batch. */
  readonly status: number;
  /** The stable code of the refusal. */
  readonly code: string;
  readonly text: string;
  readonly requestId: string | undefined;
  /** The field that was refused, where the server names one. */
  readonly field: string | undefined;
  constructor(known: Refusal) {
    super(known.code ? `${known.text} (${known.code})` : known.text);
    this.status = known.status;
    this.code = known.code;
    this.text = known.text;
    this.requestId = known.requestId;
    this.field = known.field;
  }
}

export class InvalidBody extends Refused {}
export class InvalidCommand extends Refused {}
export class InvalidWebhookUrl extends Refused {}
export class InvalidRunAt extends Refused {}
export class InvalidDelay extends Refused {}
export class InvalidIdempotencyKey extends Refused {}
export class InvalidHeaders extends Refused {}
export class BatchTooLarge extends Refused {}
export class WorkerIdRequired extends Refused {}
export class InvalidStatus extends Refused {}
export class ResultRequired extends Refused {}
export class ErrorRequired extends Refused {}
export class InvalidArtifact extends Refused {}
export class InvalidSubscription extends Refused {}
export class InvalidBefore extends Refused {}
export class DeletionPolicyRequired extends Refused {}
export class MissingAuthorization extends Refused {}
export class InvalidAuthorization extends Refused {}
export class InvalidToken extends Refused {}
export class MissingEventTypes extends Refused {}
export class MissingScope extends Refused {}
export class EventTypeNotAllowed extends Refused {}
export class GroupNotAllowed extends Refused {}
export class InvalidTenant extends Refused {}
export class AdminOnly extends Refused {}
export class NotOwner extends Refused {}
export class TaskNotFound extends Refused {}
export class ResultNotFound extends Refused {}
export class ArtifactNotFound extends Refused {}
export class SubscriptionNotFound extends Refused {}
export class TopicNotFound extends Refused {}
export class DeliveryNotFound extends Refused {}
export class RouteNotFound extends Refused {}
export class MethodNotAllowed extends Refused {}
export class NotInProgress extends Refused {}
export class LeaseLost extends Refused {}
export class Cancelled extends Refused {}
export class TopicConflict extends Refused {}
export class BodyTooLarge extends Refused {}
export class PayloadTooLarge extends Refused {}
export class InvalidTopic extends Refused {}
export class RateLimited extends Refused {}
export class Internal extends Refused {}
export class AuthNotConfigured extends Refused {}
export class StorageUnavailable extends Refused {}
export class AuthUnavailable extends Refused {}
export class ShuttingDown extends Refused {}
export class InvalidCursor extends Refused {}
export class InvalidFilter extends Refused {}
export class ConfirmRequired extends Refused {}
export class OperationNotFound extends Refused {}
export class TooManyOperations extends Refused {}
export class IdempotencyKeyTaken extends Refused {}
export class IdNotKept extends Refused {}
export class NotDead extends Refused {}
export class AlreadyTerminal extends Refused {}
export class TooManySubscriptions extends Refused {}
export class PolicyNotFound extends Refused {}
export class QueueFull extends Refused {}
export class PayloadInvalid extends Refused {}
export class QueueNotEmpty extends Refused {}
export class ScheduleCommandFixed extends Refused {}
export class ScheduleNotFound extends Refused {}
export class UnknownDependency extends Refused {}
export class BatchClosed extends Refused {}
export class BatchNotFound extends Refused {}
export class UniqueConflict extends Refused {}
export class InvalidWorker extends Refused {}
export class InvalidPolicy extends Refused {}
export class TooManyPolicies extends Refused {}
export class TooManyUniqueKeys extends Refused {}
export class InvalidHold extends Refused {}
export class InvalidLane extends Refused {}
export class InvalidTags extends Refused {}
export class InvalidUnique extends Refused {}
export class InvalidExpiry extends Refused {}
export class InvalidMaxRun extends Refused {}
export class InvalidGrace extends Refused {}
export class ProgressTooLarge extends Refused {}
export class CheckpointTooLarge extends Refused {}
export class InvalidOrder extends Refused {}
export class InvalidWeights extends Refused {}
export class TooManyWaiting extends Refused {}
export class HostNotAllowed extends Refused {}
export class NotDelayed extends Refused {}
export class InvalidSchedule extends Refused {}
export class TooManySchedules extends Refused {}
export class InvalidAfter extends Refused {}
export class InvalidBatch extends Refused {}
export class TooManyBatches extends Refused {}
export class InvalidClock extends Refused {}
export class BackupElsewhere extends Refused {}
export class NotSupported extends Refused {}

const BY_CODE: Record<string, new (known: Refusal) => Refused> = {
  invalid_body: InvalidBody,
  invalid_command: InvalidCommand,
  invalid_webhook_url: InvalidWebhookUrl,
  invalid_run_at: InvalidRunAt,
  invalid_delay: InvalidDelay,
  invalid_idempotency_key: InvalidIdempotencyKey,
  invalid_headers: InvalidHeaders,
  batch_too_large: BatchTooLarge,
  worker_id_required: WorkerIdRequired,
  invalid_status: InvalidStatus,
  result_required: ResultRequired,
  error_required: ErrorRequired,
  invalid_artifact: InvalidArtifact,
  invalid_subscription: InvalidSubscription,
  invalid_before: InvalidBefore,
  deletion_policy_required: DeletionPolicyRequired,
  missing_authorization: MissingAuthorization,
  invalid_authorization: InvalidAuthorization,
  invalid_token: InvalidToken,
  missing_event_types: MissingEventTypes,
  missing_scope: MissingScope,
  event_type_not_allowed: EventTypeNotAllowed,
  group_not_allowed: GroupNotAllowed,
  invalid_tenant: InvalidTenant,
  admin_only: AdminOnly,
  not_owner: NotOwner,
  task_not_found: TaskNotFound,
  result_not_found: ResultNotFound,
  artifact_not_found: ArtifactNotFound,
  subscription_not_found: SubscriptionNotFound,
  topic_not_found: TopicNotFound,
  delivery_not_found: DeliveryNotFound,
  route_not_found: RouteNotFound,
  method_not_allowed: MethodNotAllowed,
  not_in_progress: NotInProgress,
  lease_lost: LeaseLost,
  cancelled: Cancelled,
  topic_conflict: TopicConflict,
  body_too_large: BodyTooLarge,
  payload_too_large: PayloadTooLarge,
  invalid_topic: InvalidTopic,
  rate_limited: RateLimited,
  internal: Internal,
  auth_not_configured: AuthNotConfigured,
  storage_unavailable: StorageUnavailable,
  auth_unavailable: AuthUnavailable,
  shutting_down: ShuttingDown,
  invalid_cursor: InvalidCursor,
  invalid_filter: InvalidFilter,
  confirm_required: ConfirmRequired,
  operation_not_found: OperationNotFound,
  too_many_operations: TooManyOperations,
  idempotency_key_taken: IdempotencyKeyTaken,
  id_not_kept: IdNotKept,
  not_dead: NotDead,
  already_terminal: AlreadyTerminal,
  too_many_subscriptions: TooManySubscriptions,
  policy_not_found: PolicyNotFound,
  queue_full: QueueFull,
  payload_invalid: PayloadInvalid,
  queue_not_empty: QueueNotEmpty,
  schedule_command_fixed: ScheduleCommandFixed,
  schedule_not_found: ScheduleNotFound,
  unknown_dependency: UnknownDependency,
  batch_closed: BatchClosed,
  batch_not_found: BatchNotFound,
  unique_conflict: UniqueConflict,
  invalid_worker: InvalidWorker,
  invalid_policy: InvalidPolicy,
  too_many_policies: TooManyPolicies,
  too_many_unique_keys: TooManyUniqueKeys,
  invalid_hold: InvalidHold,
  invalid_lane: InvalidLane,
  invalid_tags: InvalidTags,
  invalid_unique: InvalidUnique,
  invalid_expiry: InvalidExpiry,
  invalid_max_run: InvalidMaxRun,
  invalid_grace: InvalidGrace,
  progress_too_large: ProgressTooLarge,
  checkpoint_too_large: CheckpointTooLarge,
  invalid_order: InvalidOrder,
  invalid_weights: InvalidWeights,
  too_many_waiting: TooManyWaiting,
  host_not_allowed: HostNotAllowed,
  not_delayed: NotDelayed,
  invalid_schedule: InvalidSchedule,
  too_many_schedules: TooManySchedules,
  invalid_after: InvalidAfter,
  invalid_batch: InvalidBatch,
  too_many_batches: TooManyBatches,
  invalid_clock: InvalidClock,
  backup_elsewhere: BackupElsewhere,
  not_supported: NotSupported,
};

/** The refusal that an answer, or an item of a batch, tells of. */
export function refusal(status: number, body: unknown, requestId?: string): Refused {
  const said = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const word = (name: string) => (typeof said[name] === "string" ? (said[name] as string) : undefined);
  const code = word("code") ?? "";
  const text = word("error") ?? `status ${status}`;
  const kind = Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined;
  return new (kind ?? Refused)({ status, code, text, requestId: word("requestId") ?? requestId, field: word("field") });
}
