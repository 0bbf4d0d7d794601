// Counts the words of many pages at once, and adds them up when all of them have ended.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	codeq "github.com/codeq/codeq/sdks/go"
)

type total struct {
	Words int `json:"words"`
}

func main() {
	client, ctx := codeq.NewClient(""), context.Background()
	worker := codeq.NewWorker(client, codeq.Concurrency(8))
	codeq.Handle(worker, "words.count", func(_ context.Context, job *codeq.Job[string]) (total, error) {
		text, err := os.ReadFile(job.Payload)
		return total{len(strings.Fields(string(text)))}, err
	})
	codeq.Handle(worker, "words.sum", func(ctx context.Context, job *codeq.Job[string]) (total, error) {
		var all total
		members, err := client.BatchMembers(ctx, job.Payload)
		for at := range members {
			one, failed := codeq.Result[total](ctx, &members[at])
			all.Words += one.Words
			err = errors.Join(err, failed)
		}
		return all, err
	})
	go func() { log.Fatal(worker.RunUntilSignal()) }()

	if err := create(ctx, client, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func create(ctx context.Context, client *codeq.Client, paths []string) error {
	batch, err := client.CreateBatch(ctx, codeq.NewBatch{Name: "words"})
	if err != nil {
		return err
	}
	var pages []codeq.NewTask
	for _, path := range paths {
		page, err := codeq.New("words.count", path, codeq.InBatch(batch.ID), codeq.MaxAttempts(3))
		if err != nil {
			return err
		}
		pages = append(pages, page)
	}
	if _, err := client.CreateMany(ctx, pages); err != nil {
		return err
	}
	// Runs when the batch has ended; if a page failed it is cancelled, unless codeq.RunAfterFailure is given.
	last, err := client.Create(ctx, "words.sum", batch.ID, codeq.After(batch.ID))
	if err := errors.Join(err, client.CloseBatch(ctx, batch.ID)); err != nil {
		return err
	}
	sum, err := codeq.Result[total](ctx, last)
	fmt.Println(sum.Words, err)
	return err
}
