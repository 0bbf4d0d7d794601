package codeq_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/codeqtest"
)

func TestARequestedCancelEndsTheContextAndWhatTheHandlerSaysThenCounts(t *testing.T) {
	server := codeqtest.Start(t)
	client := codeq.NewClient(server.URL, codeq.Token(server.Token))
	worker := codeq.NewWorker(client, codeq.Lease(3*time.Second))
	started := make(chan struct{}, 1)
	codeq.Handle(worker, "go-heed", func(ctx context.Context, job *codeq.Job[any]) (map[string]any, error) {
		started <- struct{}{}
		<-ctx.Done()
		var asked *codeq.CancelRequest
		errors.As(context.Cause(ctx), &asked)
		isRequest := errors.Is(context.Cause(ctx), codeq.ErrCancelRequested)
		return map[string]any{"request": isRequest, "reason": asked.Reason}, job.Checkpoint(7)
	})
	defer working(t, worker)()
	task := must(client.Create(bounded(t), "go-heed", 1))
	<-started
	must(client.Cancel(bounded(t), task.ID, 30*time.Second, "enough"))
	got := must(codeq.Result[map[string]any](bounded(t), task))
	if got["request"] != true || got["reason"] != "enough" {
		t.Fatal(got)
	}
}

func TestTheNextAttemptFindsWhatTheLastOneSaved(t *testing.T) {
	server := codeqtest.Start(t, "--test-clock")
	client := codeq.NewClient(server.URL, codeq.Token(server.Token))
	worker := codeq.NewWorker(client)
	codeq.Handle(worker, "go-resume", func(_ context.Context, job *codeq.Job[any]) (json.RawMessage, error) {
		if err := job.Progress(map[string]int{"attempt": job.Number}); err != nil {
			return nil, err
		}
		if job.Saved != nil {
			return job.Saved, nil
		}
		return nil, errors.Join(job.Checkpoint(json.RawMessage(`{"at":9007199254740993}`)), codeq.Retry(10*time.Minute, "again"))
	})
	defer working(t, worker)()
	task := must(client.Create(bounded(t), "go-resume", 1, codeq.Lane("customer-1")))
	for read := task; read.LastKnownLocation != "DELAYED_ZSET"; read = must(client.Get(bounded(t), task.ID)) {
		time.Sleep(20 * time.Millisecond)
	}
	// No further than the delay: the lease of the next attempt must not run out.
	server.Advance(10 * time.Minute)
	if got := must(codeq.Result[json.RawMessage](bounded(t), task)); string(got) != `{"at":9007199254740993}` {
		t.Fatal(string(got))
	}
}

func TestAScheduleFiresWhenTheClockIsMoved(t *testing.T) {
	server := codeqtest.Start(t, "--test-clock")
	client, ctx := codeq.NewClient(server.URL, codeq.Token(server.Token)), bounded(t)
	plan := codeq.Schedule{EverySeconds: 3600, Task: must(codeq.New("go-tick", map[string]int{"n": 1}))}
	made := must(client.PutSchedule(ctx, "hourly", plan))
	if made.Name != "hourly" || made.NextAt == nil {
		t.Fatal(made)
	}
	server.Advance(time.Hour)
	state := must(client.GetSchedule(ctx, "hourly"))
	if task := must(client.Get(ctx, state.LastTaskID)); task.Payload != `{"n":1}` {
		t.Fatal(task.Payload)
	}
	if all := must(client.ListSchedules(ctx)); len(all) != 1 {
		t.Fatal(all)
	}
	if err := client.DeleteSchedule(ctx, "hourly"); err != nil {
		t.Fatal(err)
	}
}

func TestUniqueCreatesAreAnsweredWithTheHolder(t *testing.T) {
	server := codeqtest.Start(t)
	client, ctx := codeq.NewClient(server.URL, codeq.Token(server.Token)), bounded(t)
	first := must(client.Create(ctx, "go-unique", 1, codeq.OnlyOne(codeq.Unique{Key: "page-7"}), codeq.Tags("a")))
	replace := codeq.OnlyOne(codeq.Unique{Key: "page-7", OnConflict: "replace"})
	second := must(client.Create(ctx, "go-unique", 2, replace))
	if second.ID != first.ID || first.Replayed || !second.Replayed {
		t.Fatal(first, second)
	}
}
