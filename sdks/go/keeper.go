package codeq

import (
	"context"
	"errors"
	"time"
)

// keeper extends the lease of one attempt after every third of it, in a goroutine of its own.
type keeper struct {
	worker  *Worker
	attempt *Attempt
	// stop ends the context of the handler, lose that of the whole attempt.
	stop, lose context.CancelCauseFunc
	// beating has room for one heartbeat: on a stream its answer names the task and nothing else.
	beating chan struct{}
}

// keep beats until the attempt is settled or its lease is lost.
func (k *keeper) keep(ctx context.Context) {
	third := k.worker.lease / 3
	next := k.attempt.Deadline().Add(-2 * third)
	for sleep(ctx, time.Until(next)) == nil {
		until := k.attempt.Deadline()
		if !time.Now().Before(until) {
			k.worker.log.Warn("a lease ended before a heartbeat got through", "task", k.attempt.ID)
			k.lost()
			return
		}
		sent := time.Now()
		// One that hangs must leave time for another.
		bounded, done := context.WithDeadline(ctx, minTime(until, sent.Add(max(time.Second, third))))
		err := k.beat(bounded, Heartbeat{})
		done()
		next = sent.Add(third)
		var absent *Absent
		switch {
		case err == nil || ctx.Err() != nil:
		case isGone(err):
			k.worker.log.Info("a task is not ours any more", "task", k.attempt.ID, "error", err)
			k.lost()
			return
		case errors.As(err, &absent):
			next = minTime(time.Now().Add(third/4), until)
		default:
			// A token may be replaced, a scope granted, before the lease is over.
			k.worker.log.Error("a heartbeat was refused", "task", k.attempt.ID, "error", err)
			next = minTime(time.Now().Add(third/4), until)
		}
	}
}

// say sends a heartbeat that carries something, and repeats it while the lease lives.
func (k *keeper) say(ctx context.Context, beat Heartbeat) error {
	var pauses backoff
	for {
		err := k.beat(ctx, beat)
		var absent *Absent
		if !errors.As(err, &absent) {
			if isGone(err) {
				k.lost()
			}
			return err
		}
		if err := sleep(ctx, pauses.pause(absent.RetryAfter)); err != nil {
			return err
		}
	}
}

// beat sends one heartbeat, and waits for its answer no longer than the context lives, whatever the link does.
func (k *keeper) beat(ctx context.Context, beat Heartbeat) error {
	select {
	case k.beating <- struct{}{}:
	case <-ctx.Done():
		return &Absent{Text: context.Cause(ctx).Error(), NotSent: true, Cause: context.Cause(ctx)}
	}
	answered := make(chan error, 1)
	go func() {
		defer func() { <-k.beating }()
		answered <- k.ask(ctx, beat)
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return &Absent{Text: context.Cause(ctx).Error(), Cause: context.Cause(ctx)}
	}
}

func (k *keeper) ask(ctx context.Context, beat Heartbeat) error {
	beat.TaskID, beat.Attempt, beat.Lease = k.attempt.ID, k.attempt.Number, k.worker.lease
	sent := time.Now()
	kept, err := k.worker.link.Heartbeat(ctx, beat)
	var refused *Refused
	if err != nil && ctx.Err() != nil && !errors.As(err, &refused) {
		return &Absent{Text: err.Error(), Cause: err}
	}
	if err != nil {
		return err
	}
	k.attempt.lock.Lock()
	k.attempt.until = sent.Add(k.worker.lease)
	k.attempt.lock.Unlock()
	if kept.Cancel != nil {
		k.stop(kept.Cancel)
	}
	return nil
}

func (k *keeper) lost() {
	k.lose(ErrLeaseLost)
	k.stop(ErrLeaseLost)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
