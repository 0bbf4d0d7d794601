package codeq_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/codeqtest"
)

func TestMain(m *testing.M) {
	// The binary of this repository unless CODEQ_BIN says otherwise.
	if os.Getenv("CODEQ_BIN") == "" {
		binary, err := filepath.Abs("../../target/debug/codeq")
		if err != nil {
			panic(err)
		}
		os.Setenv("CODEQ_BIN", binary)
	}
	os.Exit(m.Run())
}

// working runs a worker until the returned function is called, which waits for its end.
func working(t *testing.T, worker *codeq.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestATaskFromStartToEnd(t *testing.T) {
	server := codeqtest.Start(t)
	client := codeq.NewClient(server.URL, codeq.Token(server.Token))
	worker := codeq.NewWorker(client)
	codeq.Handle(worker, "go-echo", func(_ context.Context, job *codeq.Job[json.RawMessage]) (json.RawMessage, error) {
		return job.Payload, job.Attach("häufig.txt", []byte("grüße"), "text/plain")
	})
	defer working(t, worker)()
	ctx, text := bounded(t), `{"text":"größe 🎉","number":9007199254740993,"none":null}`
	task := must(client.Create(ctx, "go-echo", json.RawMessage(text), codeq.Header("a", "b"), codeq.Priority(3)))
	if got := must(codeq.Result[json.RawMessage](ctx, task)); string(got) != text {
		t.Fatal(string(got))
	}
	if got := must(client.Artifact(ctx, task.ID, "häufig.txt")); string(got) != "grüße" {
		t.Fatal(string(got))
	}
}

func TestOutcomesReachTheServer(t *testing.T) {
	server := codeqtest.Start(t)
	client := codeq.NewClient(server.URL, codeq.Token(server.Token))
	worker := codeq.NewWorker(client)
	codeq.Handle(worker, "go-outcomes", func(_ context.Context, job *codeq.Job[string]) (any, error) {
		switch job.Payload {
		case "fail":
			return nil, codeq.Fail("for good")
		case "retry":
			return nil, codeq.Retry(0, "later")
		case "unwritable":
			return func() {}, nil
		}
		return nil, errors.New("oops")
	})
	defer working(t, worker)()
	wanted := map[string][2]string{
		"fail":       {"for good", ""},
		"retry":      {"later", "MAX_ATTEMPTS"},
		"error":      {"oops", "MAX_ATTEMPTS"},
		"unwritable": {"the result was not taken: json: unsupported type: func()", ""},
	}
	for what, want := range wanted {
		task := must(client.Create(bounded(t), "go-outcomes", what, codeq.MaxAttempts(1)))
		_, err := codeq.Result[any](bounded(t), task)
		var failed *codeq.TaskFailed
		if !errors.As(err, &failed) || failed.Text != want[0] || failed.Reason != want[1] {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestALongHandlerKeepsItsShortLease(t *testing.T) {
	server := codeqtest.Start(t)
	client := codeq.NewClient(server.URL, codeq.Token(server.Token))
	worker := codeq.NewWorker(client, codeq.Lease(time.Second))
	codeq.Handle(worker, "go-long", func(_ context.Context, job *codeq.Job[any]) (int, error) {
		time.Sleep(2500 * time.Millisecond)
		return job.Number, nil
	})
	defer working(t, worker)()
	task := must(client.Create(bounded(t), "go-long", 1))
	if attempt := must(codeq.Result[int](bounded(t), task)); attempt != 1 {
		t.Fatal(attempt)
	}
}

func TestALostLeaseEndsTheContextAndDropsTheResult(t *testing.T) {
	server := codeqtest.Start(t)
	client := codeq.NewClient(server.URL, codeq.Token(server.Token))
	worker := codeq.NewWorker(client, codeq.Lease(time.Second))
	started, cause := make(chan struct{}), make(chan error, 1)
	codeq.Handle(worker, "go-lost", func(ctx context.Context, _ *codeq.Job[any]) (any, error) {
		close(started)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, nil
	})
	defer working(t, worker)()
	task := must(client.Create(bounded(t), "go-lost", 1))
	<-started
	must(client.Cancel(bounded(t), task.ID, 0, ""))
	if err := <-cause; !errors.Is(err, codeq.ErrLeaseLost) {
		t.Fatal(err)
	}
	if outcome := must(task.Wait(bounded(t))); outcome.FailureReason != "CANCELLED" {
		t.Fatalf("%+v", outcome)
	}
}

func TestTheEndGivesBackWhatDoesNotEndInTime(t *testing.T) {
	server := codeqtest.Start(t)
	client := codeq.NewClient(server.URL, codeq.Token(server.Token))
	worker := codeq.NewWorker(client, codeq.Grace(50*time.Millisecond))
	started := make(chan struct{})
	codeq.Handle(worker, "go-stop", func(ctx context.Context, _ *codeq.Job[any]) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	stop := working(t, worker)
	task := must(client.Create(bounded(t), "go-stop", 1))
	<-started
	stop()
	task = must(client.Get(bounded(t), task.ID))
	if task.Status != "PENDING" || task.Attempts != 1 || task.Refunds != 1 {
		t.Fatalf("%+v", task)
	}
}

func TestManyCreatesAreCutIntoBatchesAndRefusalsHaveCodes(t *testing.T) {
	server := codeqtest.Start(t)
	client := codeq.NewClient(server.URL, codeq.Token(server.Token))
	var tasks []codeq.NewTask
	for n := range 250 {
		tasks = append(tasks, must(codeq.New("go-many", n)).WithKey())
	}
	first, second := must(client.CreateMany(bounded(t), tasks)), must(client.CreateMany(bounded(t), tasks))
	ids := map[string]bool{}
	for at := range tasks {
		if first[at].Task.ID != second[at].Task.ID || !second[at].Task.Replayed {
			t.Fatal("one key made two tasks")
		}
		ids[first[at].Task.ID] = true
	}
	if len(ids) != 250 {
		t.Fatal(len(ids))
	}
	_, err := client.Create(bounded(t), "größe", 1)
	var refused *codeq.Refused
	if !errors.Is(err, codeq.InvalidCommand) || !errors.As(err, &refused) || refused.Status != 400 || refused.RequestID == "" {
		t.Fatal(err)
	}
}

// losing sends every request and loses the first answers.
type losing struct{ losses atomic.Int32 }

func (l *losing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(request)
	if err == nil && l.losses.Add(-1) >= 0 {
		response.Body.Close()
		return nil, errors.New("cut")
	}
	return response, err
}

func TestACreateWithoutAnAnswerIsRepeatedAndMakesOneTask(t *testing.T) {
	server := codeqtest.Start(t)
	cut := &losing{}
	cut.losses.Store(2)
	client := codeq.NewClient(server.URL, codeq.Token(server.Token), codeq.HTTPClient(&http.Client{Transport: cut}))
	task := must(client.Create(bounded(t), "go-cut", 1))
	if task.Replayed || cut.losses.Load() != -1 {
		t.Fatalf("%+v", task)
	}
}

func TestTheTokenIsRenewedWhenTheServerRefusesIt(t *testing.T) {
	server := codeqtest.Start(t)
	asked := 0
	client := codeq.NewClient(server.URL, codeq.TokenSource(func(context.Context) (string, error) {
		asked++
		return []string{"expired", server.Token}[min(asked-1, 1)], nil
	}))
	must(client.Create(bounded(t), "go-token", 1))
	must(client.Create(bounded(t), "go-token", 2))
	if asked != 2 {
		t.Fatal(asked)
	}
	worker := codeq.NewWorker(codeq.NewClient(server.URL, codeq.Token("wrong")))
	codeq.Handle(worker, "go-token", func(context.Context, *codeq.Job[any]) (any, error) { return nil, nil })
	var refused *codeq.Refused
	if err := worker.Run(bounded(t)); !errors.As(err, &refused) || refused.Status != 401 {
		t.Fatal(err)
	}
}
