package codeq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// backoff gives growing pauses with jitter.
type backoff struct{ next time.Duration }

func (b *backoff) reset() { b.next = 0 }

// pause is half of the span and a random part of the other half, or what the server asks for.
func (b *backoff) pause(retryAfter time.Duration) time.Duration {
	span := max(b.next, firstPause)
	b.next = min(span*2, lastPause)
	pause := span/2 + time.Duration(rand.Int63n(int64(span/2)+1))
	return max(pause, min(retryAfter, maxRetryAfter))
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answer is what came back for a request that was taken.
type answer struct {
	status   int
	body     []byte
	header   http.Header
	isRepeat bool
}

// transport makes requests to one server: tokens, timeouts, and what is tried again.
type transport struct {
	url    string
	http   *http.Client
	giveUp time.Duration
	source func(context.Context) (string, error)

	lock  sync.Mutex
	token string
}

// call describes one request. What is not safe is repeated only when it cannot have been done.
type call struct {
	method string
	path   string
	body   []byte
	wait   time.Duration
	worker string
	unsafe bool
}

// do calls until there is an answer, and gives up after a while.
func (t *transport) do(ctx context.Context, c call) (*answer, error) {
	var pauses backoff
	end, wasSent := time.Now().Add(t.giveUp), false
	for {
		got, err := t.once(ctx, c)
		var absent *Absent
		if !errors.As(err, &absent) {
			if got != nil {
				got.isRepeat = wasSent
			}
			return got, err
		}
		wasSent = wasSent || !absent.NotSent
		pause := pauses.pause(absent.RetryAfter)
		if (!absent.NotSent && c.unsafe) || time.Now().Add(pause).After(end) {
			return nil, fmt.Errorf("%s %s: %w", c.method, c.path, absent)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// once makes one request, and a second one with a new token if the first was refused for its token.
func (t *transport) once(ctx context.Context, c call) (*answer, error) {
	token, err := t.currentToken(ctx, "")
	if err != nil {
		return nil, err
	}
	got, err := t.send(ctx, c, token)
	var refused *Refused
	if t.source != nil && errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		if token, err = t.currentToken(ctx, token); err != nil {
			return nil, err
		}
		return t.send(ctx, c, token)
	}
	return got, err
}

// currentToken gives the token, or a new one if nobody has renewed the refused one yet.
func (t *transport) currentToken(ctx context.Context, refused string) (string, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.source == nil || (t.token != "" && t.token != refused) {
		return t.token, nil
	}
	token, err := t.source(ctx)
	if err != nil {
		return "", &Absent{Text: "no token: " + err.Error(), NotSent: true, Cause: err}
	}
	t.token = token
	return token, nil
}

func (t *transport) send(ctx context.Context, c call, token string) (*answer, error) {
	timed, cancel := context.WithTimeout(ctx, c.wait+requestTime)
	defer cancel()
	request, err := http.NewRequestWithContext(timed, c.method, t.url+"/v1/codeq"+c.path, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "codeq-go/"+Version)
	if c.worker != "" {
		request.Header.Set("Codeq-Worker", c.worker)
	}
	response, err := t.http.Do(request)
	if err != nil {
		return nil, absentFor(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytes))
	if err != nil {
		return nil, absentFor(ctx, err)
	}
	return read(response, body, c.worker != "")
}

// absentFor is the end of the caller's context, or no answer.
func absentFor(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var dial *net.OpError
	notSent := errors.As(err, &dial) && dial.Op == "dial"
	return &Absent{Text: err.Error(), NotSent: notSent, Cause: err}
}

// read tells answers, refusals, and what says to come back later. To a worker that is any 5xx: what a handler has done must
// not be thrown away for a fault of the server.
func read(response *http.Response, body []byte, isWork bool) (*answer, error) {
	if response.StatusCode < 300 {
		return &answer{status: response.StatusCode, body: body, header: response.Header}, nil
	}
	refused := refusal(response.StatusCode, body, response.Header.Get("X-Request-Id"))
	comesBack := isWork && response.StatusCode >= http.StatusInternalServerError
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		comesBack = true
	}
	if comesBack {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return nil, &Absent{
			Text:       refused.Error(),
			RetryAfter: time.Duration(seconds) * time.Second,
			NotSent:    response.StatusCode == http.StatusTooManyRequests,
			Cause:      refused,
		}
	}
	return nil, refused
}

// marshal writes JSON without escaping what HTML would mind.
func marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}

func trimURL(url string) string { return strings.TrimRight(url, "/") }
