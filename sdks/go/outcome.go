package codeq

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// reportFor says what the end of a handler means.
func reportFor(attempt *Attempt, value any, err error) Report {
	attempt.lock.Lock()
	defer attempt.lock.Unlock()
	report := Report{TaskID: attempt.ID, Attempt: attempt.Number, Artifacts: attempt.artifacts}
	var fail *FailError
	var retry *RetryError
	switch {
	case errors.As(err, &fail):
		report.Verb, report.Text = FailTask, words(err.Error(), "failed")
	case errors.As(err, &retry):
		report.Verb, report.Text = Nack, words(err.Error(), "retry")
		report.Delay, report.Hold = max(0, retry.Delay), retry.Hold
	case err != nil:
		report.Verb, report.Text = Nack, words(err.Error(), "error")
	default:
		report.Verb = Complete
		if report.Result, err = object(value); err != nil {
			report.Verb, report.Text = FailTask, words("the result was not taken: "+err.Error(), "")
		}
	}
	return report
}

// object makes results JSON objects: nil becomes {}, any other value that is no object {"value": ...}.
func object(value any) (json.RawMessage, error) {
	text, err := marshal(value)
	if err != nil {
		return nil, err
	}
	switch {
	case string(text) == "null":
		return json.RawMessage("{}"), nil
	case strings.HasPrefix(strings.TrimSpace(string(text)), "{"):
		return text, nil
	}
	return json.RawMessage(`{"value":` + string(text) + `}`), nil
}

// words cuts a text to what is kept of it, at a character's boundary.
func words(text, otherwise string) string {
	if strings.TrimSpace(text) == "" {
		text = otherwise
	}
	if len(text) > errorBytes {
		text = text[:errorBytes]
		for !utf8.ValidString(text) && len(text) > errorBytes-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
