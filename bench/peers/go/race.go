package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type shape struct {
	producers, workers, window int
	length                     time.Duration
}

// A count is what one race has done so far.
type count struct {
	numbers, enqueued, finished atomic.Int64
	isMeasuring                 atomic.Bool

	lock  sync.Mutex
	waits []time.Duration
}

// race runs producers and workers, counts for a while and prints what came of it.
func race(parent context.Context, peer Peer, wanted shape) error {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	var so count
	failed := make(chan error, wanted.producers+1)
	go func() {
		failed <- peer.Work(ctx, wanted.workers, wanted.window, func(jobs int) { so.finished.Add(int64(jobs)) })
	}()
	for range wanted.producers {
		enqueue, err := peer.Producer(ctx)
		if err != nil {
			return err
		}
		go func() { failed <- so.produce(ctx, enqueue, wanted.window) }()
	}
	if err := pass(warmUp, failed); err != nil {
		return err
	}
	fmt.Println("begin")
	before, begun := so.finished.Load(), time.Now()
	so.isMeasuring.Store(true)
	if err := pass(wanted.length, failed); err != nil {
		return err
	}
	so.isMeasuring.Store(false)
	cycles, seconds := so.finished.Load()-before, time.Since(begun).Seconds()
	if err := json.NewEncoder(os.Stdout).Encode(so.report(cycles, seconds)); err != nil {
		return err
	}
	return untilSeen()
}

// untilSeen waits for a line: whoever measures looks at the process before it ends.
func untilSeen() error {
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// pass lets the race go on. Nobody may end before its end.
func pass(length time.Duration, failed chan error) error {
	select {
	case err := <-failed:
		return fmt.Errorf("ended early: %w", errors.Join(err, errors.New("a producer or the workers stopped")))
	case <-time.After(length):
		return nil
	}
}

func (c *count) produce(ctx context.Context, enqueue Producer, window int) error {
	for ctx.Err() == nil {
		for c.enqueued.Load()-c.finished.Load() >= backlogMax {
			time.Sleep(200 * time.Microsecond)
		}
		jobs := make([][]byte, window)
		first := c.numbers.Add(int64(window))
		for at := range jobs {
			jobs[at] = job(int(first) + at)
		}
		begun := time.Now()
		if err := enqueue(ctx, jobs); err != nil {
			return err
		}
		c.enqueued.Add(int64(window))
		if c.isMeasuring.Load() {
			c.lock.Lock()
			c.waits = append(c.waits, time.Since(begun))
			c.lock.Unlock()
		}
	}
	return nil
}

func (c *count) report(cycles int64, seconds float64) map[string]any {
	c.lock.Lock()
	defer c.lock.Unlock()
	slices.Sort(c.waits)
	at := func(share float64) int64 {
		if len(c.waits) == 0 {
			return 0
		}
		return c.waits[int(float64(len(c.waits)-1)*share)].Microseconds()
	}
	return map[string]any{
		"cycles": cycles, "seconds": seconds, "enqueueP50Us": at(0.5), "enqueueP99Us": at(0.99),
	}
}

// each runs one function per worker until the first fails.
func each(workers int, work func(worker int) error) error {
	failed := make(chan error, workers)
	for worker := range workers {
		go func() { failed <- work(worker) }()
	}
	return <-failed
}
