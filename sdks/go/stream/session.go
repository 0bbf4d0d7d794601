// Package stream is codeq over gRPC streams, the fast path: no request per task, and work pushed the moment it is there.
//
//	worker := codeq.NewWorker(client, codeq.Over(stream.NewLink("127.0.0.1:9091", token, codeq.DefaultName())))
//	producer := stream.NewProducer("127.0.0.1:9092", token)
//
// With TLS addresses are https://host:port; see [WithTLS].
package stream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	codeq "github.com/codeq/codeq/sdks/go"
)

const (
	// batchItems is how many items one message has, and batchBytes how many bytes of them, unless one alone has more.
	batchItems = 1000
	batchBytes = 8 << 20
	// itemBytes is the largest item; the server reads messages up to 16 MiB, and a larger one would end the stream.
	itemBytes = 15 << 20
	// messageBytes is the largest message that is read; the server sends up to 16 MiB and an envelope.
	messageBytes = 17 << 20
	// pingInterval is how long a connection may be silent; servers allow one ping in five minutes.
	pingInterval = 5 * time.Minute
	pingTimeout  = 20 * time.Second
	// helloTime is what a handshake may take.
	helloTime = 10 * time.Second
)

// Token is asked for a token for every new stream.
type Token func(ctx context.Context) (string, error)

// Static is a token that stays the same.
func Static(token string) Token {
	return func(context.Context) (string, error) { return token, nil }
}

// session keeps one stream open: it is opened when it is needed, and anew after it broke.
type session[Out, In any] struct {
	target target
	token  Token
	open   func(ctx context.Context, conn *grpc.ClientConn) (grpc.BidiStreamingClient[Out, In], error)
	hello  func(token string) *Out
	// heard gets every message after the handshake, broken the end of a stream; it must not send.
	heard  func(*In)
	broken func(error)

	// dropped counts the streams that are over. What comes late from one of them is not heard.
	dropped atomic.Uint64

	lock    sync.Mutex
	conn    *grpc.ClientConn
	stream  grpc.BidiStreamingClient[Out, In]
	cancel  context.CancelFunc
	isEnded bool
}

// send puts a message on the stream. The outcome of what it asks for is unknown if the stream breaks.
func (s *session[Out, In]) send(ctx context.Context, message *Out) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.stream == nil {
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	if err := s.stream.Send(message); err != nil {
		absent := &codeq.Absent{Text: err.Error(), Cause: err}
		s.drop(absent)
		return absent
	}
	return nil
}

func (s *session[Out, In]) connect(ctx context.Context) error {
	if s.isEnded {
		return errors.New("the stream is closed")
	}
	if s.conn == nil {
		conn, err := s.target.dial()
		if err != nil {
			return err
		}
		s.conn = conn
	}
	token, err := s.askToken(ctx)
	if err != nil {
		return err
	}
	refused := s.shake(token)
	if !errors.Is(refused, codeq.InvalidToken) {
		return refused
	}
	// It may have run out. Whoever gives the same one again has no other.
	other, err := s.askToken(ctx)
	if err != nil {
		return err
	}
	if other == token {
		return refused
	}
	return s.shake(other)
}

func (s *session[Out, In]) askToken(ctx context.Context) (string, error) {
	token, err := s.token(ctx)
	if err != nil {
		return "", &codeq.Absent{Text: "no token: " + err.Error(), NotSent: true, Cause: err}
	}
	return token, nil
}

// shake opens a stream and says hello.
func (s *session[Out, In]) shake(token string) error {
	streaming, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(helloTime, cancel)
	stream, err := s.open(streaming, s.conn)
	if err == nil {
		err = stream.Send(s.hello(token))
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if !timer.Stop() || err != nil {
		cancel()
		return handshakeError(err)
	}
	s.stream, s.cancel = stream, cancel
	go s.listen(stream, s.dropped.Load())
	return nil
}

func (s *session[Out, In]) listen(stream grpc.BidiStreamingClient[Out, In], number uint64) {
	for {
		message, err := stream.Recv()
		if err != nil {
			s.lock.Lock()
			defer s.lock.Unlock()
			if s.stream == stream {
				s.drop(&codeq.Absent{Text: err.Error(), Cause: err})
			}
			return
		}
		// Without the lock: whoever sends may hold it until the server has read, and the server until we have.
		if s.dropped.Load() == number {
			s.heard(message)
		}
	}
}

// drop ends the stream and tells everyone who waits for something on it, before there is another one.
func (s *session[Out, In]) drop(why error) {
	s.cancel()
	s.stream = nil
	s.dropped.Add(1)
	s.broken(why)
}

func (s *session[Out, In]) close() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.isEnded = true
	if s.stream != nil {
		_ = s.stream.CloseSend()
		s.drop(&codeq.Absent{Text: "the stream is closed"})
	}
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

// handshakeError tells a token that is refused from a server that is away.
func handshakeError(err error) error {
	if err == nil {
		err = errors.New("the handshake took too long")
	}
	said, _ := status.FromError(err)
	switch said.Code() {
	case grpccodes.Unauthenticated:
		return &codeq.Refused{Status: 401, Code: codeq.InvalidToken, Text: said.Message()}
	case grpccodes.PermissionDenied:
		return &codeq.Refused{Status: 403, Code: codeq.InvalidTenant, Text: said.Message()}
	case grpccodes.InvalidArgument, grpccodes.FailedPrecondition:
		return &codeq.Refused{Status: 400, Code: codeOf(said.Message()), Text: said.Message()}
	case grpccodes.Unimplemented:
		return &codeq.Refused{Status: 404, Code: codeq.RouteNotFound, Text: said.Message()}
	}
	return &codeq.Absent{Text: err.Error(), NotSent: true, Cause: err}
}

// whole is a span in seconds, rounded up.
func whole(span time.Duration) int32 { return int32((span + time.Second - 1) / time.Second) }

// fitting is how many of the items, of which there is one at least, go into one message.
func fitting[T any](items []T, size func(T) int) int {
	bytes := 0
	for at, one := range items {
		bytes += size(one)
		if at == batchItems || at > 0 && bytes > batchBytes {
			return at
		}
	}
	return len(items)
}

func tooLarge(code codeq.Code) error {
	return &codeq.Refused{Status: http.StatusRequestEntityTooLarge, Code: code,
		Text: fmt.Sprintf("more than %d bytes do not fit a stream", itemBytes)}
}

// waits are answers that somebody waits for, by key.
type waits[K comparable] struct {
	lock sync.Mutex
	by   map[K][]chan error
}

func (w *waits[K]) add(key K) chan error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.by == nil {
		w.by = map[K][]chan error{}
	}
	answered := make(chan error, 1)
	w.by[key] = append(w.by[key], answered)
	return answered
}

// answer tells the one that has waited longest.
func (w *waits[K]) answer(key K, err error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if waiting := w.by[key]; len(waiting) > 1 {
		waiting[0] <- err
		w.by[key] = waiting[1:]
	} else if len(waiting) == 1 {
		waiting[0] <- err
		delete(w.by, key)
	}
}

func (w *waits[K]) remove(key K, answered chan error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for at, one := range w.by[key] {
		if one == answered {
			w.by[key] = append(w.by[key][:at:at], w.by[key][at+1:]...)
		}
	}
	if len(w.by[key]) == 0 {
		delete(w.by, key)
	}
}

// failAll tells everyone that the stream broke.
func (w *waits[K]) failAll(err error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, waiting := range w.by {
		for _, answered := range waiting {
			answered <- err
		}
	}
	w.by = nil
}

func ended(ctx context.Context) error {
	return &codeq.Absent{Text: fmt.Sprint(context.Cause(ctx)), Cause: context.Cause(ctx)}
}
