// Heartbeats, from a thread of their own, so that a handler that blocks the event loop cannot keep them back. A client with
// a `fetch` of its own has them on the main thread: a function cannot be handed to another one.

import type { MessagePort, Worker } from "node:worker_threads";
import type { Job } from "./job.js";
import type { Transport } from "./transport.js";

/** Refusals of a report that mean: the task has moved on, drop it. */
export const GONE: ReadonlySet<string> = new Set([
  "task_not_found",
  "lease_lost",
  "not_in_progress",
  "cancelled",
  "not_owner",
]);

/** What the heartbeats are told at their start. Times are in milliseconds of `now`. */
interface Start {
  url: string;
  headers: Record<string, string>;
  token: string;
  leaseMs: number;
  gone: string[];
}

interface Lease {
  id: string;
  attempt: number;
  until: number;
}

type ToHeartbeats = { add: Lease[] } | { remove: string[] } | { token: string };
type FromHeartbeats =
  | { kept: string; until: number; cancel?: { reason?: string; deadline?: string } }
  | { lost: string; why: string }
  | { refused: string };

/** Milliseconds that only grow, the same in every thread. */
export function now(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

/** Extends the leases of jobs after a third of their length, and tells jobs that lost theirs. */
export class Keeper {
  readonly #jobs = new Map<string, Job>();
  readonly #heartbeats: Worker | MessagePort;

  private constructor(heartbeats: Worker | MessagePort, transport: Transport) {
    this.#heartbeats = heartbeats;
    heartbeats.on("message", (message: FromHeartbeats) => {
      if ("kept" in message) this.#jobs.get(message.kept)?.kept(message.until, message.cancel);
      else if ("lost" in message) this.#jobs.get(message.lost)?.lose(message.why);
      else void this.#renew(transport, message.refused);
    });
    heartbeats.unref();
  }

  static async start(transport: Transport, leaseMs: number, headers: Record<string, string>): Promise<Keeper> {
    const { MessageChannel, Worker } = await import("node:worker_threads");
    // Without a token the first heartbeat is refused, and asks for one again.
    const token = await transport.token().catch(() => "");
    const workerData: Start = { url: transport.url, headers, token, leaseMs, gone: [...GONE] };
    if (transport.ownFetch) {
      const { port1, port2 } = new MessageChannel();
      heartbeats(port2, workerData, transport.ownFetch);
      port2.unref();
      return new Keeper(port1, transport);
    }
    const start = `const { parentPort, workerData } = require("node:worker_threads");`;
    const thread = new Worker(`${start}(${heartbeats.toString()})(parentPort, workerData, fetch)`, {
      eval: true,
      workerData,
    });
    return new Keeper(thread, transport);
  }

  async #renew(transport: Transport, refused: string): Promise<void> {
    // Without a token it is asked for again with the next heartbeat.
    await transport.token(refused).then(
      (token) => this.#post({ token }),
      () => undefined,
    );
  }

  add(jobs: Job[]): void {
    for (const job of jobs) this.#jobs.set(job.key, job);
    this.#post({ add: jobs.map((job) => ({ id: job.id, attempt: job.attempt, until: job.leaseUntil })) });
  }

  remove(job: Job): void {
    if (!this.#jobs.delete(job.key)) return;
    this.#post({ remove: [job.key] });
  }

  async end(): Promise<void> {
    if ("terminate" in this.#heartbeats) await this.#heartbeats.terminate();
    else this.#heartbeats.close();
  }

  #post(message: ToHeartbeats): void {
    this.#heartbeats.postMessage(message);
  }
}

/** The heartbeats. A thread gets them as text, so they must not use anything from outside of themselves. */
function heartbeats(port: MessagePort, start: Start, send: typeof fetch): void {
  const leases = new Map<string, { id: string; attempt: number; until: number; next: number; isBeating: boolean }>();
  const tick = start.leaseMs / 12;
  const atOnce = 16;
  let token = start.token;
  let underWay = 0;
  const clock = () => Number(process.hrtime.bigint() / 1_000_000n);
  const keyOf = (lease: { id: string; attempt: number }) => `${lease.id}:${lease.attempt}`;

  const lost = (key: string, why: string) => {
    if (leases.delete(key)) port.postMessage({ lost: key, why });
  };

  const beat = async (key: string, lease: { id: string; attempt: number; until: number; next: number }) => {
    const sent = clock();
    const used = token;
    const response = await send(`${start.url}/v1/codeq/tasks/${encodeURIComponent(lease.id)}/heartbeat`, {
      method: "POST",
      headers: { ...start.headers, Authorization: `Bearer ${used}` },
      body: JSON.stringify({ extendSeconds: Math.ceil(start.leaseMs / 1000), attempt: lease.attempt }),
      // One that hangs must leave time for another.
      signal: AbortSignal.timeout(Math.max(1, Math.min(lease.until - sent, Math.max(1000, start.leaseMs / 3)))),
    });
    const body = (await response.json().catch(() => ({}))) as { code?: string; cancel?: object };
    lease.next = clock() + tick;
    if (response.ok) {
      lease.until = sent + start.leaseMs;
      lease.next = sent + start.leaseMs / 3;
      if (leases.has(key)) port.postMessage({ kept: key, until: lease.until, cancel: body.cancel });
    } else if (start.gone.includes(body.code ?? "")) lost(key, body.code ?? "");
    else if (response.status === 401) port.postMessage({ refused: used });
  };

  const timer = setInterval(() => {
    const time = clock();
    for (const [key, lease] of leases) {
      if (time >= lease.until) lost(key, "no heartbeat got through");
      else if (time >= lease.next && !lease.isBeating && underWay < atOnce) {
        lease.isBeating = true;
        underWay++;
        beat(key, lease)
          .catch(() => {
            lease.next = clock() + tick;
          })
          .finally(() => {
            lease.isBeating = false;
            underWay--;
          });
      }
    }
  }, tick);

  port.on("message", (message: ToHeartbeats) => {
    if ("add" in message) {
      for (const lease of message.add) {
        const next = lease.until - (start.leaseMs * 2) / 3;
        leases.set(keyOf(lease), { ...lease, next, isBeating: false });
      }
    } else if ("remove" in message) for (const key of message.remove) leases.delete(key);
    else token = message.token;
  });
  port.on("close", () => clearInterval(timer));
}
