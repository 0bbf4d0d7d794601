// One attempt in the hands of a worker, as its handler sees it.

import { ARTIFACTS } from "./limits.js";
import type { ArtifactIn } from "./outcome.js";
import type { TaskFields } from "./task.js";

/** Why a handler is to stop, as the `reason` of its signal. */
export class Stopped extends Error {
  override name = "Stopped";
  /** `cancelled`: somebody asked for it. `lease lost`: the task is not ours any more. `shutdown`: the worker ends. */
  readonly why: "cancelled" | "lease lost" | "shutdown";
  /** Until when what the handler reports counts, after a requested cancel. */
  readonly deadline: Date | undefined;
  constructor(why: Stopped["why"], text: string, deadline?: Date) {
    super(text);
    this.why = why;
    this.deadline = deadline;
  }
}

/** Sends a heartbeat that carries something. */
export type Say = (job: Job, fields: Record<string, unknown>) => Promise<void>;

/** A task in the hands of a handler. Its methods can be taken apart: `({ payload, artifact }) => ...`. */
export class Job<P = unknown> {
  readonly id: string;
  readonly command: string;
  readonly payload!: P;
  /** The exact JSON text of the payload, for integers above 2^53. */
  readonly payloadText: string;
  /** The number of this delivery, from 1. With `id` it only grows: use it for fencing. */
  readonly attempt: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly lane: string;
  /** What an earlier attempt saved last. */
  readonly saved: unknown;
  /** Everything as the server sent it. */
  readonly fields: TaskFields;
  /** Aborts when somebody cancels the task, its lease is lost, or the worker ends. The reason is a `Stopped`. */
  readonly signal: AbortSignal;
  /** For the worker. */
  readonly artifacts: ArtifactIn[] = [];
  /** For the worker: when the lease ends, in milliseconds of its clock. */
  leaseUntil: number;
  readonly #stop = new AbortController();
  readonly #gone = new AbortController();
  readonly #say: Say;
  readonly #lost: Array<() => void> = [];

  constructor(fields: TaskFields, leaseUntil: number, say: Say) {
    this.fields = fields;
    this.id = fields.id;
    this.command = fields.command;
    this.payloadText = fields.payload ?? "null";
    this.attempt = fields.attempts ?? 1;
    this.headers = fields.headers ?? {};
    this.lane = fields.lane ?? "";
    this.saved = fields.checkpoint;
    this.signal = this.#stop.signal;
    this.leaseUntil = leaseUntil;
    this.#say = say;
  }

  get key(): string {
    return `${this.id}:${this.attempt}`;
  }

  /** For the worker: aborts when the lease is lost, and not before: what is said after a cancel counts. */
  get lost(): AbortSignal {
    return this.#gone.signal;
  }

  get isLost(): boolean {
    return this.#isLost;
  }
  #isLost = false;

  /** Milliseconds until the lease ends if no further heartbeat gets through. */
  get deadlineMs(): number {
    return Math.max(0, this.leaseUntil - Number(process.hrtime.bigint() / 1_000_000n));
  }

  /** Adds a file (bytes or text) or a link (`{ url }`) to the result; it is sent with it. */
  readonly artifact = (name: string, content: Uint8Array | string | { url: string }, contentType?: string): void => {
    if (this.artifacts.length === ARTIFACTS) throw new RangeError(`a result has at most ${ARTIFACTS} artifacts`);
    const type = contentType === undefined ? {} : { contentType };
    const isLink = typeof content === "object" && !(content instanceof Uint8Array);
    const held = isLink ? { url: content.url } : { contentBase64: Buffer.from(content).toString("base64") };
    this.artifacts.push({ name, ...held, ...type });
  };

  /** Shows how far the work is, at most 4 KiB of JSON. Advisory: the last value counts. */
  readonly progress = (value: unknown): Promise<void> => this.#say(this, { progress: value });

  /** Saves where the next attempt can go on, at most 64 KiB of JSON. Durable when this resolves. */
  readonly checkpoint = (value: unknown): Promise<void> => this.#say(this, { checkpoint: value });

  /** For the worker: a heartbeat got through. */
  kept(until: number, cancel?: { reason?: string; deadline?: string }): void {
    this.leaseUntil = until;
    if (cancel) {
      const deadline = cancel.deadline ? new Date(cancel.deadline) : undefined;
      this.stop(new Stopped("cancelled", cancel.reason || "cancelled", deadline));
    }
  }

  /** For the worker: the task is not ours any more. */
  lose(why: string): void {
    this.#isLost = true;
    this.stop(new Stopped("lease lost", why));
    this.#gone.abort(new Stopped("lease lost", why));
    for (const tell of this.#lost.splice(0)) tell();
  }

  /** For the worker: aborts the signal; the first reason counts. */
  stop(reason: Stopped): void {
    this.#stop.abort(reason);
  }

  /** For the worker: resolves after that time, or as soon as the lease is lost. */
  pauseUnlessLost(ms: number): Promise<void> {
    if (this.#isLost) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#lost.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
