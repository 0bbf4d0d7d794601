// Package codeq creates tasks for codeQ, the durable task queue, and works on them.
//
// Start with [NewClient] and [Client.Create]; [NewWorker], [Handle] and [Worker.Run] for workers. This package needs the
// standard library only; package stream, a module of its own, has the same over gRPC streams.
package codeq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"
)

// Version is the version of the package, as sent with claims.
const Version = "0.1.0"

// Client creates tasks and reads what became of them. Every call is repeated until it is answered, for a minute unless
// [GiveUp] says otherwise; creates carry an idempotency key, so that cannot make a second task.
type Client struct{ transport *transport }

// ClientOption is one setting of a client.
type ClientOption func(*transport)

// Token is the token of the client; CODEQ_TOKEN, or dev-token, if there is none.
func Token(token string) ClientOption { return func(t *transport) { t.token = token } }

// TokenSource is asked for a token at first, and again whenever the server no longer takes the last one.
func TokenSource(source func(context.Context) (string, error)) ClientOption {
	return func(t *transport) { t.source, t.token = source, "" }
}

// GiveUp is how long a call is repeated.
func GiveUp(after time.Duration) ClientOption { return func(t *transport) { t.giveUp = after } }

// HTTPClient is used instead of one of our own. Its timeout must be longer than 50 s.
func HTTPClient(client *http.Client) ClientOption { return func(t *transport) { t.http = client } }

// NewClient is a client of the server at url; CODEQ_URL, or http://127.0.0.1:8080, if it is empty.
func NewClient(url string, options ...ClientOption) *Client {
	if url == "" {
		url = envOr("CODEQ_URL", "http://127.0.0.1:8080")
	}
	pool := http.DefaultTransport.(*http.Transport).Clone()
	pool.MaxIdleConnsPerHost = 64
	made := &transport{
		url:    trimURL(url),
		http:   &http.Client{Transport: pool},
		giveUp: defaultGiveUp,
		token:  envOr("CODEQ_TOKEN", "dev-token"),
	}
	for _, option := range options {
		option(made)
	}
	return &Client{made}
}

func envOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// Create creates a task. When it returns, the task is on the server's disk.
func (c *Client) Create(ctx context.Context, command string, payload any, options ...CreateOption) (*Task, error) {
	made, err := New(command, payload, options...)
	if err != nil {
		return nil, err
	}
	body, err := marshal(made.WithKey())
	if err != nil {
		return nil, err
	}
	got, err := c.transport.do(ctx, call{method: http.MethodPost, path: "/tasks", body: body})
	if err != nil {
		return nil, err
	}
	task, err := c.task(got.body)
	if err == nil {
		isReplay := got.header.Get("Idempotent-Replayed") != "" && !got.isRepeat
		task.Replayed = isReplay || got.header.Get("Codeq-Deduplicated") != ""
	}
	return task, err
}

// Created is what became of one task of a batch: Task, or Err.
type Created struct {
	Task *Task
	Err  error
}

// CreateMany creates tasks in as few requests as possible. The answers are in the order of the tasks; one that the server
// refuses does not stop the others.
func (c *Client) CreateMany(ctx context.Context, tasks []NewTask) ([]Created, error) {
	texts := make([]json.RawMessage, len(tasks))
	for at, task := range tasks {
		text, err := marshal(task.WithKey())
		if err != nil {
			return nil, err
		}
		texts[at] = text
	}
	answers := make([]Created, len(tasks))
	var group sync.WaitGroup
	slots, failures := make(chan struct{}, batchesAtOnce), make(chan error, len(tasks)+1)
	for start := 0; start < len(texts); {
		end := cut(texts, start)
		slots <- struct{}{}
		group.Add(1)
		go func(from, to int) {
			defer func() { <-slots; group.Done() }()
			if err := c.createBatch(ctx, texts[from:to], answers[from:to]); err != nil {
				failures <- err
			}
		}(start, end)
		start = end
	}
	group.Wait()
	close(failures)
	return answers, <-failures
}

// cut gives the end of the batch that begins at start.
func cut(texts []json.RawMessage, start int) int {
	size := 0
	for at := start; at < len(texts); at++ {
		size += len(texts[at])
		if at > start && (at-start == batchItems || size > createBatchBytes) {
			return at
		}
	}
	return len(texts)
}

// createBatch sends the batch, and again what the store could not take, until the call is given up.
func (c *Client) createBatch(ctx context.Context, texts []json.RawMessage, answers []Created) error {
	places := make([]int, len(texts))
	for at := range places {
		places[at] = at
	}
	var pauses backoff
	for end := time.Now().Add(c.transport.giveUp); ; {
		open := make([]json.RawMessage, len(places))
		for at, place := range places {
			open[at] = texts[place]
		}
		items, err := c.sendBatch(ctx, open)
		if err != nil {
			return err
		}
		var left []int
		for at, item := range items {
			answers[places[at]] = item
			if errors.Is(item.Err, StorageUnavailable) {
				left = append(left, places[at])
			}
		}
		pause := pauses.pause(0)
		if len(left) == 0 || time.Now().Add(pause).After(end) {
			return nil
		}
		places = left
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (c *Client) sendBatch(ctx context.Context, texts []json.RawMessage) ([]Created, error) {
	body, err := marshal(map[string]any{"tasks": texts})
	if err != nil {
		return nil, err
	}
	got, err := c.transport.do(ctx, call{method: http.MethodPost, path: "/tasks/batch", body: body})
	var refused *Refused
	if errors.As(err, &refused) && (refused.Status == http.StatusBadRequest || refused.Status == http.StatusRequestEntityTooLarge) {
		return c.sendAlone(ctx, texts, refused)
	}
	if err != nil {
		return nil, err
	}
	var said struct{ Results []json.RawMessage }
	if err := json.Unmarshal(got.body, &said); err != nil {
		return nil, err
	}
	if len(said.Results) != len(texts) {
		return nil, fmt.Errorf("%d answers to %d tasks", len(said.Results), len(texts))
	}
	created := make([]Created, len(texts))
	for at, raw := range said.Results {
		var item struct {
			Task                   json.RawMessage
			Replayed, Deduplicated bool
		}
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil, err
		}
		if item.Task == nil {
			created[at].Err = refusal(0, raw, "")
		} else if created[at].Task, created[at].Err = c.task(item.Task); created[at].Err == nil {
			created[at].Task.Replayed = item.Replayed && !got.isRepeat || item.Deduplicated
		}
	}
	return created, nil
}

// sendAlone sends one after another what was refused as a whole: one of them spoils the body, and must not take the others
// with it.
func (c *Client) sendAlone(ctx context.Context, texts []json.RawMessage, refused *Refused) ([]Created, error) {
	if len(texts) == 1 {
		return []Created{{Err: refused}}, nil
	}
	var created []Created
	for at := range texts {
		one, err := c.sendBatch(ctx, texts[at:at+1])
		if err != nil {
			return nil, err
		}
		created = append(created, one...)
	}
	return created, nil
}

// Get reads a task.
func (c *Client) Get(ctx context.Context, id string) (*Task, error) {
	got, err := c.transport.do(ctx, call{method: http.MethodGet, path: "/tasks/" + url.PathEscape(id)})
	if err != nil {
		return nil, err
	}
	return c.task(got.body)
}

// Wait waits for the end of a task, whatever it is, or for the end of the context, which it tells as ErrNotFinished.
func (c *Client) Wait(ctx context.Context, id string) (*Outcome, error) {
	for {
		wait := resultWait
		if end, ok := ctx.Deadline(); ok {
			wait = max(0, min(wait, time.Until(end)))
		}
		path := "/tasks/" + url.PathEscape(id) + "/result?waitSeconds=" + strconv.FormatInt(wholeSeconds(wait), 10)
		got, err := c.transport.do(ctx, call{method: http.MethodGet, path: path, wait: wait})
		if err == nil {
			var said struct{ Result Outcome }
			err = json.Unmarshal(got.body, &said)
			return &said.Result, err
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("task %s: %w: %w", id, ErrNotFinished, context.Cause(ctx))
		}
		if !errors.Is(err, ResultNotFound) {
			return nil, err
		}
	}
}

// Artifact reads the bytes of an artifact that the server keeps.
func (c *Client) Artifact(ctx context.Context, id, name string) ([]byte, error) {
	path := "/tasks/" + url.PathEscape(id) + "/artifacts/" + url.PathEscape(name)
	got, err := c.transport.do(ctx, call{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	return got.body, nil
}

// Cancel ends a task that nobody wants any more; a running one gets grace to end by itself. An admin's token is needed on
// servers that do not have the producer's route yet.
func (c *Client) Cancel(ctx context.Context, id string, grace time.Duration, reason string) (*Task, error) {
	fields := map[string]any{"graceSeconds": wholeSeconds(grace)}
	if reason != "" {
		fields["reason"] = reason
	}
	body, err := marshal(fields)
	if err != nil {
		return nil, err
	}
	path := "/tasks/" + url.PathEscape(id) + "/cancel"
	got, err := c.transport.do(ctx, call{method: http.MethodPost, path: path, body: body})
	if errors.Is(err, RouteNotFound) || errors.Is(err, MethodNotAllowed) {
		got, err = c.transport.do(ctx, call{method: http.MethodPost, path: "/admin" + path, body: body})
	}
	if err != nil {
		return nil, err
	}
	return c.task(got.body)
}

func (c *Client) task(body []byte) (*Task, error) {
	task := &Task{client: c}
	if err := json.Unmarshal(body, task); err != nil {
		return nil, fmt.Errorf("an answer that is no task: %w", err)
	}
	return task, nil
}

// object makes a call whose answer is read into the value.
func (c *Client) object(ctx context.Context, made call, fields any, into any) error {
	if fields != nil {
		body, err := marshal(fields)
		if err != nil {
			return err
		}
		made.body = body
	}
	got, err := c.transport.do(ctx, made)
	if err != nil || into == nil || len(got.body) == 0 {
		return err
	}
	return json.Unmarshal(got.body, into)
}
