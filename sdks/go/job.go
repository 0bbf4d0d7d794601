package codeq

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// Why the context of a handler ended; context.Cause tells.
var (
	// ErrCancelRequested: somebody asks for the end. What the handler reports until the deadline still counts. The cause
	// is a *[CancelRequest], which errors.Is takes for this.
	ErrCancelRequested = errors.New("the task was asked to stop")
	// ErrLeaseLost: the task is not ours any more. What the handler reports is dropped.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrShutdown: the worker ends. The task is given back at no cost.
	ErrShutdown = errors.New("the worker ends")
)

// Job is one attempt in the hands of a handler.
type Job[P any] struct {
	*Attempt
	Payload P
}

// Attempt is what a handler can know and say about the task in its hands, whatever its payload.
type Attempt struct {
	// Task is everything as the server sent it.
	Task *Task
	// ID and Number only grow together: use them for fencing.
	ID string
	// Number is the number of this delivery, from 1.
	Number  int
	Headers map[string]string
	Lane    string
	// Saved is what an earlier attempt saved last with Checkpoint, or nil.
	Saved json.RawMessage

	lock      sync.Mutex
	artifacts []ArtifactIn
	until     time.Time
	say       func(Heartbeat) error
}

func newAttempt(task *Task, until time.Time, say func(Heartbeat) error) *Attempt {
	return &Attempt{
		Task: task, ID: task.ID, Number: max(1, task.Attempts), Headers: task.Headers, Lane: task.Lane,
		Saved: task.Checkpoint, until: until, say: say,
	}
}

// Deadline is when the lease ends if no further heartbeat gets through.
func (a *Attempt) Deadline() time.Time {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.until
}

// Attach adds a file to the result; it is sent with it.
func (a *Attempt) Attach(name string, content []byte, contentType string) error {
	return a.attach(ArtifactIn{Name: name, ContentBase64: content, ContentType: contentType})
}

// AttachLink adds a link to the result.
func (a *Attempt) AttachLink(name, url string) error {
	return a.attach(ArtifactIn{Name: name, URL: url})
}

func (a *Attempt) attach(one ArtifactIn) error {
	a.lock.Lock()
	defer a.lock.Unlock()
	if len(a.artifacts) == maxArtifacts {
		return errors.New("a result has at most 16 artifacts")
	}
	a.artifacts = append(a.artifacts, one)
	return nil
}

// Progress shows how far the work is, at most 4 KiB of JSON. It is advisory: the last value counts.
func (a *Attempt) Progress(value any) error {
	text, err := marshal(value)
	if err != nil {
		return err
	}
	return a.say(Heartbeat{Progress: text})
}

// Checkpoint saves where the next attempt can go on, at most 64 KiB of JSON. It is durable when this returns.
func (a *Attempt) Checkpoint(value any) error {
	text, err := marshal(value)
	if err != nil {
		return err
	}
	if err := a.say(Heartbeat{Checkpoint: text}); err != nil {
		return err
	}
	a.Saved = text
	return nil
}

// FailError ends a task as FAILED; see [Fail].
type FailError struct{ Text string }

func (f *FailError) Error() string { return f.Text }

// Fail is returned by a handler to end the task as FAILED: there is no further attempt.
func Fail(text string) error { return &FailError{text} }

// RetryError has a task delivered again; see [Retry].
type RetryError struct {
	Reason string
	Delay  time.Duration
	Hold   string
}

func (r *RetryError) Error() string { return r.Reason }

// Retry is returned by a handler to have the task delivered again after the delay.
func Retry(delay time.Duration, reason string) error {
	return &RetryError{Reason: reason, Delay: delay}
}

// RetryHoldingLane also keeps everything else of the lane back, and the attempt does not count.
func RetryHoldingLane(delay time.Duration, reason string) error {
	return &RetryError{Reason: reason, Delay: delay, Hold: "lane"}
}

// RetryHoldingQueue also keeps everything else of the queue back, and the attempt does not count.
func RetryHoldingQueue(delay time.Duration, reason string) error {
	return &RetryError{Reason: reason, Delay: delay, Hold: "queue"}
}

// Next calls the handler, or the next layer around it. What it returns is the result before it becomes JSON.
type Next func(ctx context.Context) (any, error)

// Middleware runs around every handler.
type Middleware func(ctx context.Context, attempt *Attempt, next Next) (any, error)
