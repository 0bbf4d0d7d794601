// The Go runner of the exam; see exam.py.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/stream"
)

type order struct {
	URL string
	// Streams are addresses; without them everything goes over HTTP.
	Streams     struct{ Worker, Producer string }
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
	client := codeq.NewClient(given.URL, codeq.TokenSource(given.token()))
	if os.Args[1] == "worker" {
		work(client, given)
	} else {
		produce(client, given)
	}
}

// token gives every token once, the last one for ever.
func (o order) token() func(context.Context) (string, error) {
	left := o.Tokens
	return func(context.Context) (string, error) {
		token := left[0]
		if len(left) > 1 {
			left = left[1:]
		}
		return token, nil
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
	if given.Streams.Worker != "" {
		name := codeq.DefaultName()
		link := stream.NewLink(given.Streams.Worker, given.token(), name).WithHTTP(client, name)
		options = append(options, codeq.Over(link))
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
	if given.Streams.Producer != "" {
		return createOverStream(ctx, given)
	}
	var made []codeq.Created
	var tasks []codeq.NewTask
	for _, one := range given.Tasks {
		one.Command = cmp.Or(one.Command, "exam")
		if given.Many {
			tasks = append(tasks, codeq.NewTask{Command: one.Command, Payload: one.Payload})
			continue
		}
		task, err := client.Create(ctx, one.Command, one.Payload, one.options()...)
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

func createOverStream(ctx context.Context, given order) []codeq.Created {
	producer := stream.NewProducer(given.Streams.Producer, given.token())
	defer producer.Close()
	var tasks []codeq.NewTask
	for _, one := range given.Tasks {
		task, err := codeq.New(cmp.Or(one.Command, "exam"), one.Payload, one.options()...)
		if err != nil {
			log.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	made := make([]codeq.Created, len(tasks))
	if given.Many {
		ids, errs := producer.CreateMany(ctx, tasks)
		for at, id := range ids {
			made[at] = codeq.Created{Task: &codeq.Task{ID: id}, Err: errs[at]}
		}
		return made
	}
	for at, task := range tasks {
		id, err := producer.Create(ctx, task)
		made[at] = codeq.Created{Task: &codeq.Task{ID: id}, Err: err}
	}
	return made
}

func (c create) options() []codeq.CreateOption {
	options := []codeq.CreateOption{codeq.MaxAttempts(c.MaxAttempts), codeq.Lane(c.Lane), codeq.Webhook(c.Webhook)}
	if c.Unique != "" {
		options = append(options, codeq.OnlyOne(codeq.Unique{Key: c.Unique}))
	}
	return options
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
