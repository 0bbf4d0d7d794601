package codeq

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"
)

// NewTask is what a create asks for. Make it with [New] and its options, or fill it in.
type NewTask struct {
	Command        string            `json:"command"`
	Payload        json.RawMessage   `json:"payload"`
	IdempotencyKey string            `json:"idempotencyKey,omitempty"`
	Priority       int               `json:"priority,omitempty"`
	DelaySeconds   int64             `json:"delaySeconds,omitempty"`
	RunAt          *time.Time        `json:"runAt,omitempty"`
	MaxAttempts    int               `json:"maxAttempts,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	Webhook        string            `json:"webhook,omitempty"`

	Lane                string     `json:"lane,omitempty"`
	Unique              *Unique    `json:"unique,omitempty"`
	ExpireSeconds       int64      `json:"expireSeconds,omitempty"`
	ExpiresAt           *time.Time `json:"expiresAt,omitempty"`
	After               []string   `json:"after,omitempty"`
	OnDependencyFailure string     `json:"onDependencyFailure,omitempty"`
	BatchID             string     `json:"batchId,omitempty"`
	Tags                []string   `json:"tags,omitempty"`
	MaxRunSeconds       int64      `json:"maxRunSeconds,omitempty"`
}

// Unique says that of all tasks of a command with one key, one lives at a time.
type Unique struct {
	Key string `json:"key"`
	// Until is "started", "ended" (if empty), or seconds as an int.
	Until any `json:"until,omitempty"`
	// OnConflict is "keep" (if empty), "replace" or "cancel".
	OnConflict     string `json:"onConflict,omitempty"`
	MaxWaitSeconds int64  `json:"maxWaitSeconds,omitempty"`
}

// CreateOption is one option of a create.
type CreateOption func(*NewTask)

// New is a task to create. The payload is anything that JSON can say; a json.RawMessage is sent as it is.
func New(command string, payload any, options ...CreateOption) (NewTask, error) {
	text, err := marshal(payload)
	if err != nil {
		return NewTask{}, fmt.Errorf("payload of %s: %w", command, err)
	}
	task := NewTask{Command: command, Payload: text}
	for _, option := range options {
		option(&task)
	}
	return task, nil
}

// Priority is 0 to 9, higher first.
func Priority(priority int) CreateOption { return func(t *NewTask) { t.Priority = priority } }

// Delay is how long the task is not delivered.
func Delay(delay time.Duration) CreateOption {
	return func(t *NewTask) { t.DelaySeconds = wholeSeconds(delay) }
}

// RunAt is when the task is delivered at the earliest. It wins over Delay.
func RunAt(at time.Time) CreateOption { return func(t *NewTask) { t.RunAt = &at } }

// MaxAttempts is how many deliveries there are before the task is a dead letter.
func MaxAttempts(attempts int) CreateOption { return func(t *NewTask) { t.MaxAttempts = attempts } }

// Key is the idempotency key. One is made for the call if there is none.
func Key(key string) CreateOption { return func(t *NewTask) { t.IdempotencyKey = key } }

// Header adds small metadata: at most 16 entries, 4 KiB.
func Header(name, value string) CreateOption {
	return func(t *NewTask) {
		if t.Headers == nil {
			t.Headers = map[string]string{}
		}
		t.Headers[name] = value
	}
}

// Webhook is where the result is posted.
func Webhook(url string) CreateOption { return func(t *NewTask) { t.Webhook = url } }

// Lane is shared by tasks that share fairness and limits.
func Lane(lane string) CreateOption { return func(t *NewTask) { t.Lane = lane } }

// OnlyOne makes the task unique.
func OnlyOne(unique Unique) CreateOption { return func(t *NewTask) { t.Unique = &unique } }

// ExpiresIn is when a task that was not started fails with EXPIRED.
func ExpiresIn(span time.Duration) CreateOption {
	return func(t *NewTask) { t.ExpireSeconds = max(1, wholeSeconds(span)) }
}

// ExpiresAt is ExpiresIn as an instant.
func ExpiresAt(at time.Time) CreateOption { return func(t *NewTask) { t.ExpiresAt = &at } }

// After are ids of tasks and batches that have to end first.
func After(ids ...string) CreateOption { return func(t *NewTask) { t.After = append(t.After, ids...) } }

// RunAfterFailure lets the task run also when something it waits for fails; otherwise it is cancelled then.
func RunAfterFailure() CreateOption { return func(t *NewTask) { t.OnDependencyFailure = "run" } }

// InBatch is the batch that the task joins.
func InBatch(id string) CreateOption { return func(t *NewTask) { t.BatchID = id } }

// Tags label a task.
func Tags(tags ...string) CreateOption { return func(t *NewTask) { t.Tags = append(t.Tags, tags...) } }

// MaxRun is the longest run of one attempt.
func MaxRun(span time.Duration) CreateOption {
	return func(t *NewTask) { t.MaxRunSeconds = max(1, wholeSeconds(span)) }
}

// WithKey gives the task an idempotency key if it has none, so that its create can be repeated.
func (t NewTask) WithKey() NewTask {
	if t.IdempotencyKey == "" {
		t.IdempotencyKey = randomKey()
	}
	return t
}

// wholeSeconds rounds up: never earlier than asked for.
func wholeSeconds(span time.Duration) int64 {
	return int64((span + time.Second - 1) / time.Second)
}

func randomKey() string {
	var key [16]byte
	// It does not fail: see the documentation of crypto/rand.
	_, _ = rand.Read(key[:])
	return fmt.Sprintf("%x", key)
}
