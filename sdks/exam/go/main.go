// The Go runner of the exam; see exam.py.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
)

type order struct {
	URL         string
	Tokens      []string
	Log         string
	Worker      int
	Concurrency int
	Lease       float64
	Grace       *float64
	Many        bool
	Tasks       []create
	Cancel      *struct {
		IDs    []string
		Grace  float64
		Reason string
	}
	Schedule *struct {
		Name, Cron string
		Payload    json.RawMessage
	}
	Batch *struct {
		Members []json.RawMessage
		Then    json.RawMessage
	}
}

type create struct {
	Command     string
	Payload     json.RawMessage
	MaxAttempts int
	Lane        string
	Unique      string
	Webhook     string
}

type deed struct {
	Do      string
	Value   json.RawMessage
	Until   int
	Text    string
	Seconds float64
}

func main() {
	text, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	given := order{Concurrency: 16, Lease: 60}
	if err := json.Unmarshal(text, &given); err != nil {
		log.Fatal(err)
	}
	client := codeq.NewClient(given.URL, codeq.TokenSource(func(context.Context) (string, error) {
		token := given.Tokens[0]
		if len(given.Tokens) > 1 {
			given.Tokens = given.Tokens[1:]
		}
		return token, nil
	}))
	if os.Args[1] == "worker" {
		work(client, given)
	} else {
		produce(client, given)
	}
}

func work(client *codeq.Client, given order) {
	lines, err := os.OpenFile(given.Log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		log.Fatal(err)
	}
	options := []codeq.WorkerOption{codeq.Concurrency(given.Concurrency), codeq.Lease(seconds(given.Lease))}
	if given.Grace != nil {
		options = append(options, codeq.Grace(seconds(*given.Grace)))
	}
	worker := codeq.NewWorker(client, options...)
	codeq.Handle(worker, "exam", func(ctx context.Context, job *codeq.Job[json.RawMessage]) (json.RawMessage, error) {
		note := func(event string) {
			fmt.Fprintf(lines, "{\"event\":%q,\"task\":%q,\"attempt\":%d,\"worker\":%d}\n", event, job.ID, job.Number, given.Worker)
		}
		note("start")
		defer note("end")
		result, err := act(ctx, job)
		if ctx.Err() != nil {
			note("stopped")
		}
		return result, err
	})
	if err := worker.RunUntilSignal(); err != nil {
		log.Fatal(err)
	}
}

func act(ctx context.Context, job *codeq.Job[json.RawMessage]) (json.RawMessage, error) {
	var what deed
	if err := json.Unmarshal(job.Payload, &what); err != nil {
		return nil, err
	}
	wait := func() error {
		select {
		case <-time.After(seconds(what.Seconds)):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	switch {
	case what.Do == "flaky" && job.Number < what.Until:
		return nil, errors.New("not yet")
	case what.Do == "raise":
		return nil, errors.New(what.Text)
	case what.Do == "fail":
		return nil, codeq.Fail(what.Text)
	case what.Do == "block":
		time.Sleep(seconds(what.Seconds))
	case what.Do == "sleep":
		return job.Payload, wait()
	case what.Do == "heed":
		_ = wait()
		var asked *codeq.CancelRequest
		heeded := errors.As(context.Cause(ctx), &asked) && !asked.Deadline.IsZero()
		return json.RawMessage(fmt.Sprintf(`{"heeded":%t}`, heeded)), nil
	case what.Do == "resume" && job.Saved == nil:
		if err := job.Checkpoint(what.Value); err != nil {
			return nil, err
		}
		return nil, errors.New("the next attempt goes on")
	case what.Do == "resume":
		return json.RawMessage(fmt.Sprintf(`{"from":%s}`, job.Saved)), nil
	case what.Do == "report":
		if err := job.Progress(what.Value); err != nil {
			return nil, err
		}
		return nil, wait()
	}
	return job.Payload, nil
}

func produce(client *codeq.Client, given order) {
	ctx := context.Background()
	switch {
	case given.Cancel != nil:
		for _, id := range given.Cancel.IDs {
			if _, err := client.Cancel(ctx, id, seconds(given.Cancel.Grace), given.Cancel.Reason); err != nil {
				log.Fatal(err)
			}
		}
	case given.Schedule != nil:
		plan := codeq.Schedule{
			Cron: given.Schedule.Cron,
			Task: codeq.NewTask{Command: "exam", Payload: given.Schedule.Payload},
		}
		if _, err := client.PutSchedule(ctx, given.Schedule.Name, plan); err != nil {
			log.Fatal(err)
		}
	case given.Batch != nil:
		tell(batch(ctx, client, given))
	default:
		tell(createAll(ctx, client, given))
	}
}

func batch(ctx context.Context, client *codeq.Client, given order) []codeq.Created {
	opened, err := client.CreateBatch(ctx, codeq.NewBatch{})
	if err != nil {
		log.Fatal(err)
	}
	var members []codeq.NewTask
	for _, payload := range given.Batch.Members {
		members = append(members, codeq.NewTask{Command: "exam", Payload: payload, BatchID: opened.ID})
	}
	made, err := client.CreateMany(ctx, members)
	if err != nil {
		log.Fatal(err)
	}
	last, err := client.Create(ctx, "exam", given.Batch.Then, codeq.After(opened.ID))
	if err := errors.Join(err, client.CloseBatch(ctx, opened.ID)); err != nil {
		log.Fatal(err)
	}
	return append(made, codeq.Created{Task: last})
}

func createAll(ctx context.Context, client *codeq.Client, given order) []codeq.Created {
	var made []codeq.Created
	var tasks []codeq.NewTask
	for _, one := range given.Tasks {
		if one.Command == "" {
			one.Command = "exam"
		}
		if given.Many {
			tasks = append(tasks, codeq.NewTask{Command: one.Command, Payload: one.Payload})
			continue
		}
		options := []codeq.CreateOption{codeq.MaxAttempts(one.MaxAttempts), codeq.Lane(one.Lane), codeq.Webhook(one.Webhook)}
		if one.Unique != "" {
			options = append(options, codeq.OnlyOne(codeq.Unique{Key: one.Unique}))
		}
		task, err := client.Create(ctx, one.Command, one.Payload, options...)
		made = append(made, codeq.Created{Task: task, Err: err})
	}
	if given.Many {
		var err error
		if made, err = client.CreateMany(ctx, tasks); err != nil {
			log.Fatal(err)
		}
	}
	return made
}

func tell(made []codeq.Created) {
	for _, one := range made {
		var refused *codeq.Refused
		switch {
		case errors.As(one.Err, &refused):
			fmt.Printf("{\"type\":%q,\"code\":%q}\n", "Refused", refused.Code)
		case one.Err != nil:
			log.Fatal(one.Err)
		default:
			fmt.Printf("{\"id\":%q}\n", one.Task.ID)
		}
	}
}

func seconds(span float64) time.Duration { return time.Duration(span * float64(time.Second)) }
