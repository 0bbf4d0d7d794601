// A task, a result and a batch as the server told them.

import type { Client } from "./client.js";
import { TaskFailed } from "./errors.js";
import { type Duration, rawField } from "./wire.js";

/** What the server sends for a task. Fields that this version does not know are there, too. */
export interface TaskFields {
  id: string;
  command: string;
  status: "PENDING" | "IN_PROGRESS" | "COMPLETED" | "FAILED";
  payload?: string;
  attempts?: number;
  refunds?: number;
  maxAttempts?: number;
  priority?: number;
  headers?: Record<string, string>;
  lane?: string;
  error?: string;
  checkpoint?: unknown;
  traceParent?: string;
  traceState?: string;
  createdAt?: string;
  updatedAt?: string;
  [name: string]: unknown;
}

export interface Artifact {
  name: string;
  url: string;
}

/** How a task ended. */
export interface Result<R = Record<string, unknown>> {
  taskId: string;
  status: "COMPLETED" | "FAILED";
  /** What the handler returned. */
  value: R | undefined;
  /** The exact JSON text of it, for integers above 2^53. */
  valueText: string | undefined;
  error: string;
  /** Why it failed if no worker failed it. */
  failureReason: string | undefined;
  artifacts: Artifact[];
  completedAt: Date;
}

/** A task as the server knew it when it was read. */
export class Task<R = Record<string, unknown>> {
  readonly id: string;
  readonly command: string;
  readonly status: TaskFields["status"];
  /** Deliveries so far. */
  readonly attempts: number;
  /** The idempotency key, or the key of `unique`, named a task that was there already: this one. */
  readonly replayed: boolean;
  /** Everything as the server sent it. */
  readonly fields: TaskFields;
  readonly #client: Client;

  constructor(client: Client, fields: TaskFields, replayed = false) {
    this.#client = client;
    this.id = fields.id;
    this.command = fields.command;
    this.status = fields.status;
    this.attempts = fields.attempts ?? 0;
    this.replayed = replayed;
    this.fields = fields;
  }

  /** The exact JSON text of the payload. */
  get payloadText(): string {
    return this.fields.payload ?? "null";
  }

  get payload(): unknown {
    return JSON.parse(this.payloadText);
  }

  /** Waits for the end of the task, whatever it is. Throws `NotFinished` when the time is up. */
  wait(options: { timeout?: Duration; signal?: AbortSignal } = {}): Promise<Result<R>> {
    return this.#client.wait<R>(this.id, options);
  }

  /** Waits for what the handler returned. Throws `TaskFailed` if the task did not complete. */
  async result(options: { timeout?: Duration; signal?: AbortSignal } = {}): Promise<R> {
    const result = await this.wait(options);
    if (result.status !== "COMPLETED") throw new TaskFailed(this.id, result.error, result.failureReason);
    return result.value as R;
  }

  async refresh(): Promise<Task<R>> {
    return (await this.#client.get(this.id)) as Task<R>;
  }

  async cancel(options: { grace?: Duration; reason?: string } = {}): Promise<Task<R>> {
    return (await this.#client.cancel(this.id, options)) as Task<R>;
  }
}

/** The result in the answer to a read of it. */
export function resultOf<R>(text: string, record: Record<string, unknown>): Result<R> {
  return {
    taskId: String(record.taskId),
    status: record.status as Result["status"],
    value: record.result as R | undefined,
    valueText: rawField(text, "result", "result"),
    error: (record.error as string | undefined) ?? "",
    failureReason: record.failureReason as string | undefined,
    artifacts: (record.artifacts as Artifact[] | undefined) ?? [],
    completedAt: new Date(String(record.completedAt)),
  };
}
