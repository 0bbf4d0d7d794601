/**
 * Producers and workers for codeQ, the durable task queue. Start with {@link defineTask}, {@link Client} and
 * {@link Worker}.
 *
 * @packageDocumentation
 */

export { Batch, Client, type ClientOptions, type Named, newTask, type Schedule } from "./client.js";
export * from "./errors.js";
export { Job, Stopped } from "./job.js";
export { type CreateOptions, defineTask, type TaskDefinition, type Unique } from "./options.js";
export { Fail, Retry } from "./outcome.js";
export { PayloadError, type SchemaIssue, type SchemaResult, type StandardSchema } from "./schema.js";
export { type Artifact, type Result, Task, type TaskFields } from "./task.js";
export type { Token } from "./transport.js";
export { VERSION } from "./version.js";
export { type Duration, RawJson } from "./wire.js";
export { type Handler, type Logger, type Middleware, Worker, type WorkerOptions } from "./worker.js";
