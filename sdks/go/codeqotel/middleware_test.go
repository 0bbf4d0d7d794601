package codeqotel_test

import (
	"context"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	codeq "github.com/codeq/codeq/sdks/go"
	"github.com/codeq/codeq/sdks/go/codeqotel"
	"github.com/codeq/codeq/sdks/go/codeqtest"
)

func TestASpanPerAttemptHasTheCreateAsItsParent(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	worker := codeq.NewWorker(codeq.NewClient(""), codeq.Use(codeqotel.Middleware(provider)))
	codeq.Handle(worker, "traced", func(_ context.Context, job *codeq.Job[int]) (int, error) {
		if job.Number == 1 {
			return 0, codeq.Retry(0, "once more")
		}
		return job.Payload, nil
	})
	queue := codeqtest.New(t, worker)
	queue.Create("traced", 1, codeq.Header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	queue.Drain()
	made := spans.GetSpans()
	if len(made) != 2 || made[0].Name != "process traced" || made[0].Status.Description == "" {
		t.Fatal(made)
	}
	for _, span := range made {
		if span.Parent.SpanID().String() != "00f067aa0ba902b7" {
			t.Fatal(span.Parent)
		}
	}
}
