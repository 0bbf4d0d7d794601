package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/stream/internal/producerpb"
)

// giveUp is how long a create is repeated, and firstPause and lastPause bound the pauses.
const (
	giveUp     = time.Minute
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Producer creates tasks over a stream. Creates of many goroutines share it.
type Producer struct {
	session[producerpb.ProducerEvent, producerpb.ServerEvent]
	acks waits[uint64]
	ids  waitsFor
	seq  atomic.Uint64
}

// NewProducer is a producer at a producer's port.
func NewProducer(address string, token Token, options ...Option) *Producer {
	p := &Producer{}
	p.session = session[producerpb.ProducerEvent, producerpb.ServerEvent]{
		target: targetOf(address, options),
		token:  token,
		open: func(ctx context.Context, conn *grpc.ClientConn) (grpc.BidiStreamingClient[producerpb.ProducerEvent, producerpb.ServerEvent], error) {
			return producerpb.NewProducerStreamClient(conn).Stream(ctx)
		},
		hello: func(token string) *producerpb.ProducerEvent {
			return &producerpb.ProducerEvent{Event: &producerpb.ProducerEvent_Hello{Hello: &producerpb.Hello{Token: token}}}
		},
		heard:  p.heard,
		broken: p.acks.failAll,
	}
	return p
}

// Close ends the stream.
func (p *Producer) Close() error { return p.session.close() }

// Create creates a task and gives its id. When it returns, the task is on the server's disk.
func (p *Producer) Create(ctx context.Context, task codeq.NewTask) (string, error) {
	ids, errs := p.CreateMany(ctx, []codeq.NewTask{task})
	return ids[0], errs[0]
}

// CreateMany creates tasks, in messages of a thousand or of 8 MiB, and gives an id or an error for each, in their order. What has no
// answer is sent again, with the same idempotency key, for a minute.
func (p *Producer) CreateMany(ctx context.Context, tasks []codeq.NewTask) ([]string, []error) {
	ids, errs := make([]string, len(tasks)), make([]error, len(tasks))
	messages, open := make([]*producerpb.CreateTask, len(tasks)), make([]int, 0, len(tasks))
	for at, task := range tasks {
		if messages[at] = message(task.WithKey()); proto.Size(messages[at]) > itemBytes {
			errs[at] = tooLarge(codeq.PayloadTooLarge)
		} else {
			open = append(open, at)
		}
	}
	pause := firstPause
	for end := time.Now().Add(giveUp); ; {
		p.sendAll(ctx, messages, open, ids, errs)
		var left []int
		for _, at := range open {
			var absent *codeq.Absent
			if errors.As(errs[at], &absent) {
				left = append(left, at)
			}
		}
		if open = left; len(open) == 0 || ctx.Err() != nil || time.Now().Add(pause).After(end) {
			return ids, errs
		}
		// Half of the pause and a random part of the other half, so that producers do not come back together.
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
		pause = min(2*pause, lastPause)
	}
}

func (p *Producer) sendAll(ctx context.Context, messages []*producerpb.CreateTask, open []int, ids []string, errs []error) {
	answers := make([]chan error, len(open))
	size := func(place int) int { return proto.Size(messages[place]) }
	for start := 0; start < len(open); {
		part := open[start:]
		part = part[:fitting(part, size)]
		batch := &producerpb.CreateTaskBatch{}
		for at, place := range part {
			messages[place].Seq = p.seq.Add(1)
			answers[start+at] = p.acks.add(messages[place].Seq)
			batch.Tasks = append(batch.Tasks, messages[place])
		}
		event := &producerpb.ProducerEvent{Event: &producerpb.ProducerEvent_CreateBatch{CreateBatch: batch}}
		if err := p.send(ctx, event); err != nil {
			for _, place := range part {
				p.acks.answer(messages[place].Seq, err)
			}
		}
		start += len(part)
	}
	for at, place := range open {
		seq := messages[place].Seq
		select {
		case errs[place] = <-answers[at]:
			ids[place] = p.ids.take(seq)
		case <-ctx.Done():
			p.acks.remove(seq, answers[at])
			errs[place] = ended(ctx)
		}
	}
}

func (p *Producer) heard(event *producerpb.ServerEvent) {
	switch said := event.Event.(type) {
	case *producerpb.ServerEvent_CreateAck:
		p.acked(said.CreateAck)
	case *producerpb.ServerEvent_CreateAckBatch:
		for _, ack := range said.CreateAckBatch.Acks {
			p.acked(ack)
		}
	}
}

func (p *Producer) acked(ack *producerpb.CreateAck) {
	if ack.Ok {
		p.ids.put(ack.Seq, ack.TaskId)
	}
	p.acks.answer(ack.Seq, ackError(ack.Ok, ack.ErrorMessage))
}

func message(task codeq.NewTask) *producerpb.CreateTask {
	made := &producerpb.CreateTask{
		Command: task.Command, Payload: task.Payload, Priority: int32(task.Priority), Webhook: task.Webhook,
		MaxAttempts: int32(task.MaxAttempts), IdempotencyKey: task.IdempotencyKey,
		DelaySeconds: int32(task.DelaySeconds), Headers: task.Headers,
		Lane: task.Lane, Unique: unique(task.Unique), ExpireSeconds: task.ExpireSeconds, After: task.After,
		OnDependencyFailure: task.OnDependencyFailure, BatchId: task.BatchID, Tags: task.Tags,
		MaxRunSeconds: int32(task.MaxRunSeconds),
	}
	if task.ExpiresAt != nil {
		made.ExpiresAt = timestamppb.New(*task.ExpiresAt)
	}
	if task.RunAt != nil {
		made.RunAt = timestamppb.New(*task.RunAt)
	}
	return made
}

func unique(asked *codeq.Unique) *producerpb.Unique {
	if asked == nil {
		return nil
	}
	made := &producerpb.Unique{Key: asked.Key, OnConflict: asked.OnConflict, MaxWaitSeconds: asked.MaxWaitSeconds}
	switch until := asked.Until.(type) {
	case string:
		made.Until = until
	case int:
		made.UntilSeconds = int64(until)
	}
	return made
}
