// The producer: creates tasks, waits for results, and looks after schedules and batches.

import { Backoff } from "./backoff.js";
import { NotFinished, Refused, ResultNotFound, refusal, StorageUnavailable } from "./errors.js";
import { BATCH_ITEMS, CREATE_BATCH_BYTES, CREATE_BATCHES_AT_ONCE, RESULT_WAIT_SECONDS } from "./limits.js";
import { type CreateOptions, createText, type TaskDefinition } from "./options.js";
import { type Result, resultOf, Task, type TaskFields } from "./task.js";
import { type Answer, type Call, type Token, Transport } from "./transport.js";
import { byteLength, type Duration, milliseconds, pause, RawJson, wholeSeconds } from "./wire.js";

export interface ClientOptions {
  /** The server: `CODEQ_URL`, or `http://127.0.0.1:8080`. */
  url?: string;
  /** A token, or a function that is asked for one whenever the last was refused. `CODEQ_TOKEN`, or `dev-token`. */
  token?: Token;
  /** How long a call is repeated before it is given up; 60 s. */
  giveUp?: Duration;
  /**
   * Instead of the global `fetch`, for a proxy, a certificate or a test. A function cannot be handed to another thread: the
   * heartbeats of a worker then run beside its handlers, and a handler must not block the event loop for as long as a lease.
   */
  fetch?: typeof fetch;
}

// biome-ignore lint/suspicious/noExplicitAny: a command without a definition carries anything
type Anything = any;
/** A task, by its definition or by its command alone. */
export type Named<I, R> = TaskDefinition<I, Anything, R> | string;

/** A plan that makes a task whenever it falls due. Exactly one of `cron` and `every`. */
export interface Schedule<I = unknown> {
  task: Named<I, unknown>;
  payload: I | RawJson;
  options?: CreateOptions;
  cron?: string;
  every?: Duration;
  anchor?: Date;
  timezone?: string;
  overlap?: "skip" | "allow" | "cancel";
  catchUp?: "none" | "one" | "all";
  catchUpWindow?: Duration;
  jitter?: Duration;
  startAt?: Date;
  endAt?: Date;
  paused?: boolean;
}

type Fields = Record<string, unknown>;

/** Creates tasks and reads what became of them. Every call is repeated until it is answered; see `giveUp`. */
export class Client {
  /** For workers. */
  readonly transport: Transport;

  constructor(options: ClientOptions = {}) {
    const env = typeof process === "undefined" ? {} : process.env;
    const url = options.url ?? env.CODEQ_URL ?? "http://127.0.0.1:8080";
    const token = options.token ?? env.CODEQ_TOKEN ?? "dev-token";
    const giveUp = options.giveUp === undefined ? undefined : milliseconds(options.giveUp);
    this.transport = new Transport(url, token, giveUp, options.fetch);
  }

  /** Creates a task. When this resolves it is on the server's disk. */
  async create<I, R = Record<string, unknown>>(
    task: Named<I, R>,
    payload: I | RawJson,
    options: CreateOptions = {},
  ): Promise<Task<R>> {
    const [made] = await this.createTexts<R>([newTask(task, payload, options)], true);
    if (made instanceof Refused) throw made;
    return made as Task<R>;
  }

  /**
   * Creates a task per payload, all with the same options, in as few requests as possible. The answers are in the order
   * of the payloads; an item that the server refuses is a `Refused` in its place. With `key` each item gets the key
   * followed by `:` and its number.
   */
  createMany<I, R = Record<string, unknown>>(
    task: Named<I, R>,
    payloads: Iterable<I | RawJson>,
    options: CreateOptions = {},
  ): Promise<Array<Task<R> | Refused>> {
    const texts: RawJson[] = [];
    for (const payload of payloads) {
      const own = options.key === undefined ? options : { ...options, key: `${options.key}:${texts.length}` };
      texts.push(newTask(task, payload, own));
    }
    return this.createTexts<R>(texts);
  }

  /** Creates tasks that `newTask` made; one alone goes by itself. */
  protected async createTexts<R>(texts: RawJson[], isSingle = false): Promise<Array<Task<R> | Refused>> {
    if (isSingle) return [await this.#createOne<R>((texts[0] as RawJson).text)];
    const batches = cut(texts.map((one) => one.text));
    const answers: Array<Array<Task<R> | Refused>> = new Array(batches.length);
    let next = 0;
    const send = async () => {
      for (let at = next++; at < batches.length; at = next++) {
        answers[at] = await this.#createBatch<R>(batches[at] as string[]);
      }
    };
    await Promise.all(Array.from({ length: CREATE_BATCHES_AT_ONCE }, send));
    return answers.flat();
  }

  async #createOne<R>(body: string): Promise<Task<R>> {
    const answer = await this.call("/tasks", { body });
    const isReplay = answer.headers.has("idempotent-replayed") && !answer.isRepeat;
    return new Task<R>(this, answer.body, isReplay || answer.headers.has("codeq-deduplicated"));
  }

  /** Sends the batch, and again what the store could not take, until the call is given up. */
  async #createBatch<R>(texts: string[]): Promise<Array<Task<R> | Refused>> {
    const answers: Array<Task<R> | Refused> = new Array(texts.length);
    const backoff = new Backoff();
    const end = Date.now() + this.transport.giveUpMs;
    let open = texts.map((_, place) => place);
    for (;;) {
      const made = await this.#sendCreates<R>(open.map((place) => texts[place] as string));
      for (const [index, one] of made.entries()) answers[open[index] as number] = one;
      open = open.filter((place) => answers[place] instanceof StorageUnavailable);
      const ms = backoff.pause();
      if (!open.length || Date.now() + ms > end) return answers;
      await pause(ms);
    }
  }

  async #sendCreates<R>(texts: string[]): Promise<Array<Task<R> | Refused>> {
    try {
      const answer = await this.call("/tasks/batch", { body: `{"tasks":[${texts.join(",")}]}` });
      return (answer.body.results as Fields[]).map((item) => {
        const isReplay = item.replayed === true && !answer.isRepeat;
        if (!item.task) return refusal(0, item);
        return new Task<R>(this, item.task as TaskFields, isReplay || item.deduplicated === true);
      });
    } catch (error) {
      if (!(error instanceof Refused && (error.status === 400 || error.status === 413))) throw error;
      if (texts.length === 1) return [error];
      // One of them spoils the whole body, and must not take the others with it.
      const alone: Array<Task<R> | Refused> = [];
      for (const text of texts) alone.push(...(await this.#sendCreates<R>([text])));
      return alone;
    }
  }

  async get(id: string): Promise<Task> {
    return new Task(this, (await this.call(`/tasks/${segment(id)}`, { method: "GET" })).body);
  }

  /** Waits for the end of a task, 60 s unless told. Throws `NotFinished` when the time is up. */
  async wait<R = Record<string, unknown>>(
    id: string,
    options: { timeout?: Duration; signal?: AbortSignal } = {},
  ): Promise<Result<R>> {
    const end = Date.now() + milliseconds(options.timeout ?? 60);
    for (;;) {
      const left = Math.max(0, end - Date.now());
      const wait = Math.min(RESULT_WAIT_SECONDS, Math.ceil(left / 1000));
      const giveUpMs = Math.min(left, this.transport.giveUpMs);
      const call: Call = { method: "GET", waitMs: wait * 1000, signal: options.signal, giveUpMs };
      try {
        const answer = await this.call(`/tasks/${segment(id)}/result?waitSeconds=${wait}`, call);
        return resultOf<R>(answer.text, answer.body.result);
      } catch (error) {
        if (!(error instanceof ResultNotFound)) throw error;
        if (Date.now() >= end) throw new NotFinished(`task ${id} has not ended`);
      }
    }
  }

  /** The bytes of an artifact that the server keeps. */
  async artifact(id: string, name: string): Promise<Uint8Array> {
    const path = `/tasks/${segment(id)}/artifacts/${segment(name)}`;
    return (await this.call(path, { method: "GET", isBinary: true })).bytes as Uint8Array;
  }

  /**
   * Ends a task that nobody wants any more; a running one gets `grace` to end by itself. An admin's token is needed on
   * servers that do not have the producer's route yet.
   */
  async cancel(id: string, options: { grace?: Duration; reason?: string } = {}): Promise<Task> {
    const body = JSON.stringify({ graceSeconds: wholeSeconds(options.grace ?? 0), reason: options.reason });
    const answer = await this.call(`/tasks/${segment(id)}/cancel`, { body }).catch((error: unknown) => {
      const isOld = error instanceof Refused && ["route_not_found", "method_not_allowed"].includes(error.code);
      if (!isOld) throw error;
      return this.call(`/admin/tasks/${segment(id)}/cancel`, { body });
    });
    return new Task(this, answer.body.task ?? answer.body);
  }

  /** Creates or replaces a schedule. */
  async putSchedule<I>(name: string, plan: Schedule<I>): Promise<Fields> {
    const { task, payload, options = {}, every, catchUpWindow, jitter, anchor, startAt, endAt, ...rest } = plan;
    const seconds = (span: Duration | undefined, least = 0) =>
      span === undefined ? undefined : wholeSeconds(span, least);
    const fields = JSON.stringify({
      ...rest,
      everySeconds: seconds(every, 1),
      anchor,
      catchUpWindowSeconds: seconds(catchUpWindow),
      jitterSeconds: seconds(jitter),
      startAt,
      endAt,
    });
    const [command, own] =
      typeof task === "string" ? [task, options] : [task.command, { ...task.defaults, ...options }];
    const text = createText(command, payload, own, true);
    const body = `{"task":${text}${fields === "{}" ? "" : `,${fields.slice(1, -1)}`}}`;
    return (await this.call(`/schedules/${segment(name)}`, { method: "PUT", body })).body;
  }

  async getSchedule(name: string): Promise<Fields> {
    return (await this.call(`/schedules/${segment(name)}`, { method: "GET" })).body;
  }

  /** All schedules of the tenant. */
  schedules(): AsyncGenerator<Fields> {
    return this.#pages("/schedules");
  }

  async deleteSchedule(name: string): Promise<void> {
    await this.call(`/schedules/${segment(name)}`, { method: "DELETE" });
  }

  /** Makes the task of a schedule now, besides its plan. Not repeated once it may have been done. */
  async triggerSchedule(name: string): Promise<Task> {
    return new Task(this, (await this.call(`/schedules/${segment(name)}/trigger`, { body: "{}", isSafe: false })).body);
  }

  async pauseSchedule(name: string, note?: string): Promise<void> {
    await this.call(`/schedules/${segment(name)}/pause`, { body: JSON.stringify({ note }) });
  }

  async resumeSchedule(name: string): Promise<void> {
    await this.call(`/schedules/${segment(name)}/resume`, { body: "{}" });
  }

  async nextTicks(name: string, count = 10): Promise<Fields> {
    return (await this.call(`/schedules/${segment(name)}/next?count=${count}`, { method: "GET" })).body;
  }

  /** Makes the tasks of the ticks from `from` up to but without `to`. */
  async backfillSchedule(name: string, from: Date, to: Date): Promise<Fields> {
    const body = JSON.stringify({ from, to });
    return (await this.call(`/schedules/${segment(name)}/backfill`, { body, isSafe: false })).body;
  }

  /**
   * Opens a batch; creates join it with `batch`. `then` are tasks that `newTask` made; with them the call is not repeated
   * once it may have been done.
   */
  async createBatch(
    options: { name?: string; closeAfter?: Duration; then?: RawJson[]; onFailure?: "run" | "skip" } = {},
  ): Promise<Batch> {
    const { name, closeAfter, then = [], onFailure } = options;
    const closeAfterSeconds = closeAfter === undefined ? undefined : wholeSeconds(closeAfter, 1);
    const fields = JSON.stringify({ name, closeAfterSeconds, onFailure });
    const tasks = then.length ? `"then":[${then.map((one) => one.text).join(",")}]` : "";
    const body = `{${[fields.slice(1, -1), tasks].filter(Boolean).join(",")}}`;
    return new Batch(this, (await this.call("/batches", { body, isSafe: !then.length })).body);
  }

  async getBatch(id: string): Promise<Batch> {
    return new Batch(this, (await this.call(`/batches/${segment(id)}`, { method: "GET" })).body);
  }

  async *#pages(path: string): AsyncGenerator<Fields> {
    let cursor: string | undefined;
    do {
      const query = cursor === undefined ? "" : `?cursor=${encodeURIComponent(cursor)}`;
      const page = (await this.call(path + query, { method: "GET" })).body as { items?: Fields[]; next?: string };
      yield* page.items ?? [];
      cursor = page.next;
    } while (cursor);
  }

  /** Any route under `/v1/codeq`, with the same repetition. */
  call(path: string, call: Call): Promise<Answer> {
    return this.transport.call(`/v1/codeq${path}`, call);
  }

  /** Members of a batch. */
  members(batch: string): AsyncGenerator<Fields> {
    return this.#pages(`/batches/${segment(batch)}/members`);
  }
}

/** Tasks that end together. What shall happen then is a task created with `after: [batch]`. */
export class Batch {
  readonly id: string;
  /** Everything as the server sent it. */
  readonly fields: Fields;
  readonly #client: Client;

  constructor(client: Client, fields: Fields) {
    this.#client = client;
    this.id = String(fields.id);
    this.fields = fields;
  }

  /** No task joins any more. */
  async close(): Promise<void> {
    await this.#client.call(`/batches/${segment(this.id)}/close`, { body: "{}" });
  }

  refresh(): Promise<Batch> {
    return this.#client.getBatch(this.id);
  }

  /** Cancels all members that live. */
  async cancel(): Promise<void> {
    await this.#client.call(`/batches/${segment(this.id)}`, { method: "DELETE" });
  }

  async *members(): AsyncGenerator<Task> {
    for await (const fields of this.#client.members(this.id)) yield new Task(this.#client, fields as TaskFields);
  }
}

/** The body of a create, for `then` of a batch. */
export function newTask<I, R>(task: Named<I, R>, payload: I | RawJson, options: CreateOptions = {}): RawJson {
  if (typeof task === "string") return new RawJson(createText(task, payload, options));
  return new RawJson(createText(task.command, payload, { ...task.defaults, ...options }));
}

export function segment(text: string): string {
  return encodeURIComponent(text);
}

function cut(texts: string[]): string[][] {
  const batches: string[][] = [];
  let size = 0;
  for (const text of texts) {
    const length = byteLength(text);
    const last = batches.at(-1);
    if (last && last.length < BATCH_ITEMS && size + length <= CREATE_BATCH_BYTES) {
      last.push(text);
      size += length;
    } else {
      batches.push([text]);
      size = length;
    }
  }
  return batches;
}
