package stream

import (
	"net/http"
	"strings"

	codeq "github.com/codeq/codeq/sdks/go"
)

// codes are those of the texts that streams say; HTTP sends both.
var codes = map[string]codeq.Code{
	"task not found":                  codeq.TaskNotFound,
	"not-found":                       codeq.TaskNotFound,
	"lease-lost":                      codeq.LeaseLost,
	"cancelled":                       codeq.Cancelled,
	"not-in-progress":                 codeq.NotInProgress,
	"not-owner":                       codeq.NotOwner,
	"unknown-event":                   codeq.InvalidBody,
	"batch not found":                 codeq.BatchNotFound,
	"the batch is closed":             codeq.BatchClosed,
	"the queue is full":               codeq.QueueFull,
	"another task has the unique key": codeq.UniqueConflict,

	"command is required":                          codeq.InvalidCommand,
	"invalid command":                              codeq.InvalidCommand,
	"invalid webhook url":                          codeq.InvalidWebhookURL,
	"invalid 'runAt' (use RFC3339)":                codeq.InvalidRunAt,
	"invalid 'runAt' (at most 366 days ahead)":     codeq.InvalidRunAt,
	"delaySeconds must be >= 0":                    codeq.InvalidDelay,
	"invalid 'delaySeconds' (must be >= 0)":        codeq.InvalidDelay,
	"invalid 'delaySeconds' (must be <= 31622400)": codeq.InvalidDelay,
	"refund needs 'delaySeconds' of at least 1":    codeq.InvalidDelay,
	"invalid idempotencyKey (max 255 bytes)":       codeq.InvalidIdempotencyKey,
	"invalid headers":                              codeq.InvalidHeaders,
	"invalid payload":                              codeq.InvalidBody,
	"invalid body":                                 codeq.InvalidBody,
	"invalid result_json":                          codeq.InvalidBody,
	"nil result":                                   codeq.InvalidBody,
	"payload too large":                            codeq.PayloadTooLarge,
	"progress too large (max 4096 bytes)":          codeq.ProgressTooLarge,
	"checkpoint too large (max 65536 bytes)":       codeq.CheckpointTooLarge,
	"error required when status=FAILED":            codeq.ErrorRequired,
	"result required when status=COMPLETED":        codeq.ResultRequired,
	"invalid 'order' (use listed or fair)":         codeq.InvalidOrder,
	"workerId is required":                         codeq.WorkerIDRequired,

	"missing scope":          codeq.MissingScope,
	"event type not allowed": codeq.EventTypeNotAllowed,
	"invalid tenant claims":  codeq.InvalidTenant,
}

// beginnings are those of texts that go on with what is wrong.
var beginnings = []struct {
	text string
	code codeq.Code
}{
	{"invalid 'lane'", codeq.InvalidLane},
	{"invalid 'tags'", codeq.InvalidTags},
	{"invalid 'unique'", codeq.InvalidUnique},
	{"invalid expiry", codeq.InvalidExpiry},
	{"invalid 'maxRunSeconds'", codeq.InvalidMaxRun},
	{"invalid 'hold'", codeq.InvalidHold},
	{"invalid 'after'", codeq.InvalidAfter},
	{"invalid 'weights'", codeq.InvalidWeights},
	{"invalid payload: ", codeq.PayloadInvalid},
	{"invalid status", codeq.InvalidStatus},
	{"invalid worker", codeq.InvalidWorker},
	{"unknown dependency ", codeq.UnknownDependency},
	{"batch size exceeds maximum of ", codeq.BatchTooLarge},
	{"too many calls of the tenant are waiting", codeq.TooManyWaiting},
}

func codeOf(text string) codeq.Code {
	if code, ok := codes[text]; ok {
		return code
	}
	for _, known := range beginnings {
		if strings.HasPrefix(text, known.text) {
			return known.code
		}
	}
	if strings.HasSuffix(text, " are not supported by this store") {
		return codeq.NotSupported
	}
	return ""
}

// ackError is what an ack says.
func ackError(ok bool, text string) error {
	if ok {
		return nil
	}
	switch text {
	case "storage unavailable", "internal error", "shutting down":
		return &codeq.Absent{Text: text}
	}
	return &codeq.Refused{Code: codeOf(text), Text: text}
}

// serverError is an event that was refused without an ack; the name is that of a gRPC status.
func serverError(name, text string) error {
	refused := &codeq.Refused{Code: codeOf(text), Text: text}
	switch {
	case name == "ResourceExhausted" || name == "Internal" || refused.Code == codeq.TooManyWaiting:
		return &codeq.Absent{Text: text, Cause: refused}
	case name == "PermissionDenied":
		refused.Status = http.StatusForbidden
	default:
		refused.Status = http.StatusBadRequest
	}
	return refused
}
