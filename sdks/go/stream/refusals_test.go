package stream

import (
	"errors"
	"testing"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/stream/internal/workerpb"
)

func TestTextsOfStreamsHaveTheCodesOfHTTP(t *testing.T) {
	wanted := map[string]codeq.Code{
		"task not found":                "task_not_found",
		"not-owner":                     "not_owner",
		"command is required":           "invalid_command",
		"delaySeconds must be >= 0":     "invalid_delay",
		"missing scope":                 "missing_scope",
		"event type not allowed":        "event_type_not_allowed",
		"unknown dependency 5f0c":       "unknown_dependency",
		`invalid payload: "x" is short`: "payload_invalid",
		"invalid payload":               "invalid_body",
		"invalid 'lane' (at most 128 bytes, no control characters)": "invalid_lane",
		`invalid status (must be COMPLETED or FAILED): "X"`:         "invalid_status",
		"batch size exceeds maximum of 1000":                        "batch_too_large",
		"unique keys are not supported by this store":               "not_supported",
		"something new": "",
	}
	for text, code := range wanted {
		var refused *codeq.Refused
		if err := ackError(false, text); !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"storage unavailable", "internal error", "shutting down"} {
		var absent *codeq.Absent
		if err := ackError(false, text); !errors.As(err, &absent) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func hears(l *Link, name, text string) {
	said := &workerpb.ServerError{Code: name, Message: text}
	l.heard(&workerpb.ServerEvent{Event: &workerpb.ServerEvent_Error{Error: said}})
}

func TestAnErrorOfTheServerReachesReportsThatWaitForAnAck(t *testing.T) {
	l := NewLink("127.0.0.1:1", Static("token"), "name")
	answered := l.acks.add(reportKey{"result", "task"})
	hears(l, "PermissionDenied", "missing scope")
	var refused *codeq.Refused
	if err := <-answered; !errors.As(err, &refused) || refused.Status != 403 || refused.Code != codeq.MissingScope {
		t.Fatal(err)
	}

	l.isReady = true
	answered = l.acks.add(reportKey{"result", "task"})
	hears(l, "InvalidArgument", "invalid command")
	if err := <-l.gone; !errors.Is(err, codeq.InvalidCommand) {
		t.Fatal(err)
	}
	// It was the Ready: the result is sent again.
	var absent *codeq.Absent
	if err := <-answered; !errors.As(err, &absent) {
		t.Fatal(err)
	}
}
