// The worker: claims for free slots, runs handlers under a lease, reports, and ends gracefully.

import { Backoff } from "./backoff.js";
import type { Client } from "./client.js";
import { Refused } from "./errors.js";
import { Job, Stopped } from "./job.js";
import { GONE, Keeper, now } from "./keeper.js";
import * as limits from "./limits.js";
import type { TaskDefinition } from "./options.js";
import { completed, Fail, failed, givenBack, type Report, Retry, thrown } from "./outcome.js";
import { isFinal, Reporter } from "./reporter.js";
import { PayloadError, type StandardSchema, validated } from "./schema.js";
import type { TaskFields } from "./task.js";
import { Absent } from "./transport.js";
import { VERSION } from "./version.js";
import { type Duration, milliseconds, pause } from "./wire.js";

// biome-ignore lint/suspicious/noExplicitAny: a command without a definition carries anything
type Anything = any;

/** What a handler returns becomes the result: nothing is `{}`, and what is no object is wrapped as `{ value }`. */
export type Handler<P, R> = (job: Job<P>) => R | Promise<R>;

/** Runs around every handler: does something, awaits `next()`, does something, and returns what it returned. */
export type Middleware = (job: Job, next: () => Promise<unknown>) => Promise<unknown>;

/** Where lines go: `console`, pino, or anything with these methods. */
export interface Logger {
  debug(fields: object, text: string): void;
  info(fields: object, text: string): void;
  warn(fields: object, text: string): void;
  error(fields: object, text: string): void;
}

export interface WorkerOptions {
  /** Handlers at once; 16. */
  concurrency?: number;
  /** How long a task is lent for; heartbeats keep it. 60 s. */
  lease?: Duration;
  /** What handlers have to end by themselves when the worker stops; 25 s. */
  grace?: Duration;
  /** How often a command is asked for first, relative to the others: 1 to 100. */
  weights?: Record<string, number>;
  /** Name of the worker; host and process unless given. */
  name?: string;
  middleware?: Middleware[];
  /**
   * Whether a payload that its schema refuses fails its task at once. It is tried again like any error unless told: a
   * worker of the next release may read it.
   */
  failUnreadable?: boolean;
  /** Nothing is logged without one. */
  logger?: Logger;
}

interface Known {
  command: string;
  schema: StandardSchema<Anything, Anything> | undefined;
  handler: Handler<Anything, unknown>;
}

/** Runs handlers by command. */
export class Worker {
  readonly #client: Client;
  readonly #options: WorkerOptions;
  readonly #handlers = new Map<string, Known>();
  readonly #stop = new AbortController();
  /** Nothing is waited for any more. */
  readonly #over = new AbortController();
  readonly #leaseMs: number;
  readonly #concurrency: number;
  readonly #running = new Set<Promise<void>>();
  readonly #jobs = new Set<Job>();
  #name = "";
  #headers: Record<string, string> = {};
  #claimFields: Record<string, unknown> = {};
  #keeper!: Keeper;
  #reporter!: Reporter;
  #free: number;
  #slotFreed: () => void = () => undefined;

  constructor(client: Client, options: WorkerOptions = {}) {
    const { concurrency = 16 } = options;
    if (!(concurrency >= 1 && concurrency <= limits.CONCURRENCY)) {
      throw new RangeError(`concurrency is 1 to ${limits.CONCURRENCY}`);
    }
    this.#client = client;
    this.#options = options;
    this.#free = this.#concurrency = Math.floor(concurrency);
    const lease = milliseconds(options.lease ?? 60);
    this.#leaseMs = Math.min(Math.max(lease, limits.LEASE_MS[0]), limits.LEASE_MS[1]);
  }

  /** Makes a function the handler of a task: of its definition, or of a command alone. */
  handle<P = Anything, R = unknown>(
    task: TaskDefinition<Anything, P, R> | string,
    // biome-ignore lint/suspicious/noConfusingVoidType: a handler without a result returns nothing
    handler: Handler<P, R | undefined | void>,
  ): this {
    const [command, schema] = typeof task === "string" ? [task.trim(), undefined] : [task.command, task.schema];
    const key = command.toLowerCase();
    if (this.#handlers.has(key)) throw new Error(`${command} has a handler already`);
    this.#handlers.set(key, { command, schema, handler });
    return this;
  }

  /** Works until `stop` is called, the signal aborts, or SIGTERM or SIGINT comes. Throws what ends it otherwise. */
  async run(options: { signals?: boolean; signal?: AbortSignal } = {}): Promise<void> {
    if (!this.#handlers.size) throw new Error("the worker has no handler");
    await this.#introduce();
    const forget = options.signals === false ? () => undefined : this.#listenToSignals();
    const outer = options.signal;
    const stop = () => this.stop();
    if (outer?.aborted) stop();
    outer?.addEventListener("abort", stop, { once: true });
    try {
      await this.#work();
    } finally {
      outer?.removeEventListener("abort", stop);
      forget();
    }
  }

  async #work(): Promise<void> {
    this.#reporter = new Reporter(this.#client.transport, this.#headers);
    this.#keeper = await Keeper.start(this.#client.transport, this.#leaseMs, this.#headers);
    const claims = this.#claimUntilStop();
    try {
      await Promise.race([claims, aborted(this.#stop.signal)]);
    } finally {
      await this.#finish(claims);
      await this.#keeper.end();
    }
  }

  /** Claims nothing more and lets `run` end once the handlers have. */
  stop(): void {
    this.#stop.abort();
    this.#slotFreed();
  }

  async #introduce(): Promise<void> {
    const { hostname } = await import("node:os");
    const name = this.#options.name ?? `${hostname()}-${process.pid}`.replace(/[^!-~]/g, "-");
    this.#name = name.slice(-limits.WORKER_NAME_CHARACTERS);
    this.#headers = { "Content-Type": "application/json", "Codeq-Worker": this.#name };
    const worker = {
      host: hostname().slice(0, 128),
      pid: process.pid,
      sdk: "typescript",
      version: VERSION,
      slots: this.#concurrency,
    };
    const commands = [...this.#handlers.values()].map((known) => known.command);
    const leaseSeconds = Math.ceil(this.#leaseMs / 1000);
    this.#claimFields = { commands, leaseSeconds, order: "fair", weights: this.#options.weights, worker };
  }

  // ---- claims

  async #claimUntilStop(): Promise<void> {
    const backoff = new Backoff();
    while (!this.#stop.signal.aborted) {
      await this.#slot();
      if (this.#stop.signal.aborted) return;
      try {
        const { tasks, lentAt } = await this.#claim(Math.min(this.#free, limits.BATCH_ITEMS));
        backoff.reset();
        this.#start(tasks, lentAt);
      } catch (error) {
        if (!(error instanceof Absent)) throw error;
        this.#options.logger?.warn({ error: error.message }, "cannot claim; trying again");
        await pause(backoff.pause(error.retryAfterMs), this.#stop.signal);
      }
    }
  }

  async #slot(): Promise<void> {
    while (this.#free === 0 && !this.#stop.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#slotFreed = resolve;
      });
    }
    // Slots that get free in the same turn of the loop are claimed for together.
    await new Promise((resolve) => setImmediate(resolve));
  }

  /**
   * What is there now, up to `count`; if there is nothing, waits a while for one task, or for the stop. Only the wait is
   * interrupted, and then the server lends nothing to it. The first request is always seen through: what it brings must
   * be given back, and not be left to the end of its lease. Leases are counted from `lentAt`, before the request: its
   * answer may be long on its way.
   */
  async #claim(count: number): Promise<{ tasks: TaskFields[]; lentAt: number }> {
    const { transport } = this.#client;
    const body = JSON.stringify({ ...this.#claimFields, count });
    const sent = now();
    const seenThrough = { body, headers: this.#headers, signal: this.#over.signal, isWork: true };
    const there = await transport.once("/v1/codeq/tasks/claim/batch", seenThrough);
    if (there.status !== 204) return { tasks: tasksOf(there.body?.tasks), lentAt: sent };
    const { signal } = this.#stop;
    if (signal.aborted) return { tasks: [], lentAt: sent };
    // At most half of a lease, so that one counted from here has the other half left.
    const half = this.#leaseMs / 2;
    const waitSeconds = Math.max(1, Math.min(limits.CLAIM_WAIT_SECONDS, Math.floor(half / 1000)));
    const wait = JSON.stringify({ ...this.#claimFields, waitSeconds });
    const waitMs = waitSeconds * 1000;
    const asked = now();
    try {
      const call = { body: wait, headers: this.#headers, waitMs, signal, isWork: true };
      const one = await transport.once("/v1/codeq/tasks/claim", call);
      // Waits are whole seconds: a lease of less than two cannot be counted from before all of it.
      const lentAt = waitMs <= half ? asked : Math.max(asked, now() - half);
      return { tasks: one.status === 204 ? [] : tasksOf([one.body]), lentAt };
    } catch (error) {
      if (signal.aborted) return { tasks: [], lentAt: sent };
      throw error;
    }
  }

  // ---- jobs

  #start(tasks: TaskFields[], lentAt: number): void {
    const jobs = tasks.map((fields) => new Job(fields, lentAt + this.#leaseMs, (job, said) => this.#say(job, said)));
    if (jobs.length) this.#keeper.add(jobs);
    for (const job of jobs) {
      this.#free--;
      this.#jobs.add(job);
      const running = this.#attempt(job).finally(() => {
        this.#keeper.remove(job);
        this.#jobs.delete(job);
        this.#running.delete(running);
        this.#free++;
        this.#slotFreed();
      });
      this.#running.add(running);
    }
  }

  async #attempt(job: Job): Promise<void> {
    const started = now();
    const known = this.#handlers.get(job.command.toLowerCase());
    const isOurs = known && !this.#stop.signal.aborted;
    const report = isOurs ? await this.#outcome(job, known) : givenBack(job.id, job.attempt);
    if (!job.isLost) await this.#deliver(report, job);
    const outcome = job.isLost ? "dropped" : report.outcome;
    const { id, command, attempt } = job;
    this.#options.logger?.info({ task: id, command, attempt, outcome, ms: now() - started }, `task ${outcome}`);
  }

  /** How the handler ended, or a refund if the worker ends before it, or nothing to report if the lease is lost. */
  async #outcome(job: Job, known: Known): Promise<Report> {
    const ended = run(job, known, this.#options);
    const cut = new Promise<Report>((resolve) => {
      job.signal.addEventListener("abort", () => {
        const { why } = job.signal.reason as Stopped;
        if (why === "shutdown") setTimeout(() => resolve(givenBack(job.id, job.attempt)), limits.ABORT_MS).unref();
      });
    });
    const report = await Promise.race([ended, cut]);
    const isCut = (job.signal.reason as Stopped | undefined)?.why === "shutdown";
    return isCut ? givenBack(job.id, job.attempt) : report;
  }

  async #say(job: Job, said: Record<string, unknown>): Promise<void> {
    const sent = now();
    const extendSeconds = Math.ceil(this.#leaseMs / 1000);
    const body = JSON.stringify({ extendSeconds, attempt: job.attempt, ...said });
    const path = `/v1/codeq/tasks/${encodeURIComponent(job.id)}/heartbeat`;
    try {
      const call = { body, headers: this.#headers, signal: job.lost, isWork: true };
      const answer = await this.#client.transport.call(path, call);
      job.kept(sent + this.#leaseMs, answer.body?.cancel);
    } catch (error) {
      if (error instanceof Refused && GONE.has(error.code)) job.lose(error.code);
      throw error;
    }
  }

  /** Reports until there is an answer, or until the lease is lost and it cannot matter any more. */
  async #deliver(first: Report, job: Job): Promise<void> {
    const backoff = new Backoff();
    const log = this.#options.logger;
    let report = first;
    while (!job.isLost && !this.#over.signal.aborted) {
      try {
        return await this.#reporter.send(report);
      } catch (error) {
        const text = (error as Error).message;
        if (error instanceof Absent) {
          log?.debug({ task: job.id, error: text }, "a report has no answer yet");
          await job.pauseUnlessLost(backoff.pause(error.retryAfterMs));
        } else if (error instanceof Refused && GONE.has(error.code)) {
          // After an unknown outcome this is our own report that got through.
          return log?.debug({ task: job.id, error: text }, "the report came too late, or was there already");
        } else if (error instanceof Refused && !isFinal(error)) {
          log?.warn({ task: job.id, error: text }, "a report is not taken; trying again");
          await job.pauseUnlessLost(backoff.pause());
        } else if (report.outcome === "completed") {
          report = failed(job.id, job.attempt, `the result was not taken: ${text}`);
        } else return log?.error({ task: job.id, error: text }, "the report was refused");
      }
    }
  }

  // ---- the end

  #listenToSignals(): () => void {
    let count = 0;
    const on = (signal: NodeJS.Signals) => {
      if (++count > 1) process.exit(signal === "SIGINT" ? 130 : 143);
      this.#options.logger?.info({ inHand: this.#jobs.size }, "stopping");
      this.stop();
    };
    process.on("SIGTERM", on);
    process.on("SIGINT", on);
    return () => {
      process.off("SIGTERM", on);
      process.off("SIGINT", on);
    };
  }

  /**
   * Handlers have the grace; then their signals abort, and what is left is given back at no cost. The last claim is seen
   * through, but a server that does not answer it takes nothing of the grace.
   */
  async #finish(claims: Promise<void>): Promise<void> {
    this.stop();
    const end = now() + milliseconds(this.#options.grace ?? limits.GRACE_MS / 1000);
    await settled([claims], end - now());
    await settled(this.#running, end - now());
    for (const job of this.#jobs) job.stop(new Stopped("shutdown", "the worker ends"));
    await settled(this.#running, limits.ABORT_MS + limits.LAST_REPORTS_MS);
    this.#over.abort();
  }

  /** For tests: runs the handler of a task in this process. */
  async attempt(job: Job): Promise<Report> {
    const known = this.#handlers.get(job.command.toLowerCase());
    if (!known) throw new Error(`${job.command} has no handler`);
    return run(job, known, this.#options);
  }
}

/** Waits until all of them have ended, however, but not longer. */
async function settled(all: Iterable<Promise<void>>, ms: number): Promise<void> {
  const enough = new AbortController();
  await Promise.race([Promise.allSettled(all), pause(Math.max(0, ms), enough.signal)]);
  enough.abort();
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** The tasks of an answer. One that is not ours, such as the page of a proxy, is no answer. */
function tasksOf(said: unknown): TaskFields[] {
  const isTask = (one: Partial<TaskFields> | undefined) =>
    typeof one?.id === "string" && typeof one.command === "string";
  if (Array.isArray(said) && said.every(isTask)) return said;
  throw new Absent("an answer that is not understood", { wasSent: true });
}

/** The handler inside of the middleware, and what its end means. */
async function run(job: Job, known: Known, options: WorkerOptions): Promise<Report> {
  try {
    (job as { payload: unknown }).payload = await payloadOf(job, known.schema).catch((error: unknown) => {
      if (!(error instanceof PayloadError)) throw error;
      const text = `the payload cannot be read: ${error.message}`;
      throw options.failUnreadable ? new Fail(text) : new Retry(text);
    });
    let call = async () => known.handler(job as Job<Anything>);
    for (const layer of options.middleware?.toReversed() ?? []) {
      const next = call;
      call = () => layer(job, next);
    }
    return completed(job.id, job.attempt, await call(), job.artifacts);
  } catch (error) {
    return thrown(job.id, job.attempt, error, job.artifacts);
  }
}

async function payloadOf(job: Job, schema: StandardSchema<Anything, Anything> | undefined): Promise<unknown> {
  let value: unknown;
  try {
    value = JSON.parse(job.payloadText);
  } catch (error) {
    throw new PayloadError((error as Error).message);
  }
  return schema ? validated(schema, value) : value;
}
