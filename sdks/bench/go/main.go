// Full cycles a second of the Go SDK: create, claim, run a handler that does nothing, report.
// usage: bench-go URL TOKEN TASKS CONCURRENCY [WORKER-STREAM PRODUCER-STREAM]. Prints one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/stream"
)

func main() {
	url, token := os.Args[1], os.Args[2]
	tasks, err := strconv.Atoi(os.Args[3])
	concurrency, wrong := strconv.Atoi(os.Args[4])
	if err := errors.Join(err, wrong); err != nil {
		log.Fatal(err)
	}
	client := codeq.NewClient(url, codeq.Token(token))
	options, transport := []codeq.WorkerOption{codeq.Concurrency(concurrency)}, "http"
	create := func(ctx context.Context, many []codeq.NewTask) error {
		_, err := client.CreateMany(ctx, many)
		return err
	}
	if len(os.Args) > 5 {
		transport = "stream"
		options = append(options, codeq.Over(stream.NewLink(os.Args[5], stream.Static(token), codeq.DefaultName())))
		producer := stream.NewProducer(os.Args[6], stream.Static(token))
		defer producer.Close()
		create = func(ctx context.Context, many []codeq.NewTask) error {
			_, errs := producer.CreateMany(ctx, many)
			return errors.Join(errs...)
		}
	}
	seconds, err := run(codeq.NewWorker(client, options...), create, tasks)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf(`{"sdk":"go","transport":%q,"cycles":%d,"perSecond":%.0f}`+"\n", transport, tasks, float64(tasks)/seconds)
}

func run(worker *codeq.Worker, create func(context.Context, []codeq.NewTask) error, tasks int) (float64, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var done atomic.Int64
	codeq.Handle(worker, "bench-go", func(context.Context, *codeq.Job[int]) (any, error) {
		if done.Add(1) == int64(tasks) {
			stop()
		}
		return nil, nil
	})
	many := make([]codeq.NewTask, tasks)
	for at := range many {
		many[at] = codeq.NewTask{Command: "bench-go", Payload: json.RawMessage(strconv.Itoa(at))}
	}
	started, created := time.Now(), make(chan error, 1)
	go func() { created <- create(context.Background(), many) }()
	// Until the last report is answered.
	err := worker.Run(ctx)
	seconds := time.Since(started).Seconds()
	return seconds, errors.Join(err, <-created)
}
