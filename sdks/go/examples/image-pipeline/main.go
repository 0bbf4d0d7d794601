// A pipeline: one task makes a picture and keeps it as an artifact, the next one takes it from there.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"

	codeq "github.com/codeq/codeq/sdks/go"
)

type size struct{ Width, Height int }

type source struct{ Task, Artifact string }

func render(_ context.Context, job *codeq.Job[size]) (source, error) {
	picture := []byte(fmt.Sprintf("P5 %d %d 255\n", job.Payload.Width, job.Payload.Height))
	for range job.Payload.Height {
		for x := range job.Payload.Width {
			picture = append(picture, byte(x*255/max(1, job.Payload.Width-1)))
		}
	}
	return source{job.ID, "image.pgm"}, job.Attach("image.pgm", picture, "image/x-portable-graymap")
}

func invert(client *codeq.Client) func(context.Context, *codeq.Job[source]) (source, error) {
	return func(ctx context.Context, job *codeq.Job[source]) (source, error) {
		picture, err := client.Artifact(ctx, job.Payload.Task, job.Payload.Artifact)
		if err != nil {
			return source{}, err
		}
		for at := bytes.IndexByte(picture, '\n') + 1; at < len(picture); at++ {
			picture[at] = 255 - picture[at]
		}
		return source{job.ID, "negative.pgm"}, job.Attach("negative.pgm", picture, "image/x-portable-graymap")
	}
}

func main() {
	client := codeq.NewClient("")
	worker := codeq.NewWorker(client)
	codeq.Handle(worker, "image.render", render)
	codeq.Handle(worker, "image.invert", invert(client))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	if err := pipeline(ctx, client); err != nil {
		log.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}

func pipeline(ctx context.Context, client *codeq.Client) error {
	first, err := client.Create(ctx, "image.render", size{64, 64})
	if err != nil {
		return err
	}
	rendered, err := codeq.Result[source](ctx, first)
	if err != nil {
		return err
	}
	second, err := client.Create(ctx, "image.invert", rendered)
	if err != nil {
		return err
	}
	inverted, err := codeq.Result[source](ctx, second)
	if err != nil {
		return err
	}
	picture, err := client.Artifact(ctx, inverted.Task, inverted.Artifact)
	fmt.Println(len(picture), "bytes")
	return err
}
