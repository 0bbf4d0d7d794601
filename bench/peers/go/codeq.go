package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/stream"
)

const codeqToken = "dev-token"

// codeqPeer speaks streams: one per producer and one per worker. Its address is "HTTP,PRODUCERS,WORKERS".
type codeqPeer struct{ url, producers, workers string }

func openCodeq(_ context.Context, address string) (Peer, error) {
	parts := strings.Split(address, ",")
	if len(parts) != 3 {
		return nil, fmt.Errorf("codeq needs three addresses, not %s", address)
	}
	return &codeqPeer{parts[0], parts[1], parts[2]}, nil
}

func (p *codeqPeer) Producer(context.Context) (Producer, error) {
	producer := stream.NewProducer(p.producers, stream.Static(codeqToken))
	return func(ctx context.Context, jobs [][]byte) error {
		tasks := make([]codeq.NewTask, len(jobs))
		for at, job := range jobs {
			tasks[at] = codeq.NewTask{Command: "send", Payload: job}
		}
		_, errs := producer.CreateMany(ctx, tasks)
		return errors.Join(errs...)
	}, nil
}

func (p *codeqPeer) Work(ctx context.Context, workers, window int, done func(int)) error {
	return each(workers, func(worker int) error {
		link := &counted{Link: stream.NewLink(p.workers, stream.Static(codeqToken), fmt.Sprintf("peers-%d", worker)), done: done}
		crew := codeq.NewWorker(codeq.NewClient(p.url, codeq.Token(codeqToken)), codeq.Concurrency(window), codeq.Over(link))
		codeq.Handle(crew, "send", func(context.Context, *codeq.Job[email]) (receipt, error) { return receipt{true}, nil })
		return crew.Run(ctx)
	})
}

type email struct {
	To string `json:"to"`
}

type receipt struct {
	Ok bool `json:"ok"`
}

// counted tells of a job when the server has answered the report, and not when the handler returns.
type counted struct {
	*stream.Link
	done func(int)
}

func (c *counted) Report(ctx context.Context, report codeq.Report) error {
	err := c.Link.Report(ctx, report)
	if err == nil {
		c.done(1)
	}
	return err
}
