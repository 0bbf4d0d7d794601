package main

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsPeer is a JetStream work queue in files. Acks are confirmed, because an ack that is lost repeats the job.
type natsPeer struct{ address string }

func openNATS(ctx context.Context, address string) (Peer, error) {
	p := &natsPeer{address}
	js, err := p.connect()
	if err != nil {
		return nil, err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "JOBS", Subjects: []string{"jobs.*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return nil, err
	}
	_, err = js.CreateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10_000,
	})
	return p, err
}

func (p *natsPeer) connect() (jetstream.JetStream, error) {
	connection, err := nats.Connect("nats://" + p.address)
	if err != nil {
		return nil, err
	}
	return jetstream.New(connection)
}

func (p *natsPeer) Producer(context.Context) (Producer, error) {
	js, err := p.connect()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, jobs [][]byte) error {
		if len(jobs) == 1 {
			_, err := js.Publish(ctx, "jobs.send", jobs[0])
			return err
		}
		acks := make([]jetstream.PubAckFuture, len(jobs))
		for at, job := range jobs {
			if acks[at], err = js.PublishAsync("jobs.send", job); err != nil {
				return err
			}
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				return err
			}
		}
		return nil
	}, nil
}

func (p *natsPeer) Work(ctx context.Context, workers, window int, done func(int)) error {
	return each(workers, func(int) error {
		js, err := p.connect()
		if err != nil {
			return err
		}
		consumer, err := js.Consumer(ctx, "JOBS", "workers")
		if err != nil {
			return err
		}
		messages, err := consumer.Messages(jetstream.PullMaxMessages(window))
		if err != nil {
			return err
		}
		failed := make(chan error, window)
		for range window {
			go func() { failed <- acknowledge(ctx, messages, done) }()
		}
		return <-failed
	})
}

func acknowledge(ctx context.Context, messages jetstream.MessagesContext, done func(int)) error {
	for {
		message, err := messages.Next()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if err := message.DoubleAck(ctx); err != nil {
			return err
		}
		done(1)
	}
}
