package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
)

// beanstalkd has a protocol of lines; a window is written at once and its answers are read together.
type beanstalkd struct{ address string }

func openBeanstalkd(_ context.Context, address string) (Peer, error) {
	return &beanstalkd{address}, nil
}

type beans struct {
	out *bufio.Writer
	in  *bufio.Reader
}

func (p *beanstalkd) connect() (*beans, error) {
	socket, err := net.Dial("tcp", p.address)
	if err != nil {
		return nil, err
	}
	return &beans{bufio.NewWriterSize(socket, 1<<16), bufio.NewReaderSize(socket, 1<<16)}, nil
}

func (b *beans) line() (string, error) {
	line, err := b.in.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// answers reads one line per request and demands how each begins.
func (b *beans) answers(count int, wanted string) error {
	for range count {
		line, err := b.line()
		if err != nil {
			return err
		}
		if !strings.HasPrefix(line, wanted) {
			return fmt.Errorf("beanstalkd answered %q", line)
		}
	}
	return nil
}

func (p *beanstalkd) Producer(context.Context) (Producer, error) {
	to, err := p.connect()
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, jobs [][]byte) error {
		for _, job := range jobs {
			fmt.Fprintf(to.out, "put 0 0 60 %d\r\n%s\r\n", len(job), job)
		}
		if err := to.out.Flush(); err != nil {
			return err
		}
		return to.answers(len(jobs), "INSERTED")
	}, nil
}

func (p *beanstalkd) Work(ctx context.Context, workers, window int, done func(int)) error {
	return each(workers, func(int) error {
		to, err := p.connect()
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			ids, err := to.reserve(window)
			if err != nil {
				return err
			}
			for _, id := range ids {
				fmt.Fprintf(to.out, "delete %s\r\n", id)
			}
			if err := to.out.Flush(); err != nil {
				return err
			}
			if err := to.answers(len(ids), "DELETED"); err != nil {
				return err
			}
			done(len(ids))
		}
		return ctx.Err()
	})
}

// reserve waits for one job and takes what else is there.
func (b *beans) reserve(window int) ([]string, error) {
	fmt.Fprint(b.out, "reserve\r\n")
	for range window - 1 {
		fmt.Fprint(b.out, "reserve-with-timeout 0\r\n")
	}
	if err := b.out.Flush(); err != nil {
		return nil, err
	}
	var ids []string
	for range window {
		line, err := b.line()
		if err != nil {
			return nil, err
		}
		var id string
		var size int
		if _, err := fmt.Sscanf(line, "RESERVED %s %d", &id, &size); err != nil {
			if line == "TIMED_OUT" || line == "DEADLINE_SOON" {
				continue
			}
			return nil, fmt.Errorf("beanstalkd answered %q", line)
		}
		if _, err := io.CopyN(io.Discard, b.in, int64(size)+2); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
