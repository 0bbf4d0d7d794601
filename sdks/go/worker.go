package codeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Worker runs handlers by command.
type Worker struct {
	client      *Client
	link        Link
	concurrency int
	lease       time.Duration
	grace       time.Duration
	weights     map[string]int
	name        string
	// failUnreadable: see FailUnreadable.
	failUnreadable bool
	layers         []Middleware
	log            *slog.Logger
	handlers       map[string]handler

	slots chan struct{}
	jobs  sync.WaitGroup
	// cut ends the contexts of handlers, over those of reports.
	cut, over       context.Context
	cutNow, overNow context.CancelCauseFunc
	failure         error
	failed          chan struct{}
	failOnce        sync.Once

	lock sync.Mutex
	// running are the attempts in hand, by task; a task is here once at a time.
	running map[string]*keeper
}

type handler struct {
	command string
	run     func(ctx context.Context, attempt *Attempt) (any, error)
}

// WorkerOption is one setting of a worker.
type WorkerOption func(*Worker)

// Concurrency is how many handlers run at once; 16.
func Concurrency(slots int) WorkerOption {
	return func(w *Worker) { w.concurrency = min(max(1, slots), maxConcurrency) }
}

// Lease is how long a task is lent for; heartbeats keep it. A minute.
func Lease(span time.Duration) WorkerOption {
	return func(w *Worker) { w.lease = min(max(minLease, span), maxLease) }
}

// Grace is what handlers have to end by themselves when the worker stops; 25 s.
func Grace(span time.Duration) WorkerOption { return func(w *Worker) { w.grace = span } }

// Weights say how often a command is asked for first, relative to the others: 1 to 100.
func Weights(weights map[string]int) WorkerOption { return func(w *Worker) { w.weights = weights } }

// Name is the name of the worker; host and process unless given.
func Name(name string) WorkerOption { return func(w *Worker) { w.name = name } }

// Use puts layers around every handler, the first one outermost.
func Use(layers ...Middleware) WorkerOption {
	return func(w *Worker) { w.layers = append(w.layers, layers...) }
}

// Logger gets one line per outcome; nothing is logged without one.
func Logger(log *slog.Logger) WorkerOption { return func(w *Worker) { w.log = log } }

// Over makes the worker speak over another link than HTTP. The worker closes it at its end.
func Over(link Link) WorkerOption { return func(w *Worker) { w.link = link } }

// NewWorker is a worker of the client's server.
func NewWorker(client *Client, options ...WorkerOption) *Worker {
	w := &Worker{
		client: client, concurrency: 16, lease: time.Minute, grace: defaultGrace, name: DefaultName(),
		log: slog.New(discard{}), handlers: map[string]handler{}, failed: make(chan struct{}), running: map[string]*keeper{},
	}
	for _, option := range options {
		option(w)
	}
	if w.link == nil {
		w.link = client.Link(w.name)
	}
	if teller, ok := w.link.(CancelTeller); ok {
		teller.OnCancel(w.cancelRequested)
	}
	w.slots = make(chan struct{}, w.concurrency)
	return w
}

// cancelRequested ends the context of an attempt that is in hand.
func (w *Worker) cancelRequested(taskID string, attempt int, asked CancelRequest) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if held, ok := w.running[taskID]; ok && held.attempt.Number == attempt {
		held.stop(&asked)
	}
}

func (w *Worker) hold(held *keeper) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.running[held.attempt.ID] = held
}

func (w *Worker) release(held *keeper) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.running[held.attempt.ID] == held {
		delete(w.running, held.attempt.ID)
	}
}

// DefaultName is host and process, so that an operator finds the process that holds a task.
func DefaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	name := strings.Map(func(letter rune) rune {
		if letter < '!' || letter > '~' {
			return '-'
		}
		return letter
	}, fmt.Sprintf("%s-%d", host, os.Getpid()))
	return name[max(0, len(name)-workerNameBytes):]
}

// FailUnreadable makes a payload that is no P fail its task at once. It is tried again like any error unless told: a worker
// of the next release may read it.
func FailUnreadable() WorkerOption { return func(w *Worker) { w.failUnreadable = true } }

// Handle makes a function the handler of a command. An error is tried again after the backoff of the server, and so is a
// payload that is no P, see [FailUnreadable]. The result is a JSON object, or is wrapped as {"value": ...}.
func Handle[P, R any](w *Worker, command string, handle func(ctx context.Context, job *Job[P]) (R, error)) {
	key := strings.ToLower(strings.TrimSpace(command))
	if _, known := w.handlers[key]; known {
		panic("codeq: " + command + " has a handler already")
	}
	w.handlers[key] = handler{strings.TrimSpace(command), func(ctx context.Context, attempt *Attempt) (any, error) {
		job := &Job[P]{Attempt: attempt}
		if err := attempt.Task.Decode(&job.Payload); err != nil {
			return nil, w.unreadable(err)
		}
		return handle(ctx, job)
	}}
}

func (w *Worker) unreadable(err error) error {
	text := "the payload cannot be read: " + err.Error()
	if w.failUnreadable {
		return Fail(text)
	}
	return Retry(0, text)
}

// Run works until the context ends: nothing more is claimed then, handlers have the grace, and what is left is given back
// at no cost. It returns nil, or what ended it before, such as a token that is refused.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.handlers) == 0 {
		return errors.New("codeq: the worker has no handler")
	}
	background := context.WithoutCancel(ctx)
	w.cut, w.cutNow = context.WithCancelCause(background)
	w.over, w.overNow = context.WithCancelCause(background)
	claims, stop := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-w.failed:
			stop(w.failure)
		case <-claims.Done():
		}
	}()
	claimed := make(chan struct{})
	go func() {
		defer close(claimed)
		w.claimUntilStop(claims)
	}()
	select {
	case <-claims.Done():
	case <-claimed:
	}
	stop(ErrShutdown)
	w.finish(claimed)
	return errors.Join(w.failure, w.link.Close())
}

// RunUntilSignal works until SIGTERM or SIGINT; a second one ends the process at once.
func (w *Worker) RunUntilSignal() error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		<-signals
		w.log.Info("stopping")
		stop()
		if second, ok := (<-signals).(syscall.Signal); ok {
			os.Exit(128 + int(second))
		}
	}()
	return w.Run(ctx)
}

func (w *Worker) claimUntilStop(ctx context.Context) {
	asked := Claim{Lease: w.lease, Weights: w.weights, Worker: w.info()}
	for _, known := range w.handlers {
		asked.Commands = append(asked.Commands, known.command)
	}
	var pauses backoff
	for ctx.Err() == nil {
		if asked.Count = w.takeSlots(ctx); asked.Count == 0 {
			return
		}
		tasks, err := w.link.Claim(ctx, asked)
		for extra := len(tasks); extra < asked.Count; extra++ {
			<-w.slots
		}
		var absent *Absent
		switch {
		case err == nil:
			pauses.reset()
		case errors.As(err, &absent):
			w.log.Warn("cannot claim; trying again", "error", err)
			_ = sleep(ctx, pauses.pause(absent.RetryAfter))
		case ctx.Err() == nil:
			w.end(err)
			return
		}
		for at := range tasks {
			if at < asked.Count {
				w.start(ctx, &tasks[at])
			} else {
				w.giveBack(&tasks[at])
			}
		}
	}
}

func (w *Worker) info() WorkerInfo {
	host, _ := os.Hostname()
	return WorkerInfo{Name: w.name, Host: host, PID: os.Getpid(), SDK: "go", Version: Version, Slots: w.concurrency}
}

// takeSlots takes all free slots, at least one, at most a batch. None: the context ended.
func (w *Worker) takeSlots(ctx context.Context) int {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for count := 1; ; count++ {
		select {
		case w.slots <- struct{}{}:
		default:
			return count
		}
	}
}

// end stops the worker because of something that trying again does not mend. The first reason counts.
func (w *Worker) end(err error) {
	w.failOnce.Do(func() {
		w.failure = err
		close(w.failed)
	})
}

func (w *Worker) start(ctx context.Context, task *Task) {
	w.jobs.Add(1)
	go func() {
		defer func() { <-w.slots; w.jobs.Done() }()
		w.work(ctx, task)
	}()
}

// giveBack returns a task that there is no slot for.
func (w *Worker) giveBack(task *Task) {
	w.jobs.Add(1)
	go func() {
		defer w.jobs.Done()
		// When the lease is over there is nothing to give back.
		ctx, done := context.WithTimeout(w.over, w.lease)
		defer done()
		w.deliver(ctx, Report{TaskID: task.ID, Attempt: max(1, task.Attempts), Verb: GiveBack})
	}()
}

func (w *Worker) work(claims context.Context, task *Task) {
	started := time.Now()
	lent := task.LentAt
	if lent.IsZero() {
		lent = started
	}
	lost, lose := context.WithCancelCause(w.over)
	defer lose(nil)
	attempt := newAttempt(task, lent.Add(w.lease), nil)
	run, stop := context.WithCancelCause(w.cut)
	defer stop(nil)
	keeper := &keeper{worker: w, attempt: attempt, stop: stop, lose: lose, beating: make(chan struct{}, 1)}
	attempt.say = func(beat Heartbeat) error { return keeper.say(lost, beat) }
	w.hold(keeper)
	defer w.release(keeper)
	go keeper.keep(lost)

	report := Report{TaskID: task.ID, Attempt: attempt.Number, Verb: GiveBack}
	known, ok := w.handlers[strings.ToLower(task.Command)]
	if ok && claims.Err() == nil {
		report = w.outcome(run, known, attempt)
	}
	outcome := string(report.Verb)
	if errors.Is(context.Cause(lost), ErrLeaseLost) {
		outcome = "dropped"
	} else {
		w.deliver(lost, report)
	}
	w.log.Info("task "+outcome, "task", task.ID, "command", task.Command, "attempt", attempt.Number,
		"outcome", outcome, "seconds", time.Since(started).Seconds())
}

// outcome runs the handler. A shutdown that it does not heed in time is answered for it: the goroutine is left behind.
func (w *Worker) outcome(ctx context.Context, known handler, attempt *Attempt) Report {
	ended := make(chan Report, 1)
	go func() { ended <- w.runHandler(ctx, known, attempt) }()
	givenBack := Report{TaskID: attempt.ID, Attempt: attempt.Number, Verb: GiveBack}
	select {
	case report := <-ended:
		if w.cut.Err() != nil {
			return givenBack
		}
		return report
	case <-w.cut.Done():
	}
	select {
	case <-ended:
	case <-time.After(cancelTime):
	}
	return givenBack
}

func (w *Worker) runHandler(ctx context.Context, known handler, attempt *Attempt) (report Report) {
	defer func() {
		if panicked := recover(); panicked != nil {
			w.log.Error("handler panicked", "task", attempt.ID, "panic", panicked, "stack", string(debug.Stack()))
			report = reportFor(attempt, nil, fmt.Errorf("handler panicked: %v", panicked))
		}
	}()
	next := func(ctx context.Context) (any, error) { return known.run(ctx, attempt) }
	for at := len(w.layers) - 1; at >= 0; at-- {
		layer, inner := w.layers[at], next
		next = func(ctx context.Context) (any, error) { return layer(ctx, attempt, inner) }
	}
	value, err := next(ctx)
	return reportFor(attempt, value, err)
}

// Attempt runs the handler of a task in this process and tells what a worker would report. For tests.
func (w *Worker) Attempt(ctx context.Context, task *Task, say func(Heartbeat) error) (Report, error) {
	known, ok := w.handlers[strings.ToLower(task.Command)]
	if !ok {
		return Report{}, fmt.Errorf("codeq: %s has no handler", task.Command)
	}
	return w.runHandler(ctx, known, newAttempt(task, time.Now().Add(w.lease), say)), nil
}

// deliver reports until there is an answer, or until the lease is lost and it cannot matter any more.
func (w *Worker) deliver(lost context.Context, report Report) {
	var pauses backoff
	for lost.Err() == nil {
		err := w.link.Report(lost, report)
		var absent *Absent
		switch {
		case err == nil:
			return
		case errors.As(err, &absent):
			w.log.Debug("a report has no answer yet", "task", report.TaskID, "error", err)
			_ = sleep(lost, pauses.pause(absent.RetryAfter))
		case isGone(err):
			// After an unknown outcome this is our own report that got through.
			w.log.Debug("the report came too late, or was there already", "task", report.TaskID, "error", err)
			return
		case lost.Err() != nil:
		case !isFinal(err):
			w.log.Warn("a report is not taken; trying again", "task", report.TaskID, "error", err)
			_ = sleep(lost, pauses.pause(0))
		case report.Verb == Complete:
			report = Report{TaskID: report.TaskID, Attempt: report.Attempt, Verb: FailTask,
				Text: words("the result was not taken: "+err.Error(), "")}
		default:
			w.log.Error("the report was refused", "task", report.TaskID, "error", err)
			return
		}
	}
	w.log.Warn("a report was not answered in time", "task", report.TaskID)
}

// finish gives handlers the grace; then they are cancelled, and what is left is given back at no cost. The last claim is seen
// through, but a server that does not answer it takes nothing of the grace.
func (w *Worker) finish(claimed <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		<-claimed
		w.jobs.Wait()
		close(ended)
	}()
	defer w.overNow(ErrShutdown)
	select {
	case <-ended:
	case <-time.After(w.grace):
		w.cutNow(ErrShutdown)
		select {
		case <-ended:
		case <-time.After(cancelTime + lastReports):
		}
	}
	w.cutNow(ErrShutdown)
}

// discard is a handler of log lines that drops them.
type discard struct{}

func (discard) Enabled(context.Context, slog.Level) bool  { return false }
func (discard) Handle(context.Context, slog.Record) error { return nil }
func (d discard) WithAttrs([]slog.Attr) slog.Handler      { return d }
func (d discard) WithGroup(string) slog.Handler           { return d }
