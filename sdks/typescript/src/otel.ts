// OpenTelemetry, without depending on it: the caller hands over the API that its program uses.

import type { Middleware } from "./worker.js";

/** What is used of `@opentelemetry/api`. */
export interface OpenTelemetryApi {
  // biome-ignore-start lint/suspicious/noExplicitAny: the types of the API are not ours to require
  trace: { getTracer(name: string): any };
  propagation: { extract(context: any, carrier: object): any };
  context: { active(): any };
  SpanKind: { CONSUMER: any };
  SpanStatusCode: { ERROR: any };
  // biome-ignore-end lint/suspicious/noExplicitAny: see above
}

/**
 * A span per attempt whose parent is the create of the task:
 * `new Worker(client, { middleware: [otel(await import("@opentelemetry/api"))] })`.
 */
export function otel(api: OpenTelemetryApi): Middleware {
  const tracer = api.trace.getTracer("codeq");
  return (job, next) => {
    const carrier: Record<string, string> = {};
    for (const [name, value] of Object.entries(job.headers)) carrier[name.toLowerCase()] = value;
    if (job.fields.traceParent) carrier.traceparent = job.fields.traceParent;
    if (job.fields.traceState) carrier.tracestate = job.fields.traceState;
    const parent = api.propagation.extract(api.context.active(), carrier);
    const attributes = {
      "messaging.system": "codeq",
      "messaging.operation.type": "process",
      "messaging.destination.name": job.command,
      "messaging.message.id": job.id,
      "codeq.attempt": job.attempt,
    };
    const options = { kind: api.SpanKind.CONSUMER, attributes };
    // biome-ignore lint/suspicious/noExplicitAny: a span of the API
    return tracer.startActiveSpan(`process ${job.command}`, options, parent, async (span: any) => {
      try {
        return await next();
      } catch (error) {
        span.recordException(error);
        span.setStatus({ code: api.SpanStatusCode.ERROR });
        throw error;
      } finally {
        span.end();
      }
    });
  };
}
