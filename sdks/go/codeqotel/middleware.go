// Package codeqotel makes a span of every attempt whose parent is the create of the task.
//
//	worker := codeq.NewWorker(client, codeq.Use(codeqotel.Middleware(nil)))
package codeqotel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	codeq "github.com/codeq/codeq/sdks/go"
)

// Middleware is a layer for [codeq.Use]. Without a provider the global one is used.
func Middleware(provider trace.TracerProvider) codeq.Middleware {
	return func(ctx context.Context, attempt *codeq.Attempt, next codeq.Next) (any, error) {
		from := provider
		if from == nil {
			from = otel.GetTracerProvider()
		}
		ctx = propagation.TraceContext{}.Extract(ctx, carrier(attempt))
		ctx, span := from.Tracer("codeq").Start(ctx, "process "+attempt.Task.Command,
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(
				attribute.String("messaging.system", "codeq"),
				attribute.String("messaging.operation.type", "process"),
				attribute.String("messaging.destination.name", attempt.Task.Command),
				attribute.String("messaging.message.id", attempt.ID),
				attribute.Int("codeq.attempt", attempt.Number),
			))
		defer span.End()
		value, err := next(ctx)
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		return value, err
	}
}

// carrier is the trace context of the task: as the server kept it, or as the producer put it into the headers.
func carrier(attempt *codeq.Attempt) propagation.MapCarrier {
	found := propagation.MapCarrier{}
	for name, value := range attempt.Headers {
		found[strings.ToLower(name)] = value
	}
	if attempt.Task.TraceParent != "" {
		found["traceparent"], found["tracestate"] = attempt.Task.TraceParent, attempt.Task.TraceState
	}
	return found
}
