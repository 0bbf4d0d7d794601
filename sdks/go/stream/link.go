package stream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/stream/internal/workerpb"
)

// reportKey names an ack: one report of a kind per task is under way.
type reportKey struct{ kind, taskID string }

// Link is a worker's way to the server over a stream. Artifacts need HTTP: give the worker's client as well, see
// [Link.WithHTTP].
type Link struct {
	session[workerpb.WorkerEvent, workerpb.ServerEvent]
	acks  waits[reportKey]
	tasks chan []*workerpb.Task
	// gone tells a claim that its Ready went with a stream.
	gone chan error
	http codeq.Link
	// onCancel hears of requests to stop; set before the first claim.
	onCancel func(taskID string, attempt int, asked codeq.CancelRequest)
	info     codeq.WorkerInfo

	lock     sync.Mutex
	results  []*workerpb.Result
	isReady  bool
	underWay bool
}

// NewLink is a link to a worker's port. The name is that of the worker; leases belong to it and the token's subject.
func NewLink(address string, token Token, name string, options ...Option) *Link {
	l := &Link{tasks: make(chan []*workerpb.Task, 1), gone: make(chan error, 1)}
	l.session = session[workerpb.WorkerEvent, workerpb.ServerEvent]{
		target: targetOf(address, options),
		token:  token,
		open: func(ctx context.Context, conn *grpc.ClientConn) (grpc.BidiStreamingClient[workerpb.WorkerEvent, workerpb.ServerEvent], error) {
			return workerpb.NewWorkerStreamClient(conn).Stream(ctx)
		},
		hello: func(token string) *workerpb.WorkerEvent {
			return &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Hello{
				Hello: &workerpb.Hello{Token: token, WorkerId: name, Info: l.about(), AcceptsCancel: true}}}
		},
		heard:  l.heard,
		broken: l.broke,
	}
	return l
}

// OnCancel makes the link tell at once when a task is to stop, and not with its next heartbeat.
func (l *Link) OnCancel(hear func(taskID string, attempt int, asked codeq.CancelRequest)) {
	l.onCancel = hear
}

func (l *Link) about() *workerpb.WorkerInfo {
	l.lock.Lock()
	defer l.lock.Unlock()
	return &workerpb.WorkerInfo{Host: l.info.Host, Pid: int32(l.info.PID), Sdk: l.info.SDK, Version: l.info.Version,
		Slots: int32(l.info.Slots)}
}

func (l *Link) cancelled(cancel *workerpb.Cancel) {
	if cancel != nil && l.onCancel != nil {
		asked := codeq.CancelRequest{Reason: cancel.Reason, Deadline: cancel.Deadline.AsTime()}
		l.onCancel(cancel.TaskId, int(cancel.Attempt), asked)
	}
}

// Close ends the stream.
func (l *Link) Close() error { return l.session.close() }

func (l *Link) heard(event *workerpb.ServerEvent) {
	switch said := event.Event.(type) {
	case *workerpb.ServerEvent_Task:
		l.assigned([]*workerpb.Task{said.Task.Task})
	case *workerpb.ServerEvent_TaskBatch:
		l.assigned(said.TaskBatch.Tasks)
	case *workerpb.ServerEvent_ResultAck:
		l.acks.answer(reportKey{"result", said.ResultAck.TaskId}, ackError(said.ResultAck.Ok, said.ResultAck.ErrorMessage))
	case *workerpb.ServerEvent_ResultAckBatch:
		for _, ack := range said.ResultAckBatch.Acks {
			l.acks.answer(reportKey{"result", ack.TaskId}, ackError(ack.Ok, ack.ErrorMessage))
		}
	case *workerpb.ServerEvent_NackAck:
		l.acks.answer(reportKey{"nack", said.NackAck.TaskId}, ackError(said.NackAck.Ok, said.NackAck.ErrorMessage))
	case *workerpb.ServerEvent_AbandonAck:
		l.acks.answer(reportKey{"abandon", said.AbandonAck.TaskId}, ackError(said.AbandonAck.Ok, said.AbandonAck.ErrorMessage))
	case *workerpb.ServerEvent_HeartbeatAck:
		ack := said.HeartbeatAck
		l.cancelled(ack.Cancel)
		l.acks.answer(reportKey{"heartbeat", ack.TaskId}, ackError(ack.Ok, ack.ErrorMessage))
	case *workerpb.ServerEvent_Cancel:
		l.cancelled(said.Cancel)
	case *workerpb.ServerEvent_Error:
		l.refused(serverError(said.Error.Code, said.Error.Message))
	}
}

// refused tells of an event that was consumed without an answer; nobody knows which. It may be a Ready, so the claim must not
// wait for it, or a report, so nobody must wait for an ack. A missing right is told, after anything else reports are repeated:
// most of them were not meant.
func (l *Link) refused(err error) {
	l.unready(err)
	var refused *codeq.Refused
	if errors.As(err, &refused) && refused.Status != http.StatusForbidden {
		err = &codeq.Absent{Text: refused.Text, Cause: refused}
	}
	l.acks.failAll(err)
}

// assigned hands tasks to the claim that waits; the worker's claim is the only one. Without one, because the claim was told
// of an error that was not about its Ready, they are given back.
func (l *Link) assigned(tasks []*workerpb.Task) {
	if len(tasks) == 0 {
		return
	}
	l.lock.Lock()
	isAwaited := l.isReady
	l.isReady = false
	l.lock.Unlock()
	if !isAwaited {
		go l.giveBack(tasks)
		return
	}
	l.tasks <- tasks
}

func (l *Link) broke(err error) {
	l.acks.failAll(err)
	l.unready(err)
}

func (l *Link) unready(err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.isReady {
		l.isReady = false
		l.gone <- err
	}
}

// Claim sends a Ready and waits for what it brings. A Ready cannot be taken back: what it brings after the context ended is
// given back at no cost.
func (l *Link) Claim(ctx context.Context, asked codeq.Claim) ([]codeq.Task, error) {
	l.lock.Lock()
	l.isReady, l.info = true, asked.Worker
	l.lock.Unlock()
	ready := &workerpb.Ready{
		Commands: asked.Commands, LeaseSeconds: whole(asked.Lease), Count: int32(min(asked.Count, batchItems)),
		Order: "fair",
	}
	for command, weight := range asked.Weights {
		if ready.Weights == nil {
			ready.Weights = map[string]int32{}
		}
		ready.Weights[command] = int32(weight)
	}
	if err := l.send(ctx, &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Ready{Ready: ready}}); err != nil {
		l.lock.Lock()
		l.isReady = false
		l.lock.Unlock()
		select {
		case <-l.gone:
		default:
		}
		return nil, err
	}
	select {
	case tasks := <-l.tasks:
		return given(tasks), nil
	case err := <-l.gone:
		return nil, err
	case <-ctx.Done():
		go l.giveBackLate()
		return nil, nil
	}
}

// giveBackLate returns tasks that come for a Ready of a worker that has stopped claiming.
func (l *Link) giveBackLate() {
	select {
	case tasks := <-l.tasks:
		l.giveBack(tasks)
	case <-l.gone:
	}
}

func (l *Link) giveBack(tasks []*workerpb.Task) {
	for _, task := range tasks {
		abandon := &workerpb.Abandon{TaskId: task.Id, Attempt: task.Attempts, Refund: true}
		_ = l.send(context.Background(), &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Abandon{Abandon: abandon}})
	}
}

func given(tasks []*workerpb.Task) []codeq.Task {
	claimed := make([]codeq.Task, len(tasks))
	for at, task := range tasks {
		claimed[at] = codeq.Task{
			ID: task.Id, Command: task.Command, Payload: string(task.Payload), Status: task.Status,
			Priority: int(task.Priority), Headers: task.Headers, Attempts: int(task.Attempts),
			MaxAttempts: int(task.MaxAttempts), WorkerID: task.WorkerId,
			TraceParent: task.TraceParent, TraceState: task.TraceState,
			CreatedAt: task.CreatedAt.AsTime(), UpdatedAt: task.UpdatedAt.AsTime(),
			Lane: task.Lane, Checkpoint: task.Checkpoint, Progress: task.Progress, Tags: task.Tags, BatchID: task.BatchId,
		}
	}
	return claimed
}

// Heartbeat extends a lease.
func (l *Link) Heartbeat(ctx context.Context, beat codeq.Heartbeat) (codeq.Kept, error) {
	message := &workerpb.Heartbeat{
		TaskId: beat.TaskID, ExtendSeconds: whole(beat.Lease), Attempt: int32(beat.Attempt),
		Progress: beat.Progress, Checkpoint: beat.Checkpoint,
	}
	if len(beat.Progress)+len(beat.Checkpoint) > itemBytes {
		return codeq.Kept{}, tooLarge(codeq.CheckpointTooLarge)
	}
	event := &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Heartbeat{Heartbeat: message}}
	return codeq.Kept{}, l.ask(ctx, reportKey{"heartbeat", beat.TaskID}, event)
}

// Report tells how an attempt ended.
func (l *Link) Report(ctx context.Context, report codeq.Report) error {
	id, attempt := report.TaskID, int32(report.Attempt)
	switch report.Verb {
	case codeq.GiveBack:
		message := &workerpb.Abandon{TaskId: id, Attempt: attempt, Refund: true}
		return l.ask(ctx, reportKey{"abandon", id}, &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Abandon{Abandon: message}})
	case codeq.Nack:
		message := &workerpb.Nack{TaskId: id, Attempt: attempt, DelaySeconds: whole(report.Delay), Reason: report.Text,
			Hold: report.Hold}
		return l.ask(ctx, reportKey{"nack", id}, &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Nack{Nack: message}})
	}
	isLarge := len(report.Result) > itemBytes
	switch {
	case l.http != nil && (isLarge || len(report.Artifacts) > 0):
		return l.http.Report(ctx, report)
	case len(report.Artifacts) > 0:
		return &codeq.Refused{Code: codeq.InvalidArtifact, Text: "artifacts need HTTP: stream.WithHTTP"}
	case isLarge:
		return tooLarge(codeq.BodyTooLarge)
	}
	result := &workerpb.Result{TaskId: id, Attempt: attempt, Status: "FAILED", Error: report.Text}
	if report.Verb == codeq.Complete {
		result = &workerpb.Result{TaskId: id, Attempt: attempt, Status: "COMPLETED", ResultJson: json.RawMessage(report.Result)}
	}
	return l.result(ctx, result)
}

// result puts a result into the next message and waits for its ack.
func (l *Link) result(ctx context.Context, result *workerpb.Result) error {
	key := reportKey{"result", result.TaskId}
	answered := l.acks.add(key)
	l.lock.Lock()
	l.results = append(l.results, result)
	if !l.underWay {
		l.underWay = true
		go l.drain()
	}
	l.lock.Unlock()
	return l.await(ctx, key, answered)
}

func (l *Link) drain() {
	for {
		// Handlers that end together are reported together.
		runtime.Gosched()
		l.lock.Lock()
		count := fitting(l.results, func(one *workerpb.Result) int { return proto.Size(one) })
		batch := l.results[:count:count]
		l.results = l.results[count:]
		if count == 0 {
			l.underWay = false
			l.lock.Unlock()
			return
		}
		l.lock.Unlock()
		event := &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_ResultBatch{ResultBatch: &workerpb.ResultBatch{Results: batch}}}
		opening, done := context.WithTimeout(context.Background(), helloTime)
		if err := l.send(opening, event); err != nil {
			for _, result := range batch {
				l.acks.answer(reportKey{"result", result.TaskId}, err)
			}
		}
		done()
	}
}

func (l *Link) ask(ctx context.Context, key reportKey, event *workerpb.WorkerEvent) error {
	answered := l.acks.add(key)
	if err := l.send(ctx, event); err != nil {
		l.acks.remove(key, answered)
		return err
	}
	return l.await(ctx, key, answered)
}

func (l *Link) await(ctx context.Context, key reportKey, answered chan error) error {
	timer := time.NewTimer(ackTime)
	defer timer.Stop()
	select {
	case err := <-answered:
		return err
	case <-timer.C:
	case <-ctx.Done():
	}
	l.acks.remove(key, answered)
	return ended(ctx)
}

// ackTime is how long an ack may take before the report is sent again.
const ackTime = 30 * time.Second

// WithHTTP sends what a stream does not carry, results with artifacts, over HTTP.
func (l *Link) WithHTTP(client *codeq.Client, name string) *Link {
	l.http = client.Link(name)
	return l
}
