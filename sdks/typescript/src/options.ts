// What a create can ask for, and tasks as definitions that producers and workers share.

import type { StandardSchema } from "./schema.js";
import { type Duration, objectText, stringify, wholeSeconds } from "./wire.js";

/** Of all tasks of a command with one `key`, one lives at a time. */
export interface Unique {
  key: string;
  /** `"started"`: until the first claim. `"ended"` (default): until the end. A number: that many seconds from the create. */
  until?: "started" | "ended" | number;
  /** Keep the holder (default), replace what it carries, or cancel it. */
  onConflict?: "keep" | "replace" | "cancel";
  /** How far a replacing create may push the time of the holder. */
  maxWait?: Duration;
}

/** The options of a create. */
export interface CreateOptions {
  /** 0 to 9, higher first. */
  priority?: number;
  /** Not before this time has passed. */
  delay?: Duration;
  /** Not before this instant. Wins over `delay`. */
  runAt?: Date;
  /** Deliveries before the task is a dead letter. */
  maxAttempts?: number;
  /** The idempotency key. One is made for the call if there is none. */
  key?: string;
  /** Small metadata: at most 16 entries, 4 KiB. */
  headers?: Record<string, string>;
  /** Where the result is posted. */
  webhook?: string;
  /** Tasks of one lane share fairness and limits. */
  lane?: string;
  unique?: Unique;
  /** A task that was not started by then fails with `EXPIRED`. */
  expiresIn?: Duration;
  expiresAt?: Date;
  /** Tasks and batches that have to end first. */
  after?: ReadonlyArray<string | { readonly id: string }>;
  onDependencyFailure?: "cancel" | "run";
  /** The batch that the task joins. */
  batch?: string | { readonly id: string };
  tags?: readonly string[];
  /** The longest run of one attempt. */
  maxRun?: Duration;
}

/** A command with the types of its payload and its result, and the defaults of its creates. */
export interface TaskDefinition<Input, Output = Input, Result = unknown> {
  readonly command: string;
  readonly schema: StandardSchema<Input, Output> | undefined;
  readonly defaults: CreateOptions;
  /** Only for the compiler. */
  readonly result?: Result;
}

/**
 * Defines a task. With a schema the payload is checked before the handler sees it:
 * `defineTask("resize", { payload: z.object({ image: z.number() }), maxAttempts: 5 })`. Without one its type is given:
 * `defineTask<Resize, Size>("resize")`.
 */
export function defineTask<Input, Result = unknown>(
  command: string,
  options?: CreateOptions,
): TaskDefinition<Input, Input, Result>;
export function defineTask<Input, Output, Result = unknown>(
  command: string,
  options: CreateOptions & { payload: StandardSchema<Input, Output> },
): TaskDefinition<Input, Output, Result>;
export function defineTask<Input, Output, Result>(
  command: string,
  options: CreateOptions & { payload?: StandardSchema<Input, Output> } = {},
): TaskDefinition<Input, Output, Result> {
  const { payload, ...defaults } = options;
  return { command: command.trim(), schema: payload, defaults };
}

/** The JSON text of a create. It always has an idempotency key, so that it can be repeated. */
export function createText(command: string, payload: unknown, options: CreateOptions, isScheduled = false): string {
  const { delay, expiresIn, maxRun, batch, after, tags } = options;
  const key = options.key ?? crypto.randomUUID();
  const fields: Record<string, unknown> = {
    idempotencyKey: isScheduled ? undefined : key,
    priority: options.priority,
    delaySeconds: delay === undefined ? undefined : wholeSeconds(delay),
    runAt: options.runAt?.toISOString(),
    maxAttempts: options.maxAttempts,
    headers: options.headers,
    webhook: options.webhook,
    lane: options.lane,
    unique: options.unique && uniqueBody(options.unique),
    expireSeconds: expiresIn === undefined ? undefined : wholeSeconds(expiresIn, 1),
    expiresAt: options.expiresAt?.toISOString(),
    after: after?.length ? after.map(idOf) : undefined,
    onDependencyFailure: options.onDependencyFailure,
    batchId: batch === undefined ? undefined : idOf(batch),
    tags: tags?.length ? tags : undefined,
    maxRunSeconds: maxRun === undefined ? undefined : wholeSeconds(maxRun, 1),
  };
  const texts: Record<string, string | undefined> = { command: JSON.stringify(command), payload: stringify(payload) };
  for (const [name, value] of Object.entries(fields)) texts[name] = value === undefined ? undefined : stringify(value);
  return objectText(texts);
}

function uniqueBody(unique: Unique): Record<string, unknown> {
  const { maxWait, ...rest } = unique;
  return maxWait === undefined ? rest : { ...rest, maxWaitSeconds: wholeSeconds(maxWait) };
}

function idOf(one: string | { readonly id: string }): string {
  return typeof one === "string" ? one : one.id;
}
