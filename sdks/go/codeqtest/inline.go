// Package codeqtest helps to test handlers: in this process without a server, or with `codeq dev` on a free port.
package codeqtest

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
)

// maxAttempts is what the server does if a create does not say.
const maxAttempts = 5

// Task is a task of a [Queue] and what became of it.
type Task struct {
	ID            string
	New           codeq.NewTask
	Status        string
	Attempts      int
	Refunds       int
	Result        json.RawMessage
	Error         string
	FailureReason string
	Artifacts     []codeq.ArtifactIn
	Progress      []json.RawMessage
	Checkpoint    json.RawMessage

	due   time.Duration
	order int
}

// Queue runs the handlers of a worker in this process. Time stands still unless Advance moves it; retries wait for the
// delay that the handler asked for, others for nothing.
type Queue struct {
	t      testing.TB
	worker *codeq.Worker
	tasks  []*Task
	now    time.Duration
}

// New is a queue for a test.
func New(t testing.TB, worker *codeq.Worker) *Queue { return &Queue{t: t, worker: worker} }

// Create puts a task into the queue; a key that is there already gives its task.
func (q *Queue) Create(command string, payload any, options ...codeq.CreateOption) *Task {
	q.t.Helper()
	made, err := codeq.New(command, payload, options...)
	if err != nil {
		q.t.Fatal(err)
	}
	for _, held := range q.tasks {
		if made.IdempotencyKey != "" && held.New.IdempotencyKey == made.IdempotencyKey && held.New.Command == command {
			return held
		}
	}
	task := &Task{ID: fmt.Sprintf("inline-%d", len(q.tasks)+1), New: made, Status: "PENDING", order: len(q.tasks)}
	task.due = q.now + time.Duration(made.DelaySeconds)*time.Second
	if made.RunAt != nil {
		task.due = q.now + max(0, time.Until(*made.RunAt))
	}
	q.tasks = append(q.tasks, task)
	return task
}

// Drain runs everything that is due, until nothing is left. It tells how many attempts that was.
func (q *Queue) Drain() int {
	q.t.Helper()
	count := 0
	for task := q.next(q.now); task != nil; task = q.next(q.now) {
		q.attempt(task)
		count++
	}
	return count
}

// Advance moves the clock and runs what falls due, in order of time.
func (q *Queue) Advance(span time.Duration) int {
	q.t.Helper()
	end, count := q.now+span, 0
	for task := q.next(end); task != nil; task = q.next(end) {
		q.now = max(q.now, task.due)
		count += q.Drain()
	}
	q.now = end
	return count
}

func (q *Queue) next(until time.Duration) *Task {
	var due []*Task
	for _, task := range q.tasks {
		if task.Status == "PENDING" && task.due <= until {
			due = append(due, task)
		}
	}
	sort.SliceStable(due, func(a, b int) bool {
		x, y := due[a], due[b]
		if x.due != y.due {
			return x.due < y.due
		}
		return x.New.Priority > y.New.Priority
	})
	if len(due) == 0 {
		return nil
	}
	return due[0]
}

func (q *Queue) attempt(task *Task) {
	q.t.Helper()
	task.Attempts++
	given := &codeq.Task{
		ID: task.ID, Command: task.New.Command, Payload: string(task.New.Payload), Status: "IN_PROGRESS",
		Attempts: task.Attempts, Headers: task.New.Headers, Lane: task.New.Lane, Checkpoint: task.Checkpoint,
	}
	report, err := q.worker.Attempt(context.Background(), given, func(beat codeq.Heartbeat) error {
		if beat.Progress != nil {
			task.Progress = append(task.Progress, beat.Progress)
		}
		if beat.Checkpoint != nil {
			task.Checkpoint = beat.Checkpoint
		}
		return nil
	})
	if err != nil {
		q.t.Fatal(err)
	}
	q.end(task, report)
}

func (q *Queue) end(task *Task, report codeq.Report) {
	task.Error, task.Artifacts = report.Text, report.Artifacts
	switch report.Verb {
	case codeq.Complete:
		task.Status, task.Result = "COMPLETED", report.Result
	case codeq.FailTask:
		task.Status = "FAILED"
	default:
		if report.Hold != "" {
			task.Refunds++
		}
		limit := task.New.MaxAttempts
		if limit <= 0 {
			limit = maxAttempts
		}
		if task.Attempts-task.Refunds >= limit {
			task.Status, task.FailureReason = "FAILED", "MAX_ATTEMPTS"
		}
		task.due = q.now + report.Delay
	}
}

// Completed are the tasks of a command that completed; of all commands if it is empty.
func (q *Queue) Completed(command string) []*Task { return q.with("COMPLETED", command) }

// Failed are the tasks of a command that failed.
func (q *Queue) Failed(command string) []*Task { return q.with("FAILED", command) }

// Pending are the tasks of a command that have not ended.
func (q *Queue) Pending(command string) []*Task { return q.with("PENDING", command) }

func (q *Queue) with(status, command string) []*Task {
	var found []*Task
	for _, task := range q.tasks {
		if task.Status == status && (command == "" || strings.EqualFold(task.New.Command, command)) {
			found = append(found, task)
		}
	}
	return found
}
