package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisLists is the queue that people build themselves: LPUSH, LMOVE to a list of the worker's own, LREM.
type redisLists struct{ address string }

func openRedisLists(_ context.Context, address string) (Peer, error) {
	return &redisLists{address}, nil
}

func (p *redisLists) connect() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: p.address, PoolSize: 1, DisableIdentity: true, ReadTimeout: time.Minute})
}

func (p *redisLists) Producer(context.Context) (Producer, error) {
	client := p.connect()
	return func(ctx context.Context, jobs [][]byte) error {
		if len(jobs) == 1 {
			return client.LPush(ctx, "jobs", jobs[0]).Err()
		}
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, job := range jobs {
				pipe.LPush(ctx, "jobs", job)
			}
			return nil
		})
		return err
	}, nil
}

func (p *redisLists) Work(ctx context.Context, workers, window int, done func(int)) error {
	return each(workers, func(worker int) error {
		client, held := p.connect(), fmt.Sprintf("held:%d", worker)
		for ctx.Err() == nil {
			first, err := client.BLMove(ctx, "jobs", held, "RIGHT", "LEFT", 0).Result()
			if err != nil {
				return err
			}
			jobs := []string{first}
			if window > 1 {
				if jobs, err = more(ctx, client, held, jobs, window-1); err != nil {
					return err
				}
			}
			if err := remove(ctx, client, held, jobs); err != nil {
				return err
			}
			done(len(jobs))
		}
		return ctx.Err()
	})
}

// more takes what else is there, in one round trip.
func more(ctx context.Context, client *redis.Client, held string, jobs []string, count int) ([]string, error) {
	moved, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for range count {
			pipe.LMove(ctx, "jobs", held, "RIGHT", "LEFT")
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return nil, err
	}
	for _, one := range moved {
		if text, err := one.(*redis.StringCmd).Result(); err == nil {
			jobs = append(jobs, text)
		}
	}
	return jobs, nil
}

func remove(ctx context.Context, client *redis.Client, held string, jobs []string) error {
	if len(jobs) == 1 {
		return client.LRem(ctx, held, -1, jobs[0]).Err()
	}
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, job := range jobs {
			pipe.LRem(ctx, held, -1, job)
		}
		return nil
	})
	return err
}
