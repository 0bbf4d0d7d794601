package stream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/codeqtest"
	"github.com/codeq/codeq/sdks/go/stream"
)

func free(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func start(t *testing.T) (server *codeqtest.Server, worker, producer string) {
	if os.Getenv("CODEQ_BIN") == "" {
		binary, err := filepath.Abs("../../../target/debug/codeq")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("CODEQ_BIN", binary)
	}
	worker, producer = free(t), free(t)
	t.Setenv("WORKER_STREAM_ADDR", worker)
	t.Setenv("PRODUCER_STREAM_ADDR", producer)
	return codeqtest.Start(t), worker, producer
}

func TestTasksGoOverStreamsFromStartToEnd(t *testing.T) {
	server, workerAddress, producerAddress := start(t)
	client, token := codeq.NewClient(server.URL, codeq.Token(server.Token)), stream.Static(server.Token)
	link := stream.NewLink(workerAddress, token, "streaming").WithHTTP(client, "streaming")
	worker := codeq.NewWorker(client, codeq.Over(link), codeq.Lease(time.Second), codeq.Concurrency(8))
	codeq.Handle(worker, "streamed", func(_ context.Context, job *codeq.Job[int]) (int, error) {
		switch {
		case job.Payload == 0:
			time.Sleep(1500 * time.Millisecond) // longer than the lease
		case job.Payload == 1:
			return 0, codeq.Fail("for good")
		case job.Payload == 2 && job.Number == 1:
			return 0, errors.New("again")
		}
		return job.Number, nil
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()

	producer := stream.NewProducer(producerAddress, token)
	defer producer.Close()
	var tasks []codeq.NewTask
	for n := range 1200 {
		task, err := codeq.New("streamed", n)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	bounded, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	ids, errs := producer.CreateMany(bounded, tasks)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	wanted := map[int]string{0: `COMPLETED {"value":1} `, 1: "FAILED  for good", 2: `COMPLETED {"value":2} `, 1199: `COMPLETED {"value":1} `}
	for n, want := range wanted {
		outcome, err := client.Wait(bounded, ids[n])
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %s %s", outcome.Status, outcome.Value, outcome.Error); got != want {
			t.Errorf("task %d: %s", n, got)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := producer.Create(bounded, codeq.NewTask{Command: "größe", Payload: []byte("1")}); !errors.Is(err, codeq.InvalidCommand) {
		t.Error(err)
	}
}

func TestATokenThatIsRefusedEndsTheWorker(t *testing.T) {
	server, workerAddress, _ := start(t)
	link := stream.NewLink(workerAddress, stream.Static("wrong"), "refused")
	worker := codeq.NewWorker(codeq.NewClient(server.URL), codeq.Over(link))
	codeq.Handle(worker, "never", func(context.Context, *codeq.Job[any]) (any, error) { return nil, nil })
	if err := worker.Run(context.Background()); !errors.Is(err, codeq.InvalidToken) {
		t.Fatal(err)
	}
}

func TestATokenThatHasRunOutIsReplaced(t *testing.T) {
	server, _, producerAddress := start(t)
	asked := 0
	producer := stream.NewProducer(producerAddress, func(context.Context) (string, error) {
		asked++
		return []string{"expired", server.Token}[min(asked-1, 1)], nil
	})
	defer producer.Close()
	if _, err := producer.Create(context.Background(), codeq.NewTask{Command: "renewed", Payload: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if asked != 2 {
		t.Fatal(asked)
	}
}

func TestACancelArrivesAtOnceAndCheckpointsGoOverTheStream(t *testing.T) {
	server, workerAddress, producerAddress := start(t)
	client, token := codeq.NewClient(server.URL, codeq.Token(server.Token)), stream.Static(server.Token)
	// A heartbeat would come after twenty minutes.
	worker := codeq.NewWorker(client, codeq.Over(stream.NewLink(workerAddress, token, "streaming")), codeq.Lease(time.Hour),
		codeq.Weights(map[string]int{"heeding": 3}))
	started := make(chan struct{}, 1)
	codeq.Handle(worker, "heeding", func(ctx context.Context, job *codeq.Job[int]) (string, error) {
		if err := errors.Join(job.Progress(0.5), job.Checkpoint(map[string]int{"at": 7})); err != nil {
			return "", err
		}
		started <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx).Error() + ", lane " + job.Lane, nil
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	producer := stream.NewProducer(producerAddress, token)
	defer producer.Close()
	made, err := codeq.New("heeding", 1, codeq.Lane("customer-1"), codeq.OnlyOne(codeq.Unique{Key: "k", Until: 60}))
	if err != nil {
		t.Fatal(err)
	}
	id, err := producer.Create(ctx, made)
	if err != nil {
		t.Fatal(err)
	}
	<-started
	running, err := client.Get(ctx, id)
	if err != nil || string(running.Checkpoint) != `{"at":7}` || string(running.Progress) != "0.5" {
		t.Fatal(err, string(running.Checkpoint), string(running.Progress))
	}
	if _, err := client.Cancel(ctx, id, 30*time.Second, "enough"); err != nil {
		t.Fatal(err)
	}
	text, err := codeq.Result[string](ctx, running)
	if err != nil || text != "the task was asked to stop: enough, lane customer-1" {
		t.Fatal(text, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
