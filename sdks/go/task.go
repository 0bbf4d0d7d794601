package codeq

import (
	"context"
	"encoding/json"
	"time"
)

// Task is a task as the server knew it when it was read.
type Task struct {
	ID      string `json:"id"`
	Command string `json:"command"`
	// Payload is the exact JSON text as a string of its own; see Decode.
	Payload string `json:"payload"`
	// Status is PENDING, IN_PROGRESS, COMPLETED or FAILED.
	Status      string            `json:"status"`
	Priority    int               `json:"priority"`
	Headers     map[string]string `json:"headers"`
	Attempts    int               `json:"attempts"`
	Refunds     int               `json:"refunds"`
	MaxAttempts int               `json:"maxAttempts"`
	Error       string            `json:"error"`
	// LastKnownLocation is where the task is: a queue, the delayed ones, those that run, or the dead letters.
	LastKnownLocation string    `json:"lastKnownLocation"`
	WorkerID          string    `json:"workerId"`
	TraceParent       string    `json:"traceParent"`
	TraceState        string    `json:"traceState"`
	CreatedAt         time.Time `json:"createdAt"`
	UpdatedAt         time.Time `json:"updatedAt"`

	Lane       string          `json:"lane"`
	Checkpoint json.RawMessage `json:"checkpoint"`
	Progress   json.RawMessage `json:"progress"`
	Tags       []string        `json:"tags"`
	BatchID    string          `json:"batchId"`

	// LentAt is before the claim that brought the task was asked for, by our clock: leases are counted from it. Zero if a Link
	// does not know; then they are counted from when the task came.
	LentAt time.Time `json:"-"`

	// Replayed is true if the idempotency key, or the key of Unique, named a task that was there already: this one.
	Replayed bool `json:"-"`

	client *Client
}

// Decode reads the payload into a value.
func (t *Task) Decode(into any) error { return json.Unmarshal([]byte(t.Payload), into) }

// Wait waits for the end of the task, whatever it is, or for the end of the context.
func (t *Task) Wait(ctx context.Context) (*Outcome, error) { return t.client.Wait(ctx, t.ID) }

// Outcome is how a task ended.
type Outcome struct {
	TaskID string `json:"taskId"`
	// Status is COMPLETED or FAILED.
	Status string `json:"status"`
	// Value is what the handler returned, as JSON text.
	Value json.RawMessage `json:"result"`
	Error string          `json:"error"`
	// FailureReason is why it failed if no worker failed it.
	FailureReason string     `json:"failureReason"`
	Artifacts     []Artifact `json:"artifacts"`
	CompletedAt   time.Time  `json:"completedAt"`
}

// Artifact is a file or a link that belongs to a result.
type Artifact struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Result waits for what the handler of a task returned. A task that did not complete is a *TaskFailed.
func Result[R any](ctx context.Context, task *Task) (R, error) {
	var value R
	outcome, err := task.Wait(ctx)
	if err != nil {
		return value, err
	}
	if outcome.Status != "COMPLETED" {
		return value, &TaskFailed{TaskID: task.ID, Text: outcome.Error, Reason: outcome.FailureReason}
	}
	err = unwrap(outcome.Value, &value)
	return value, err
}

// unwrap reads a result; one that is no object stands under "value".
func unwrap[R any](text json.RawMessage, into *R) error {
	if err := json.Unmarshal(text, into); err == nil {
		return nil
	}
	var wrapped struct{ Value json.RawMessage }
	if err := json.Unmarshal(text, &wrapped); err != nil || wrapped.Value == nil {
		return json.Unmarshal(text, into)
	}
	return json.Unmarshal(wrapped.Value, into)
}
