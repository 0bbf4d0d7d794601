package codeq_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
)

// served is a client of a server that answers so.
func served(t *testing.T, answer http.HandlerFunc) *codeq.Client {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return codeq.NewClient(server.URL, codeq.Token("token"), codeq.GiveUp(5*time.Second))
}

func TestALeaseBeginsWhenItIsAskedFor(t *testing.T) {
	var waits atomic.Int64
	client := served(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ WaitSeconds int64 }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		switch path.Base(r.URL.Path) {
		case "claim":
			if !waits.CompareAndSwap(0, body.WaitSeconds) {
				time.Sleep(20 * time.Millisecond)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			// The answer may be long on its way.
			time.Sleep(500 * time.Millisecond)
			fmt.Fprint(w, `{"id":"a","command":"look","attempts":1,"payload":"1"}`)
		case "results":
			fmt.Fprint(w, `{"results":[{"taskId":"a","result":{}}]}`)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	worker := codeq.NewWorker(client, codeq.Lease(10*time.Second))
	left := make(chan time.Duration, 1)
	codeq.Handle(worker, "look", func(_ context.Context, job *codeq.Job[int]) (any, error) {
		left <- time.Until(job.Deadline())
		return nil, nil
	})
	defer working(t, worker)()
	if got := <-left; got > 9500*time.Millisecond || waits.Load() != 5 {
		t.Fatal(got, waits.Load())
	}
}

func TestAClaimWithoutAnAnswerTakesNothingOfTheGrace(t *testing.T) {
	asked, letGo := make(chan struct{}, 10), make(chan struct{})
	client := served(t, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-letGo
	})
	t.Cleanup(func() { close(letGo) })
	worker := codeq.NewWorker(client, codeq.Grace(100*time.Millisecond))
	codeq.Handle(worker, "never", func(context.Context, *codeq.Job[any]) (any, error) { return nil, nil })
	stop := working(t, worker)
	<-asked
	started := time.Now()
	if stop(); time.Since(started) > 20*time.Second {
		t.Fatal(time.Since(started))
	}
}

// handed is a link that lends more than it was asked for, and keeps what is reported.
type handed struct {
	codeq.Link
	once    sync.Once
	asked   chan codeq.Claim
	reports chan codeq.Report
}

func (h *handed) Claim(ctx context.Context, asked codeq.Claim) (tasks []codeq.Task, err error) {
	h.once.Do(func() {
		h.asked <- asked
		for n := range asked.Count + 2 {
			tasks = append(tasks, codeq.Task{ID: fmt.Sprint(n), Command: "done", Attempts: 1, Payload: "null"})
		}
	})
	if tasks == nil {
		<-ctx.Done()
	}
	return tasks, nil
}

func (h *handed) Report(_ context.Context, report codeq.Report) error {
	h.reports <- report
	return nil
}

func (h *handed) Close() error { return nil }

func TestTasksBeyondTheFreeSlotsAreGivenBack(t *testing.T) {
	link := &handed{asked: make(chan codeq.Claim, 1), reports: make(chan codeq.Report, 10)}
	worker := codeq.NewWorker(codeq.NewClient(""), codeq.Over(link), codeq.Concurrency(3))
	var atOnce, most atomic.Int64
	codeq.Handle(worker, "done", func(context.Context, *codeq.Job[any]) (any, error) {
		most.Store(max(most.Load(), atOnce.Add(1)))
		defer atOnce.Add(-1)
		return nil, nil
	})
	stop := working(t, worker)
	verbs := map[codeq.Verb]int{}
	for range 5 {
		verbs[(<-link.reports).Verb]++
	}
	stop()
	if verbs[codeq.Complete] != 3 || verbs[codeq.GiveBack] != 2 || most.Load() > 3 {
		t.Fatal(verbs, most.Load())
	}
}

func TestClaimsAreFairWithTheirWeightsAndSayWhoAsks(t *testing.T) {
	bodies := make(chan map[string]any, 100)
	client := served(t, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		body["name"] = r.Header.Get("Codeq-Worker")
		select {
		case bodies <- body:
		default:
		}
		time.Sleep(20 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})
	worker := codeq.NewWorker(client, codeq.Weights(map[string]int{"a": 3}), codeq.Name("mail-1"), codeq.Concurrency(7))
	for _, command := range []string{"a", "b"} {
		codeq.Handle(worker, command, func(context.Context, *codeq.Job[any]) (any, error) { return nil, nil })
	}
	stop := working(t, worker)
	batch, one := <-bodies, <-bodies
	stop()
	for _, body := range []map[string]any{batch, one} {
		weights, info := body["weights"].(map[string]any), body["worker"].(map[string]any)
		if body["order"] != "fair" || weights["a"] != 3.0 || info["slots"] != 7.0 || body["name"] != "mail-1" ||
			len(body["commands"].([]any)) != 2 {
			t.Fatal(body)
		}
	}
	if batch["count"] != 7.0 || one["waitSeconds"] != 20.0 {
		t.Fatal(batch, one)
	}
}

func TestOutcomesAreLogged(t *testing.T) {
	var lines bytes.Buffer
	link := &handed{asked: make(chan codeq.Claim, 1), reports: make(chan codeq.Report, 10)}
	log := slog.New(slog.NewJSONHandler(&lines, nil))
	worker := codeq.NewWorker(codeq.NewClient(""), codeq.Over(link), codeq.Concurrency(1), codeq.Logger(log))
	codeq.Handle(worker, "done", func(context.Context, *codeq.Job[any]) (any, error) { return nil, codeq.Fail("no") })
	stop := working(t, worker)
	for range 3 {
		<-link.reports
	}
	stop()
	var line struct {
		Msg, Task, Command, Outcome string
		Attempt                     int
		Seconds                     *float64
	}
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
		t.Fatal(err, lines.String())
	}
	if line.Msg != "task fail" || line.Task != "0" || line.Command != "done" || line.Outcome != "fail" || line.Attempt != 1 ||
		line.Seconds == nil {
		t.Fatal(lines.String())
	}
}

// creating answers batches of creates: one with a payload "bad" is refused as a whole. The first answers are lost.
func creating(t *testing.T, lost int) (client *codeq.Client, bodies *[]string, made map[string]int) {
	bodies, made = &[]string{}, map[string]int{}
	var lock sync.Mutex
	client = served(t, func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		var body struct{ Tasks []codeq.NewTask }
		if _, err := text.ReadFrom(r.Body); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal(text.Bytes(), &body); err != nil {
			t.Error(err)
		}
		lock.Lock()
		defer lock.Unlock()
		*bodies = append(*bodies, text.String())
		var items []string
		for _, task := range body.Tasks {
			if string(task.Payload) == `"bad"` {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				fmt.Fprint(w, `{"error":"payload too large","code":"payload_too_large"}`)
				return
			}
			number, replayed := made[task.IdempotencyKey]
			if !replayed {
				number = len(made)
				made[task.IdempotencyKey] = number
			}
			items = append(items, fmt.Sprintf(`{"task":{"id":"task-%d"},"replayed":%t}`, number, replayed))
		}
		if lost--; lost >= 0 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"results":[%s]}`, strings.Join(items, ","))
	})
	return client, bodies, made
}

func tasksOf(t *testing.T, payloads ...any) []codeq.NewTask {
	var tasks []codeq.NewTask
	for _, payload := range payloads {
		task, err := codeq.New("mail", payload)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	return tasks
}

func TestABatchWhoseAnswerWasLostIsSentAgainWithTheSameKeys(t *testing.T) {
	client, bodies, made := creating(t, 2)
	created, err := client.CreateMany(bounded(t), tasksOf(t, 1, 2, 3))
	if err != nil || len(*bodies) != 3 || (*bodies)[0] != (*bodies)[1] || (*bodies)[0] != (*bodies)[2] || len(made) != 3 {
		t.Fatal(err, *bodies)
	}
	for _, one := range created {
		// They are there already, because we made them.
		if one.Err != nil || one.Task.Replayed {
			t.Fatal(one.Err, one.Task)
		}
	}
}

func TestACreateThatSpoilsItsBatchTakesNoOtherWithIt(t *testing.T) {
	client, _, _ := creating(t, 0)
	created, err := client.CreateMany(bounded(t), tasksOf(t, "a", "bad", "b"))
	if err != nil || len(created) != 3 || created[0].Err != nil || created[2].Err != nil {
		t.Fatal(err, created)
	}
	if refused, ok := created[1].Err.(*codeq.Refused); !ok || refused.Code != codeq.PayloadTooLarge {
		t.Fatal(created[1].Err)
	}
}

func TestBatchesOfCreatesAreBoundedInBytes(t *testing.T) {
	client, bodies, _ := creating(t, 0)
	large := strings.Repeat("x", 1<<20)
	created, err := client.CreateMany(bounded(t), tasksOf(t, large, large, large, large, large))
	if err != nil || len(created) != 5 {
		t.Fatal(err)
	}
	for _, body := range *bodies {
		if len(body) > 4<<20 {
			t.Errorf("%d bytes", len(body))
		}
	}
}
