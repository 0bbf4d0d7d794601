package codeq

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Code is the stable code of a refusal. It is an error, so that errors.Is(err, codeq.InvalidCommand) works.
type Code string

// Error makes a code usable with errors.Is.
func (c Code) Error() string { return string(c) }

// The codes of refusals.
const (
	InvalidBody            Code = "invalid_body"
	InvalidCommand         Code = "invalid_command"
	InvalidWebhookURL      Code = "invalid_webhook_url"
	InvalidRunAt           Code = "invalid_run_at"
	InvalidDelay           Code = "invalid_delay"
	InvalidIdempotencyKey  Code = "invalid_idempotency_key"
	InvalidHeaders         Code = "invalid_headers"
	BatchTooLarge          Code = "batch_too_large"
	WorkerIDRequired       Code = "worker_id_required"
	InvalidStatus          Code = "invalid_status"
	ResultRequired         Code = "result_required"
	ErrorRequired          Code = "error_required"
	InvalidArtifact        Code = "invalid_artifact"
	InvalidSubscription    Code = "invalid_subscription"
	InvalidBefore          Code = "invalid_before"
	DeletionPolicyRequired Code = "deletion_policy_required"
	MissingAuthorization   Code = "missing_authorization"
	InvalidAuthorization   Code = "invalid_authorization"
	InvalidToken           Code = "invalid_token"
	MissingEventTypes      Code = "missing_event_types"
	MissingScope           Code = "missing_scope"
	EventTypeNotAllowed    Code = "event_type_not_allowed"
	GroupNotAllowed        Code = "group_not_allowed"
	InvalidTenant          Code = "invalid_tenant"
	AdminOnly              Code = "admin_only"
	NotOwner               Code = "not_owner"
	TaskNotFound           Code = "task_not_found"
	ResultNotFound         Code = "result_not_found"
	ArtifactNotFound       Code = "artifact_not_found"
	SubscriptionNotFound   Code = "subscription_not_found"
	TopicNotFound          Code = "topic_not_found"
	DeliveryNotFound       Code = "delivery_not_found"
	RouteNotFound          Code = "route_not_found"
	MethodNotAllowed       Code = "method_not_allowed"
	NotInProgress          Code = "not_in_progress"
	LeaseLost              Code = "lease_lost"
	Cancelled              Code = "cancelled"
	TopicConflict          Code = "topic_conflict"
	BodyTooLarge           Code = "body_too_large"
	PayloadTooLarge        Code = "payload_too_large"
	InvalidTopic           Code = "invalid_topic"
	RateLimited            Code = "rate_limited"
	Internal               Code = "internal"
	AuthNotConfigured      Code = "auth_not_configured"
	StorageUnavailable     Code = "storage_unavailable"
	AuthUnavailable        Code = "auth_unavailable"
	ShuttingDown           Code = "shutting_down"
	InvalidCursor          Code = "invalid_cursor"
	InvalidFilter          Code = "invalid_filter"
	ConfirmRequired        Code = "confirm_required"
	OperationNotFound      Code = "operation_not_found"
	TooManyOperations      Code = "too_many_operations"
	IdempotencyKeyTaken    Code = "idempotency_key_taken"
	IDNotKept              Code = "id_not_kept"
	NotDead                Code = "not_dead"
	AlreadyTerminal        Code = "already_terminal"
	TooManySubscriptions   Code = "too_many_subscriptions"
	PolicyNotFound         Code = "policy_not_found"
	QueueFull              Code = "queue_full"
	PayloadInvalid         Code = "payload_invalid"
	QueueNotEmpty          Code = "queue_not_empty"
	ScheduleCommandFixed   Code = "schedule_command_fixed"
	ScheduleNotFound       Code = "schedule_not_found"
	UnknownDependency      Code = "unknown_dependency"
	BatchClosed            Code = "batch_closed"
	BatchNotFound          Code = "batch_not_found"
	UniqueConflict         Code = "unique_conflict"
	InvalidWorker          Code = "invalid_worker"
	InvalidPolicy          Code = "invalid_policy"
	TooManyPolicies        Code = "too_many_policies"
	TooManyUniqueKeys      Code = "too_many_unique_keys"
	InvalidHold            Code = "invalid_hold"
	InvalidLane            Code = "invalid_lane"
	InvalidTags            Code = "invalid_tags"
	InvalidUnique          Code = "invalid_unique"
	InvalidExpiry          Code = "invalid_expiry"
	InvalidMaxRun          Code = "invalid_max_run"
	InvalidGrace           Code = "invalid_grace"
	ProgressTooLarge       Code = "progress_too_large"
	CheckpointTooLarge     Code = "checkpoint_too_large"
	InvalidOrder           Code = "invalid_order"
	InvalidWeights         Code = "invalid_weights"
	TooManyWaiting         Code = "too_many_waiting"
	HostNotAllowed         Code = "host_not_allowed"
	NotDelayed             Code = "not_delayed"
	InvalidSchedule        Code = "invalid_schedule"
	TooManySchedules       Code = "too_many_schedules"
	InvalidAfter           Code = "invalid_after"
	InvalidBatch           Code = "invalid_batch"
	TooManyBatches         Code = "too_many_batches"
	InvalidClock           Code = "invalid_clock"
	BackupElsewhere        Code = "backup_elsewhere"
	NotSupported           Code = "not_supported"
)

// Refused is an answer: the server is well and says no.
type Refused struct {
	// Status is the HTTP status; 0 for an item of a batch or of a stream.
	Status int
	// Code is stable; act on it.
	Code Code
	// Text is for people.
	Text string
	// RequestID names the request in the server's log.
	RequestID string
	// Field is the field that was refused, where the server names one.
	Field string
}

func (r *Refused) Error() string {
	if r.Code == "" {
		return r.Text
	}
	return fmt.Sprintf("%s (%s)", r.Text, string(r.Code))
}

// Is compares with a Code.
func (r *Refused) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == r.Code
}

// Absent is no answer, or one that says to come back later: whether a write took effect is unknown. Calls repeat it;
// when they give up, they return it. Links return it to have a report repeated.
type Absent struct {
	Text string
	// RetryAfter is what the server asks for, or 0.
	RetryAfter time.Duration
	// NotSent is true if nothing can have been done.
	NotSent bool
	// Cause is the last refusal (429 or 503), or what broke.
	Cause error
}

func (a *Absent) Error() string { return "no answer: " + a.Text }

// Unwrap gives the refusal or the failure behind it.
func (a *Absent) Unwrap() error { return a.Cause }

// ErrNotFinished says that a task had not ended when the time of a wait was up.
var ErrNotFinished = errors.New("the task has not ended")

// TaskFailed says that a task ended without completing.
type TaskFailed struct {
	TaskID string
	Text   string
	// Reason is why it failed if no worker failed it: MAX_ATTEMPTS, CANCELLED, EXPIRED, DEPENDENCY.
	Reason string
}

func (f *TaskFailed) Error() string {
	if f.Text == "" {
		return "task failed: " + f.Reason
	}
	return "task failed: " + f.Text
}

// isGone tells the refusals of a report that mean: the task has moved on, drop it.
func isGone(err error) bool {
	for _, code := range []Code{TaskNotFound, LeaseLost, NotInProgress, Cancelled, NotOwner} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// isFinal tells the refusals after which sending the same report again is of no use: the server will never take it. Anything
// else may pass: a token is replaced, a scope granted, a proxy mended. Items of a batch have no status.
func isFinal(err error) bool {
	var refused *Refused
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Status {
	case 0, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

type errorBody struct {
	Error     string `json:"error"`
	Code      Code   `json:"code"`
	RequestID string `json:"requestId"`
	Field     string `json:"field"`
}

func refusal(status int, body []byte, requestID string) *Refused {
	var said errorBody
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		said.Error = fmt.Sprintf("status %d", status)
	}
	if said.RequestID == "" {
		said.RequestID = requestID
	}
	return &Refused{Status: status, Code: said.Code, Text: said.Error, RequestID: said.RequestID, Field: said.Field}
}
