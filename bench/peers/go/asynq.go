package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
)

// asynqPeer is one Asynq server for all workers; each job is enqueued by itself, as there is no bulk call.
type asynqPeer struct{ redis asynq.RedisClientOpt }

func openAsynq(_ context.Context, address string) (Peer, error) {
	return &asynqPeer{asynq.RedisClientOpt{Addr: address, PoolSize: 80}}, nil
}

func (p *asynqPeer) Producer(context.Context) (Producer, error) {
	client := asynq.NewClient(p.redis)
	one := func(ctx context.Context, job []byte) error {
		_, err := client.EnqueueContext(ctx, asynq.NewTask("send", job))
		return err
	}
	return func(ctx context.Context, jobs [][]byte) error {
		if len(jobs) == 1 {
			return one(ctx, jobs[0])
		}
		return together(len(jobs), func(at int) error { return one(ctx, jobs[at]) })
	}, nil
}

// together runs one function per job and returns when all have.
func together(count int, run func(at int) error) error {
	answers := make(chan error, count)
	for at := range count {
		go func() { answers <- run(at) }()
	}
	var failed error
	for range count {
		if err := <-answers; err != nil {
			failed = err
		}
	}
	return failed
}

func (p *asynqPeer) Work(ctx context.Context, workers, window int, done func(int)) error {
	server := asynq.NewServer(p.redis, asynq.Config{
		Concurrency: workers * window, LogLevel: asynq.FatalLevel, TaskCheckInterval: 200 * time.Millisecond,
	})
	// Counted when the handler returns: Asynq tells nobody when the job is removed, one command later.
	handle := func(context.Context, *asynq.Task) error {
		done(1)
		return nil
	}
	if err := server.Start(asynq.HandlerFunc(handle)); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}
