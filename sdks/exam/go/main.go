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
	Concurrency int
	Lease       float64
	Grace       *float64
	Many        bool
	Tasks       []create
}

type create struct {
	Command     string
	Payload     json.RawMessage
	MaxAttempts int
}

type deed struct {
	Do      string
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
			fmt.Fprintf(lines, "{\"event\":%q,\"task\":%q,\"attempt\":%d}\n", event, job.ID, job.Number)
		}
		note("start")
		defer note("end")
		err := act(ctx, job)
		if ctx.Err() != nil {
			note("stopped")
		}
		return job.Payload, err
	})
	if err := worker.RunUntilSignal(); err != nil {
		log.Fatal(err)
	}
}

func act(ctx context.Context, job *codeq.Job[json.RawMessage]) error {
	var what deed
	if err := json.Unmarshal(job.Payload, &what); err != nil {
		return err
	}
	switch {
	case what.Do == "flaky" && job.Number < what.Until:
		return errors.New("not yet")
	case what.Do == "raise":
		return errors.New(what.Text)
	case what.Do == "fail":
		return codeq.Fail(what.Text)
	case what.Do == "block":
		time.Sleep(seconds(what.Seconds))
	case what.Do == "sleep":
		select {
		case <-time.After(seconds(what.Seconds)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func produce(client *codeq.Client, given order) {
	ctx := context.Background()
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
		task, err := client.Create(ctx, one.Command, one.Payload, codeq.MaxAttempts(one.MaxAttempts))
		made = append(made, codeq.Created{Task: task, Err: err})
	}
	if given.Many {
		var err error
		if made, err = client.CreateMany(ctx, tasks); err != nil {
			log.Fatal(err)
		}
	}
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
