package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/stream/internal/producerpb"
	"github.com/codeq/codeq/sdks/go/stream/internal/workerpb"
)

// serve runs a server that reads messages up to 16 MiB, as codeq does, and gives its address.
func serve(t *testing.T, register func(*grpc.Server)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// creates acks everything.
type creates struct {
	producerpb.UnimplementedProducerStreamServer
	messages chan int
}

func (c *creates) Stream(stream grpc.BidiStreamingServer[producerpb.ProducerEvent, producerpb.ServerEvent]) error {
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		answer := &producerpb.ServerEvent{Event: &producerpb.ServerEvent_HelloAck{HelloAck: &producerpb.HelloAck{}}}
		if batch := event.GetCreateBatch(); batch != nil {
			acks := &producerpb.CreateAckBatch{}
			for _, task := range batch.Tasks {
				acks.Acks = append(acks.Acks, &producerpb.CreateAck{Seq: task.Seq, Ok: true, TaskId: fmt.Sprint("task-", task.Seq)})
			}
			c.messages <- len(batch.Tasks)
			answer.Event = &producerpb.ServerEvent_CreateAckBatch{CreateAckBatch: acks}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func TestMessagesOfCreatesAreBoundedInBytes(t *testing.T) {
	server := &creates{messages: make(chan int, 100)}
	address := serve(t, func(s *grpc.Server) { producerpb.RegisterProducerStreamServer(s, server) })
	producer := NewProducer(address, Static("token"))
	defer producer.Close()
	payload := func(size int) []byte { return append(append([]byte{'"'}, bytes.Repeat([]byte("x"), size)...), '"') }
	var tasks []codeq.NewTask
	for range 20 {
		tasks = append(tasks, codeq.NewTask{Command: "large", Payload: payload(1 << 20)})
	}
	tasks = append(tasks, codeq.NewTask{Command: "too-large", Payload: payload(16 << 20)})
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	ids, errs := producer.CreateMany(ctx, tasks)
	if err := errors.Join(errs[:20]...); err != nil || ids[19] == "" {
		t.Fatal(err)
	}
	if !errors.Is(errs[20], codeq.PayloadTooLarge) {
		t.Fatal(errs[20])
	}
	if len(server.messages) != 3 {
		t.Fatal(len(server.messages), "messages")
	}
}

func TestResultsThatDoNotFitAStreamAreRefusedHere(t *testing.T) {
	link := NewLink("127.0.0.1:1", Static("token"), "name")
	large := codeq.Report{TaskID: "a", Attempt: 1, Verb: codeq.Complete, Result: make([]byte, 16<<20)}
	if err := link.Report(context.Background(), large); !errors.Is(err, codeq.BodyTooLarge) {
		t.Fatal(err)
	}
	results := make([]*workerpb.Result, 1500)
	for at := range results {
		results[at] = &workerpb.Result{ResultJson: make([]byte, 1<<10)}
	}
	size := func(one *workerpb.Result) int { return len(one.ResultJson) }
	if got := fitting(results, size); got != batchItems {
		t.Fatal(got)
	}
	results[0].ResultJson = make([]byte, 14<<20)
	if got := fitting(results, size); got != 1 {
		t.Fatal(got)
	}
}

// lender answers a first Ready with an error of its own, and the second one with tasks for both.
type lender struct {
	workerpb.UnimplementedWorkerStreamServer
	abandoned chan *workerpb.Abandon
}

func (l *lender) Stream(stream grpc.BidiStreamingServer[workerpb.WorkerEvent, workerpb.ServerEvent]) error {
	tasks := func(id string) *workerpb.ServerEvent {
		batch := &workerpb.TaskBatch{Tasks: []*workerpb.Task{{Id: id, Command: "done", Attempts: 1, Payload: []byte("1")}}}
		return &workerpb.ServerEvent{Event: &workerpb.ServerEvent_TaskBatch{TaskBatch: batch}}
	}
	for readys := 0; ; {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		var answers []*workerpb.ServerEvent
		switch {
		case event.GetHello() != nil:
			answers = append(answers, &workerpb.ServerEvent{Event: &workerpb.ServerEvent_HelloAck{HelloAck: &workerpb.HelloAck{}}})
		case event.GetAbandon() != nil:
			l.abandoned <- event.GetAbandon()
		case event.GetReady() != nil && readys == 0:
			readys++
			said := &workerpb.ServerError{Code: "Internal", Message: "something else"}
			answers = append(answers, &workerpb.ServerEvent{Event: &workerpb.ServerEvent_Error{Error: said}})
		case event.GetReady() != nil:
			answers = append(answers, tasks("awaited"), tasks("late"))
		}
		for _, answer := range answers {
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}
}

func TestTasksThatNoClaimWaitsForAreGivenBack(t *testing.T) {
	server := &lender{abandoned: make(chan *workerpb.Abandon, 10)}
	address := serve(t, func(s *grpc.Server) { workerpb.RegisterWorkerStreamServer(s, server) })
	link := NewLink(address, Static("token"), "name")
	defer link.Close()
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	asked := codeq.Claim{Commands: []string{"done"}, Lease: time.Minute, Count: 1}
	var absent *codeq.Absent
	if _, err := link.Claim(ctx, asked); !errors.As(err, &absent) {
		t.Fatal(err)
	}
	tasks, err := link.Claim(ctx, asked)
	if err != nil || len(tasks) != 1 || tasks[0].ID != "awaited" {
		t.Fatal(err, tasks)
	}
	select {
	case late := <-server.abandoned:
		if late.TaskId != "late" || !late.Refund {
			t.Fatal(late)
		}
	case <-ctx.Done():
		t.Fatal("the late task was not given back")
	}
}
