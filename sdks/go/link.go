package codeq

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"time"
)

// Link is how a worker speaks to the server: over HTTP, or over a stream (package stream). Its methods make one try; a
// [Refused] is an answer, an [Absent] is tried again by the worker.
type Link interface {
	// Claim waits for work, up to count tasks, a while or until the context ends. No tasks and no error: there were none.
	Claim(ctx context.Context, asked Claim) ([]Task, error)
	// Heartbeat extends a lease.
	Heartbeat(ctx context.Context, beat Heartbeat) (Kept, error)
	// Report tells how an attempt ended.
	Report(ctx context.Context, report Report) error
	// Close ends the link.
	Close() error
}

// Claim is what a worker asks for.
type Claim struct {
	Commands []string
	Lease    time.Duration
	Count    int
	Weights  map[string]int
	Worker   WorkerInfo
}

// WorkerInfo says who claims, for operators.
type WorkerInfo struct {
	Name    string `json:"-"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	SDK     string `json:"sdk"`
	Version string `json:"version"`
	Slots   int    `json:"slots"`
}

// Heartbeat extends the lease of an attempt, and may carry something.
type Heartbeat struct {
	TaskID     string
	Attempt    int
	Lease      time.Duration
	Progress   json.RawMessage
	Checkpoint json.RawMessage
}

// Kept is the answer to a heartbeat.
type Kept struct {
	// Cancel is set if somebody asks the handler to stop.
	Cancel *CancelRequest `json:"cancel"`
}

// CancelRequest asks a handler to stop; what it reports until the deadline counts. It is the cause of the end of the
// handler's context.
type CancelRequest struct {
	Reason   string    `json:"reason"`
	Deadline time.Time `json:"deadline"`
}

func (c *CancelRequest) Error() string {
	if c.Reason == "" {
		return ErrCancelRequested.Error()
	}
	return ErrCancelRequested.Error() + ": " + c.Reason
}

// Is makes it an ErrCancelRequested.
func (c *CancelRequest) Is(target error) bool { return target == ErrCancelRequested }

// CancelTeller is a link that hears of requests to stop between heartbeats.
type CancelTeller interface {
	OnCancel(hear func(taskID string, attempt int, asked CancelRequest))
}

// Verb is what a report says.
type Verb string

// The verbs of reports.
const (
	Complete Verb = "complete"
	FailTask Verb = "fail"
	Nack     Verb = "nack"
	GiveBack Verb = "give back"
)

// Report tells how an attempt ended.
type Report struct {
	TaskID    string
	Attempt   int
	Verb      Verb
	Result    json.RawMessage
	Text      string
	Delay     time.Duration
	Hold      string
	Artifacts []ArtifactIn
}

// ArtifactIn is a file or a link that goes with a result.
type ArtifactIn struct {
	Name          string `json:"name"`
	URL           string `json:"url,omitempty"`
	ContentBase64 []byte `json:"contentBase64,omitempty"`
	ContentType   string `json:"contentType,omitempty"`
}

// httpLink claims and reports over HTTP. Results that are ready together go as one batch.
type httpLink struct {
	transport *transport
	worker    string

	lock     sync.Mutex
	waiting  []waitingResult
	underWay int
}

type waitingResult struct {
	text     json.RawMessage
	answered chan error
}

func (l *httpLink) Close() error { return nil }

func (l *httpLink) post(ctx context.Context, path string, fields any, wait time.Duration) (*answer, error) {
	body, err := marshal(fields)
	if err != nil {
		return nil, &Refused{Text: "it cannot be written as JSON: " + err.Error()}
	}
	return l.transport.once(ctx, call{method: http.MethodPost, path: path, body: body, wait: wait, worker: l.worker})
}

// Claim takes what is there now; if there is nothing, it waits a while for one task, or for the end of the context.
//
// Only the wait is interrupted, and then the server lends nothing to it. The first request is always seen through: what it
// brings must be given back, and not be left to the end of its lease.
func (l *httpLink) Claim(ctx context.Context, asked Claim) ([]Task, error) {
	fields := map[string]any{
		"commands":     asked.Commands,
		"leaseSeconds": wholeSeconds(asked.Lease),
		"order":        "fair",
		"worker":       asked.Worker,
		"count":        min(asked.Count, batchItems),
	}
	if len(asked.Weights) > 0 {
		fields["weights"] = asked.Weights
	}
	asking := time.Now()
	got, err := l.post(context.WithoutCancel(ctx), "/tasks/claim/batch", fields, 0)
	if err != nil {
		return nil, err
	}
	if got.status != http.StatusNoContent {
		var said struct{ Tasks []Task }
		err := understood(got.body, &said)
		return lentSince(asking, said.Tasks), err
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	delete(fields, "count")
	// At most half of a lease, so that one counted from here has the other half left.
	half := asked.Lease / 2
	wait := max(time.Second, min(claimWait, half.Truncate(time.Second)))
	fields["waitSeconds"] = wholeSeconds(wait)
	asking = time.Now()
	got, err = l.post(ctx, "/tasks/claim", fields, wait)
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	if err != nil || got.status == http.StatusNoContent {
		return nil, err
	}
	one := make([]Task, 1)
	if err := understood(got.body, &one[0]); err != nil {
		return nil, err
	}
	// Waits are whole seconds: a lease of less than two cannot be counted from before all of it.
	if latest := time.Now().Add(-half); wait > half && asking.Before(latest) {
		asking = latest
	}
	return lentSince(asking, one), nil
}

func lentSince(asking time.Time, tasks []Task) []Task {
	for at := range tasks {
		tasks[at].LentAt = asking
	}
	return tasks
}

func (l *httpLink) Heartbeat(ctx context.Context, beat Heartbeat) (Kept, error) {
	fields := map[string]any{"extendSeconds": wholeSeconds(beat.Lease), "attempt": beat.Attempt}
	if beat.Progress != nil {
		fields["progress"] = beat.Progress
	}
	if beat.Checkpoint != nil {
		fields["checkpoint"] = beat.Checkpoint
	}
	var kept Kept
	got, err := l.post(ctx, "/tasks/"+url.PathEscape(beat.TaskID)+"/heartbeat", fields, 0)
	if err == nil {
		// An answer that is not understood was a yes all the same.
		_ = json.Unmarshal(got.body, &kept)
	}
	return kept, err
}

func (l *httpLink) Report(ctx context.Context, report Report) error {
	path := "/tasks/" + url.PathEscape(report.TaskID)
	switch report.Verb {
	case GiveBack:
		_, err := l.post(ctx, path+"/abandon", map[string]any{"attempt": report.Attempt, "refund": true}, 0)
		return err
	case Nack:
		fields := map[string]any{"attempt": report.Attempt, "reason": report.Text}
		if report.Delay > 0 {
			fields["delaySeconds"] = wholeSeconds(report.Delay)
		}
		if report.Hold != "" {
			fields["hold"] = report.Hold
		}
		_, err := l.post(ctx, path+"/nack", fields, 0)
		return err
	}
	fields := map[string]any{"taskId": report.TaskID, "attempt": report.Attempt, "status": "FAILED"}
	if report.Verb == Complete {
		fields["status"], fields["result"] = "COMPLETED", report.Result
	} else {
		fields["error"] = report.Text
	}
	if len(report.Artifacts) > 0 {
		fields["artifacts"] = report.Artifacts
	}
	text, err := marshal(fields)
	if err != nil {
		return &Refused{Text: "it cannot be written as JSON: " + err.Error()}
	}
	return l.enqueue(ctx, text)
}

// enqueue puts a result into the next batch and waits for its answer.
func (l *httpLink) enqueue(ctx context.Context, text json.RawMessage) error {
	one := waitingResult{text, make(chan error, 1)}
	l.lock.Lock()
	l.waiting = append(l.waiting, one)
	if l.underWay < batchesAtOnce {
		l.underWay++
		go l.drain()
	}
	l.lock.Unlock()
	select {
	case err := <-one.answered:
		return err
	case <-ctx.Done():
		return &Absent{Text: context.Cause(ctx).Error(), Cause: context.Cause(ctx)}
	}
}

func (l *httpLink) drain() {
	// Handlers that end together are reported together.
	runtime.Gosched()
	for {
		l.lock.Lock()
		batch := l.nextBatch()
		if len(batch) == 0 {
			l.underWay--
			l.lock.Unlock()
			return
		}
		l.lock.Unlock()
		l.sendBatch(batch)
	}
}

func (l *httpLink) nextBatch() []waitingResult {
	count, size := 0, 0
	for count < len(l.waiting) && count < batchItems {
		size += len(l.waiting[count].text)
		if count > 0 && size > resultBatchBytes {
			break
		}
		count++
	}
	batch := l.waiting[:count:count]
	l.waiting = l.waiting[count:]
	return batch
}

func (l *httpLink) sendBatch(batch []waitingResult) {
	texts := make([]json.RawMessage, len(batch))
	for at, one := range batch {
		texts[at] = one.text
	}
	var said struct{ Results []json.RawMessage }
	got, err := l.post(context.Background(), "/tasks/batch/results", map[string]any{"results": texts}, 0)
	if err == nil {
		err = understood(got.body, &said)
	}
	if err == nil && len(said.Results) != len(batch) {
		err = &Absent{Text: "an answer of another length"}
	}
	if isFinal(err) && len(batch) > 1 {
		// One of them is to blame, and must not take the others with it.
		for at := range batch {
			l.sendBatch(batch[at : at+1])
		}
		return
	}
	for at, one := range batch {
		if err != nil {
			one.answered <- err
		} else {
			one.answered <- itemError(said.Results[at])
		}
	}
}

func itemError(raw json.RawMessage) error {
	var item errorBody
	if json.Unmarshal(raw, &item) != nil || item.Code == "" {
		return nil
	}
	refused := refusal(0, raw, "")
	switch refused.Code {
	case Internal, StorageUnavailable, ShuttingDown:
		return &Absent{Text: refused.Text, Cause: refused}
	}
	return refused
}

// understood reads an answer. One that is not ours, such as the page of a proxy, is no answer.
func understood(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return &Absent{Text: "an answer that is not understood: " + err.Error(), Cause: err}
	}
	return nil
}

// Link is the client's way to speak as a worker over HTTP.
func (c *Client) Link(worker string) Link {
	return &httpLink{transport: c.transport, worker: worker}
}
