// Tests without a server, and tests with one.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "./client.js";
import { NotFinished, type Refused, TaskNotFound } from "./errors.js";
import { Job } from "./job.js";
import type { Report } from "./outcome.js";
import { type Result, Task, type TaskFields } from "./task.js";
import { type Duration, milliseconds, type RawJson, rawField, wholeSeconds } from "./wire.js";
import type { Worker } from "./worker.js";

/** What the server does if a create does not say. */
const MAX_ATTEMPTS = 5;

/** A task of an inline queue and what became of it. */
export interface InlineTask {
  id: string;
  command: string;
  payload: unknown;
  status: TaskFields["status"];
  attempts: number;
  refunds: number;
  maxAttempts: number;
  result: Record<string, unknown> | undefined;
  resultText: string | undefined;
  error: string;
  failureReason: string | undefined;
  progress: unknown[];
  checkpoint: unknown;
  artifacts: unknown[];
  fields: Record<string, unknown>;
  payloadText: string;
}

/**
 * A producer whose tasks are run in this process by `drain`, without a server. Time stands still unless `advance` moves
 * it. Retries wait for the delay that the handler asked for, others for nothing.
 */
export class InlineQueue extends Client {
  readonly tasks = new Map<string, InlineTask>();
  readonly #keys = new Map<string, InlineTask>();
  #due: Array<{ at: number; priority: number; order: number; task: InlineTask }> = [];
  #nowMs = 0;
  #order = 0;
  #worker: Worker | undefined;

  constructor() {
    super({ url: "http://inline.invalid", token: "none" });
  }

  /** Whose handlers run the tasks. */
  use(worker: Worker): this {
    this.#worker = worker;
    return this;
  }

  protected override async createTexts<R>(texts: RawJson[]): Promise<Array<Task<R> | Refused>> {
    return texts.map((text) => this.#create<R>(text.text));
  }

  #create<R>(text: string): Task<R> {
    const fields = JSON.parse(text) as Record<string, unknown>;
    const key = `${String(fields.command).toLowerCase()} ${String(fields.idempotencyKey)}`;
    const held = this.#keys.get(key);
    if (held) return new Task<R>(this, fieldsOf(held), true);
    const task: InlineTask = {
      id: crypto.randomUUID(),
      command: String(fields.command),
      payload: fields.payload,
      status: "PENDING",
      attempts: 0,
      refunds: 0,
      maxAttempts: Number(fields.maxAttempts) || MAX_ATTEMPTS,
      result: undefined,
      resultText: undefined,
      error: "",
      failureReason: undefined,
      progress: [],
      checkpoint: undefined,
      artifacts: [],
      fields,
      payloadText: rawField(text, "payload") ?? "null",
    };
    this.#keys.set(key, task);
    this.tasks.set(task.id, task);
    const until = fields.runAt ? Math.max(0, Date.parse(String(fields.runAt)) - Date.now()) : undefined;
    this.#put(task, until ?? Number(fields.delaySeconds ?? 0) * 1000);
    return new Task<R>(this, fieldsOf(task));
  }

  #put(task: InlineTask, delayMs: number): void {
    const priority = -Number(task.fields.priority ?? 0);
    this.#due.push({ at: this.#nowMs + delayMs, priority, order: this.#order++, task });
    this.#due.sort((a, b) => a.at - b.at || a.priority - b.priority || a.order - b.order);
  }

  /** Runs everything that is due, also what that creates, until nothing is left. How many attempts that was. */
  async drain(): Promise<number> {
    let count = 0;
    while (this.#due[0] && this.#due[0].at <= this.#nowMs) {
      const { task } = this.#due.shift() as { task: InlineTask };
      if (task.status !== "PENDING") continue;
      await this.#attempt(task);
      count++;
    }
    return count;
  }

  /** Moves the clock and runs what falls due, in order of time. */
  async advance(span: Duration): Promise<number> {
    const end = this.#nowMs + milliseconds(span);
    let count = 0;
    while (this.#due[0] && this.#due[0].at <= end) {
      this.#nowMs = Math.max(this.#nowMs, this.#due[0].at);
      count += await this.drain();
    }
    this.#nowMs = end;
    return count;
  }

  async #attempt(task: InlineTask): Promise<void> {
    if (!this.#worker) throw new Error("no worker: queue.use(worker)");
    task.attempts++;
    const job = new Job(fieldsOf(task), Number.POSITIVE_INFINITY, async (_, said) => {
      if ("progress" in said) task.progress.push(said.progress);
      if ("checkpoint" in said) task.checkpoint = said.checkpoint;
    });
    this.#end(task, await this.#worker.attempt(job));
  }

  #end(task: InlineTask, report: Report): void {
    const said = (name: string) => (report.fields[name] === undefined ? undefined : JSON.parse(report.fields[name]));
    if (report.verb === "result") {
      task.status = said("status");
      task.result = said("result");
      task.resultText = report.fields.result;
      task.error = said("error") ?? "";
      task.artifacts = said("artifacts") ?? [];
      return;
    }
    task.error = said("reason") ?? "";
    task.refunds += said("hold") ? 1 : 0;
    if (task.attempts - task.refunds >= task.maxAttempts) {
      task.status = "FAILED";
      task.failureReason = "MAX_ATTEMPTS";
    } else this.#put(task, (said("delaySeconds") ?? 0) * 1000);
  }

  override async get(id: string): Promise<Task> {
    return new Task(this, fieldsOf(this.#known(id)));
  }

  /** Runs what is due and answers if that ended the task. */
  override async wait<R = Record<string, unknown>>(id: string): Promise<Result<R>> {
    await this.drain();
    const task = this.#known(id);
    if (task.status !== "COMPLETED" && task.status !== "FAILED") throw new NotFinished(`task ${id} has not ended`);
    return {
      taskId: id,
      status: task.status,
      value: task.result as R | undefined,
      valueText: task.resultText,
      error: task.error,
      failureReason: task.failureReason,
      artifacts: [],
      completedAt: new Date(this.#nowMs),
    };
  }

  override async cancel(id: string, options: { reason?: string } = {}): Promise<Task> {
    const task = this.#known(id);
    if (task.status === "PENDING") {
      task.status = "FAILED";
      task.failureReason = "CANCELLED";
      task.error = options.reason ? `CANCELLED: ${options.reason}` : "CANCELLED";
    }
    return new Task(this, fieldsOf(task));
  }

  completed(command?: string): InlineTask[] {
    return this.#with("COMPLETED", command);
  }

  failed(command?: string): InlineTask[] {
    return this.#with("FAILED", command);
  }

  pending(command?: string): InlineTask[] {
    return this.#with("PENDING", command);
  }

  #with(status: string, command: string | undefined): InlineTask[] {
    return [...this.tasks.values()].filter((task) => task.status === status && (!command || task.command === command));
  }

  #known(id: string): InlineTask {
    const task = this.tasks.get(id);
    if (!task) throw new TaskNotFound({ status: 404, code: "task_not_found", text: "not found" });
    return task;
  }
}

function fieldsOf(task: InlineTask): TaskFields {
  const { id, command, status, attempts, payloadText, checkpoint, fields } = task;
  const { headers, lane } = fields as { headers?: Record<string, string>; lane?: string };
  return {
    id,
    command,
    status,
    attempts,
    payload: payloadText,
    checkpoint,
    ...(headers ? { headers } : {}),
    ...(lane ? { lane } : {}),
  };
}

/** The server: `CODEQ_BIN`, the package `codeq-cli` if it is installed, or `codeq` on the PATH. */
export function findBinary(): string {
  if (process.env.CODEQ_BIN) return process.env.CODEQ_BIN;
  const load = createRequire(join(process.cwd(), "package.json"));
  let cli: { binaryPath(): string };
  try {
    cli = load("codeq-cli");
  } catch {
    return "codeq";
  }
  return cli.binaryPath();
}

/** `codeq dev` on a free port. Keeps nothing unless `dataDir` is given. */
export class DevServer {
  readonly url: string;
  readonly token = "dev-token";
  readonly #process: ChildProcess;
  readonly #scratch: string;

  private constructor(url: string, child: ChildProcess, scratch: string) {
    this.url = url;
    this.#process = child;
    this.#scratch = scratch;
  }

  static async start(options: { testClock?: boolean; dataDir?: string } = {}): Promise<DevServer> {
    const args = ["dev", "--port", "0"];
    if (options.testClock) args.push("--test-clock");
    else if (options.dataDir) args.push("--data-dir", options.dataDir);
    else args.push("--memory");
    const scratch = await mkdtemp(join(tmpdir(), "codeq-"));
    const child = spawn(findBinary(), args, { cwd: scratch, stdio: ["ignore", "pipe", "ignore"] });
    await once(child, "spawn").catch((error: Error) => {
      throw new Error(`no codeq binary: npm install codeq-cli, or set CODEQ_BIN (${error.message})`, { cause: error });
    });
    for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
      const url = /listening on (\S+)/.exec(line)?.[1];
      if (url) {
        child.stdout?.resume();
        return new DevServer(url, child, scratch);
      }
    }
    throw new Error(`codeq ${args.join(" ")} did not start; run it to see why`);
  }

  /** Moves the clock of a server with `testClock` and waits until everything that fell due has happened. */
  async advance(span: Duration): Promise<void> {
    const response = await fetch(`${this.url}/v1/codeq/test/clock`, {
      method: "POST",
      headers: { Authorization: `Bearer ${this.token}` },
      body: JSON.stringify({ advanceSeconds: wholeSeconds(span) }),
    });
    if (!response.ok) throw new Error(`the clock did not move: ${response.status} ${await response.text()}`);
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const ended = once(this.#process, "exit");
      this.#process.kill("SIGTERM");
      await ended;
    }
    await rm(this.#scratch, { recursive: true, force: true });
  }
}
