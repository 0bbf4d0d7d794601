package codeq_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/codeqtest"
)

type mail struct {
	To     string `json:"to"`
	Copies int    `json:"copies"`
}

func inline(t *testing.T, options ...codeq.WorkerOption) (*codeqtest.Queue, *codeq.Worker) {
	worker := codeq.NewWorker(codeq.NewClient("http://nowhere.invalid"), options...)
	return codeqtest.New(t, worker), worker
}

func TestResultOfAHandlerIsTheResultOfItsTask(t *testing.T) {
	queue, worker := inline(t)
	codeq.Handle(worker, "mail", func(_ context.Context, job *codeq.Job[mail]) (map[string]any, error) {
		if err := errors.Join(job.Progress(50), job.Attach("log.txt", []byte("sent"), "")); err != nil {
			return nil, err
		}
		return map[string]any{"to": job.Payload.To, "attempt": job.Number}, nil
	})
	task := queue.Create("mail", mail{To: "ä@b"}, codeq.Key("one"))
	if again := queue.Create("mail", mail{To: "other"}, codeq.Key("one")); again != task {
		t.Fatal("one key made two tasks")
	}
	queue.Drain()
	if string(task.Result) != `{"attempt":1,"to":"ä@b"}` || len(task.Progress) != 1 || len(task.Artifacts) != 1 {
		t.Fatalf("%+v", task)
	}
}

func TestValuesThatAreNoObjectsAreWrapped(t *testing.T) {
	queue, worker := inline(t)
	given := []any{nil, 5, "<x>", []int{1}, map[string]int{"a": 1}, mail{To: "y"}}
	codeq.Handle(worker, "give", func(_ context.Context, job *codeq.Job[int]) (any, error) { return given[job.Payload], nil })
	var results []string
	for at := range given {
		task := queue.Create("give", at)
		queue.Drain()
		results = append(results, string(task.Result))
	}
	wanted := []string{`{}`, `{"value":5}`, `{"value":"<x>"}`, `{"value":[1]}`, `{"a":1}`, `{"to":"y","copies":0}`}
	if !reflect.DeepEqual(results, wanted) {
		t.Fatal(results)
	}
}

func TestErrorsAndPanicsAreTriedAgainUntilTheAttemptsRunOut(t *testing.T) {
	queue, worker := inline(t)
	codeq.Handle(worker, "flaky", func(_ context.Context, job *codeq.Job[int]) (string, error) {
		if job.Number < job.Payload {
			panic("not yet")
		}
		return "done", nil
	})
	good, bad := queue.Create("flaky", 3), queue.Create("flaky", 9, codeq.MaxAttempts(2))
	queue.Drain()
	if good.Status != "COMPLETED" || good.Attempts != 3 {
		t.Fatalf("%+v", good)
	}
	if bad.FailureReason != "MAX_ATTEMPTS" || bad.Error != "handler panicked: not yet" {
		t.Fatalf("%+v", bad)
	}
}

func TestFailIsFinalAndRetryWaitsForItsDelay(t *testing.T) {
	queue, worker := inline(t)
	codeq.Handle(worker, "choose", func(_ context.Context, job *codeq.Job[string]) (any, error) {
		if job.Payload == "fail" {
			return nil, codeq.Fail("no such image")
		}
		if job.Number == 1 {
			return nil, codeq.Retry(30*time.Second, "busy")
		}
		return nil, nil
	})
	failed, later := queue.Create("choose", "fail"), queue.Create("choose", "retry")
	if queue.Drain() != 2 || failed.Error != "no such image" || failed.Status != "FAILED" {
		t.Fatalf("%+v", failed)
	}
	if queue.Advance(29*time.Second) != 0 || queue.Advance(time.Second) != 1 || later.Status != "COMPLETED" {
		t.Fatalf("%+v", later)
	}
}

func TestAPayloadThatCannotBeReadIsTriedAgainUnlessTheWorkerFailsIt(t *testing.T) {
	for attempts, options := range map[int][]codeq.WorkerOption{3: nil, 1: {codeq.FailUnreadable()}} {
		queue, worker := inline(t, options...)
		codeq.Handle(worker, "choose", func(context.Context, *codeq.Job[string]) (any, error) { return nil, nil })
		unread := queue.Create("choose", 5, codeq.MaxAttempts(3))
		queue.Drain()
		if unread.Status != "FAILED" || unread.Attempts != attempts ||
			!strings.HasPrefix(unread.Error, "the payload cannot be read: ") {
			t.Fatalf("%+v", unread)
		}
	}
}

func TestMiddlewareRunsAroundTheHandlerInOrder(t *testing.T) {
	var seen []string
	layer := func(name string) codeq.Middleware {
		return func(ctx context.Context, _ *codeq.Attempt, next codeq.Next) (any, error) {
			seen = append(seen, name+" before")
			defer func() { seen = append(seen, name+" after") }()
			return next(ctx)
		}
	}
	queue, worker := inline(t, codeq.Use(layer("outer"), layer("inner")))
	codeq.Handle(worker, "note", func(context.Context, *codeq.Job[any]) (any, error) {
		seen = append(seen, "handler")
		return nil, nil
	})
	queue.Create("note", 1)
	queue.Drain()
	if got := strings.Join(seen, ", "); got != "outer before, inner before, handler, inner after, outer after" {
		t.Fatal(got)
	}
}
