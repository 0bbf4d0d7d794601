package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverEmail struct {
	ID       string `json:"id"`
	To       string `json:"to"`
	Template string `json:"template"`
	Pad      string `json:"pad"`
}

func (riverEmail) Kind() string { return "send" }

type riverWorker struct {
	river.WorkerDefaults[riverEmail]
}

func (*riverWorker) Work(context.Context, *river.Job[riverEmail]) error { return nil }

// riverPeer is one River client for all workers, as in a Go program that uses it.
type riverPeer struct{ pool *pgxpool.Pool }

func openRiver(ctx context.Context, address string) (Peer, error) {
	pool, err := pgxpool.New(ctx, postgresURL(address)+"?pool_max_conns=40")
	if err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return &riverPeer{pool}, err
}

func (p *riverPeer) client(config *river.Config) (*river.Client[pgx.Tx], error) {
	config.Logger = slog.New(slog.DiscardHandler)
	return river.NewClient(riverpgxv5.New(p.pool), config)
}

func (p *riverPeer) Producer(context.Context) (Producer, error) {
	client, err := p.client(&river.Config{})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, jobs [][]byte) error {
		if len(jobs) == 1 {
			_, err := client.Insert(ctx, riverJob(jobs[0]), nil)
			return err
		}
		many := make([]river.InsertManyParams, len(jobs))
		for at, job := range jobs {
			many[at].Args = riverJob(job)
		}
		_, err := client.InsertManyFast(ctx, many)
		return err
	}, nil
}

// riverJob has the length of the others' job; River encodes its arguments itself.
func riverJob(job []byte) riverEmail {
	return riverEmail{ID: string(job[7:23]), To: "user@example.com", Template: "welcome", Pad: string(job[len(job)-180 : len(job)-2])}
}

func (p *riverPeer) Work(ctx context.Context, workers, window int, done func(int)) error {
	known := river.NewWorkers()
	river.AddWorker(known, &riverWorker{})
	client, err := p.client(&river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers * window}},
		Workers:           known,
		FetchCooldown:     5 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	// Told when the row is completed, not when the handler returns.
	events, end := client.Subscribe(river.EventKindJobCompleted)
	defer end()
	if err := client.Start(ctx); err != nil {
		return err
	}
	for range events {
		done(1)
	}
	return ctx.Err()
}
