package codeq

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Schedule makes a task whenever it falls due. Exactly one of Cron and EverySeconds is set.
type Schedule struct {
	Task                 NewTask    `json:"task"`
	Cron                 string     `json:"cron,omitempty"`
	EverySeconds         int64      `json:"everySeconds,omitempty"`
	Anchor               *time.Time `json:"anchor,omitempty"`
	Timezone             string     `json:"timezone,omitempty"`
	Overlap              string     `json:"overlap,omitempty"`
	CatchUp              string     `json:"catchUp,omitempty"`
	CatchUpWindowSeconds int64      `json:"catchUpWindowSeconds,omitempty"`
	JitterSeconds        int64      `json:"jitterSeconds,omitempty"`
	StartAt              *time.Time `json:"startAt,omitempty"`
	EndAt                *time.Time `json:"endAt,omitempty"`
	Paused               bool       `json:"paused,omitempty"`
}

// ScheduleState is a schedule and what it did.
type ScheduleState struct {
	Schedule
	Name       string     `json:"name"`
	NextAt     *time.Time `json:"nextAt"`
	LastAt     *time.Time `json:"lastAt"`
	LastTaskID string     `json:"lastTaskId"`
	Missed     int64      `json:"missed"`
	Skipped    int64      `json:"skipped"`
}

func schedulePath(name, verb string) string { return "/schedules/" + url.PathEscape(name) + verb }

// PutSchedule creates or replaces a schedule.
func (c *Client) PutSchedule(ctx context.Context, name string, plan Schedule) (*ScheduleState, error) {
	var state ScheduleState
	return &state, c.object(ctx, call{method: http.MethodPut, path: schedulePath(name, "")}, plan, &state)
}

// GetSchedule reads a schedule.
func (c *Client) GetSchedule(ctx context.Context, name string) (*ScheduleState, error) {
	var state ScheduleState
	return &state, c.object(ctx, call{method: http.MethodGet, path: schedulePath(name, "")}, nil, &state)
}

// ListSchedules reads all schedules of the tenant.
func (c *Client) ListSchedules(ctx context.Context) ([]ScheduleState, error) {
	return pages[ScheduleState](ctx, c, "/schedules")
}

// DeleteSchedule deletes a schedule; its tasks stay.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.object(ctx, call{method: http.MethodDelete, path: schedulePath(name, "")}, nil, nil)
}

// TriggerSchedule makes the task of a schedule now, besides its plan. It is not repeated once it may have been done.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (*Task, error) {
	task := &Task{client: c}
	made := call{method: http.MethodPost, path: schedulePath(name, "/trigger"), unsafe: true}
	return task, c.object(ctx, made, struct{}{}, task)
}

// PauseSchedule keeps a schedule from making tasks; ticks until it resumes are not missed.
func (c *Client) PauseSchedule(ctx context.Context, name, note string) error {
	fields := map[string]string{"note": note}
	return c.object(ctx, call{method: http.MethodPost, path: schedulePath(name, "/pause")}, fields, nil)
}

// ResumeSchedule lets a paused schedule go on.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	return c.object(ctx, call{method: http.MethodPost, path: schedulePath(name, "/resume")}, struct{}{}, nil)
}

// NextTicks tells when a schedule will fire, as the server says it.
func (c *Client) NextTicks(ctx context.Context, name string, count int) (json.RawMessage, error) {
	var ticks json.RawMessage
	path := schedulePath(name, "/next?count="+strconv.Itoa(count))
	err := c.object(ctx, call{method: http.MethodGet, path: path}, nil, &ticks)
	return ticks, err
}

// BackfillSchedule makes the tasks of the ticks from one instant up to but without the other. The answer is the operation.
func (c *Client) BackfillSchedule(ctx context.Context, name string, from, to time.Time) (json.RawMessage, error) {
	var operation json.RawMessage
	made := call{method: http.MethodPost, path: schedulePath(name, "/backfill"), unsafe: true}
	err := c.object(ctx, made, map[string]time.Time{"from": from, "to": to}, &operation)
	return operation, err
}

// NewBatch is a batch to open.
type NewBatch struct {
	Name              string    `json:"name,omitempty"`
	CloseAfterSeconds int64     `json:"closeAfterSeconds,omitempty"`
	Then              []NewTask `json:"then,omitempty"`
	// OnFailure is "run" or "skip": what happens to Then if a member does not complete.
	OnFailure string `json:"onFailure,omitempty"`
}

// Batch are tasks that end together: creates join it with InBatch, and what shall happen then is created with After.
type Batch struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	State    string  `json:"state"`
	Progress float64 `json:"progress"`
	Counts   struct {
		Live      int64 `json:"live"`
		Completed int64 `json:"completed"`
		Failed    int64 `json:"failed"`
	} `json:"counts"`
	// Then are the ids of the tasks that run then; only in the answer of CreateBatch.
	Then []string `json:"then"`
}

func batchPath(id, verb string) string { return "/batches/" + url.PathEscape(id) + verb }

// CreateBatch opens a batch. One with tasks to run then is not asked for again once it may have been made.
func (c *Client) CreateBatch(ctx context.Context, batch NewBatch) (*Batch, error) {
	var made Batch
	return &made, c.object(ctx, call{method: http.MethodPost, path: "/batches", unsafe: len(batch.Then) > 0}, batch, &made)
}

// GetBatch reads a batch.
func (c *Client) GetBatch(ctx context.Context, id string) (*Batch, error) {
	var batch Batch
	return &batch, c.object(ctx, call{method: http.MethodGet, path: batchPath(id, "")}, nil, &batch)
}

// CloseBatch says that no task joins any more.
func (c *Client) CloseBatch(ctx context.Context, id string) error {
	return c.object(ctx, call{method: http.MethodPost, path: batchPath(id, "/close")}, struct{}{}, nil)
}

// CancelBatch cancels all members that live.
func (c *Client) CancelBatch(ctx context.Context, id string) error {
	return c.object(ctx, call{method: http.MethodDelete, path: batchPath(id, "")}, nil, nil)
}

// BatchMembers reads the tasks of a batch.
func (c *Client) BatchMembers(ctx context.Context, id string) ([]Task, error) {
	tasks, err := pages[Task](ctx, c, batchPath(id, "/members"))
	for at := range tasks {
		tasks[at].client = c
	}
	return tasks, err
}

func pages[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	var all []T
	for cursor := ""; ; {
		var page struct {
			Items []T
			Next  string
		}
		asked := path
		if cursor != "" {
			asked += "?cursor=" + url.QueryEscape(cursor)
		}
		if err := c.object(ctx, call{method: http.MethodGet, path: asked}, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all, nil
		}
	}
}
