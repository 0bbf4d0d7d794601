package main

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

const rabbitQueue = "jobs"

// rabbitMQ is a quorum queue with publisher confirms and manual acks. Acks of workers have no answer in AMQP 0-9-1.
type rabbitMQ struct{ address string }

func openRabbitMQ(_ context.Context, address string) (Peer, error) {
	p := &rabbitMQ{address}
	channel, err := p.channel()
	if err != nil {
		return nil, err
	}
	_, err = channel.QueueDeclare(rabbitQueue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	return p, err
}

func (p *rabbitMQ) channel() (*amqp.Channel, error) {
	connection, err := amqp.Dial("amqp://guest:guest@" + p.address + "/")
	if err != nil {
		return nil, err
	}
	return connection.Channel()
}

func (p *rabbitMQ) Producer(context.Context) (Producer, error) {
	channel, err := p.channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, err
	}
	return func(ctx context.Context, jobs [][]byte) error {
		confirms := make([]*amqp.DeferredConfirmation, len(jobs))
		for at, job := range jobs {
			message := amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: job}
			if confirms[at], err = channel.PublishWithDeferredConfirm("", rabbitQueue, false, false, message); err != nil {
				return err
			}
		}
		for _, confirm := range confirms {
			if isTaken, err := confirm.WaitContext(ctx); err != nil {
				return err
			} else if !isTaken {
				return errors.New("RabbitMQ refused a message")
			}
		}
		return nil
	}, nil
}

func (p *rabbitMQ) Work(ctx context.Context, workers, window int, done func(int)) error {
	return each(workers, func(int) error {
		channel, err := p.channel()
		if err != nil {
			return err
		}
		if err := channel.Qos(window, 0, false); err != nil {
			return err
		}
		deliveries, err := channel.Consume(rabbitQueue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		for delivery := range deliveries {
			if err := delivery.Ack(false); err != nil {
				return err
			}
			done(1)
		}
		return errors.Join(ctx.Err(), errors.New("RabbitMQ ended the deliveries"))
	})
}
