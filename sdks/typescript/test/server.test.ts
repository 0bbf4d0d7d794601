import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  defineTask,
  Fail,
  InvalidCommand,
  PayloadTooLarge,
  RawJson,
  Refused,
  Retry,
  Stopped,
  Task,
  Worker,
} from "../src/index.js";
import { otel } from "../src/otel.js";
import { client, working } from "./server.js";

test("a task from start to end, with texts and numbers intact", async () => {
  const echo = defineTask<object>("ts-echo", { maxAttempts: 1 });
  const handle = (worker: Worker) =>
    worker.handle(echo, (job) => {
      job.artifact("häufig.txt", "grüße", "text/plain");
      return new RawJson(job.payloadText);
    });
  await working(handle, async () => {
    const text = '{"text":"größe 🎉","number":9007199254740993,"none":null}';
    const producer = client();
    const task = await producer.create(echo, new RawJson(text), { headers: { a: "b" }, priority: 3 });
    assert.equal((await task.wait({ timeout: 30 })).valueText, text);
    assert.equal(new TextDecoder().decode(await producer.artifact(task.id, "häufig.txt")), "grüße");
    const seen = await task.refresh();
    assert.deepEqual([seen.status, seen.payloadText], ["COMPLETED", text]);
  });
});

test("Fail, Retry, errors and results that cannot be sent reach the server", async () => {
  const handle = (worker: Worker) =>
    worker.handle("ts-outcomes", ({ payload }) => {
      if (payload === "fail") throw new Fail("for good");
      if (payload === "retry") throw new Retry("later");
      if (payload === "nan") return { n: Number.NaN };
      throw new RangeError("oops");
    });
  await working(handle, async () => {
    const texts: Record<string, unknown[]> = {};
    for (const what of ["fail", "retry", "throw", "nan"]) {
      const task = await client().create("ts-outcomes", what, { maxAttempts: 1 });
      const { error, failureReason } = await task.wait({ timeout: 30 });
      texts[what] = [error, failureReason];
    }
    assert.deepEqual(texts, {
      fail: ["for good", undefined],
      retry: ["later", "MAX_ATTEMPTS"],
      throw: ["RangeError: oops", "MAX_ATTEMPTS"],
      nan: ["the result was not taken: NaN cannot be written as JSON", undefined],
    });
  });
});

test("a handler that blocks the event loop keeps its lease", async () => {
  const block = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  const handle = (worker: Worker) =>
    worker.handle("ts-blocking", ({ attempt }) => {
      block(2500);
      return { attempt };
    });
  await working(
    handle,
    async () => {
      const task = await client().create("ts-blocking", 1);
      assert.deepEqual(await task.result({ timeout: 30 }), { attempt: 1 });
    },
    { lease: "1s" },
  );
});

test("a lost lease aborts the signal and drops the result", async () => {
  const started = later();
  const aborted = later<unknown>();
  const handle = (worker: Worker) =>
    worker.handle("ts-lost", async ({ signal }) => {
      started.resolve(undefined);
      await sleep(60_000, undefined, { signal }).catch(() => aborted.resolve(signal.reason));
    });
  await working(
    handle,
    async () => {
      const task = await client().create("ts-lost", 1);
      await started.promise;
      await task.cancel();
      const reason = await aborted.promise;
      assert(reason instanceof Stopped && reason.why === "lease lost");
      assert.equal((await task.wait()).failureReason, "CANCELLED");
    },
    { lease: "1s" },
  );
});

test("stop gives back what does not end in time", async () => {
  const started = later();
  let task: Task | undefined;
  const handle = (worker: Worker) =>
    worker.handle("ts-stop", async ({ signal }) => {
      started.resolve(undefined);
      await sleep(60_000, undefined, { signal });
    });
  await working(
    handle,
    async () => {
      task = await client().create("ts-stop", 1);
      await started.promise;
    },
    { grace: "100ms" },
  );
  const { status, attempts, refunds } = (await client().get((task as Task).id)).fields;
  assert.deepEqual([status, attempts, refunds], ["PENDING", 1, 1]);
});

test("many creates are cut into batches, and refusals have types", async () => {
  const producer = client();
  const numbers = Array.from({ length: 250 }, (_, n) => n);
  const made = await producer.createMany("ts-many", numbers, { key: "batch" });
  const again = await producer.createMany("ts-many", numbers, { key: "batch" });
  const ids = made.map((task) => (task as Task).id);
  assert.equal(new Set(ids).size, 250);
  assert.deepEqual(
    ids,
    again.map((task) => (task as Task).id),
  );
  await assert.rejects(producer.create("größe", 1), (error) => {
    assert(error instanceof InvalidCommand);
    assert.deepEqual([error.status, error.code, error.name], [400, "invalid_command", "InvalidCommand"]);
    return Boolean(error.requestId);
  });
  const mixed = await producer.createMany("ts-many", ["x".repeat(1_100_000), "small"]);
  assert(mixed[0] instanceof PayloadTooLarge);
  assert(mixed[1] instanceof Task);
});

test("a create without an answer is repeated and makes one task", async () => {
  const keys: string[] = [];
  const flaky: typeof fetch = async (input, init) => {
    keys.push(JSON.parse(String(init?.body)).idempotencyKey);
    const response = await fetch(input, init);
    if (keys.length > 2) return response;
    await response.text();
    throw new TypeError("fetch failed", { cause: { code: "ECONNRESET", message: "cut" } });
  };
  const task = await client({ fetch: flaky }).create("ts-cut", 1);
  assert.deepEqual([task.replayed, keys.length, new Set(keys).size], [false, 3, 1]);
});

test("the token is renewed when the server refuses it", async () => {
  const given = ["expired", "dev-token"];
  const producer = client({ token: async () => given.shift() as string });
  assert.equal((await producer.create("ts-token", 1)).status, "PENDING");
  assert.equal((await producer.create("ts-token", 2)).status, "PENDING");
});

test("a worker with a token that is refused ends with the error", async () => {
  const worker = new Worker(client({ token: "wrong" })).handle("ts-refused", () => undefined);
  await assert.rejects(worker.run({ signals: false }), (error) => error instanceof Refused && error.status === 401);
});

test("a span per attempt has the create as its parent", async () => {
  const seen: unknown[] = [];
  const span = { end: () => seen.push("end"), recordException: () => seen.push("error"), setStatus: () => undefined };
  const api = {
    trace: {
      getTracer: () => ({
        startActiveSpan: (name: string, _: object, parent: unknown, run: (s: object) => unknown) => {
          seen.push(name, parent);
          return run(span);
        },
      }),
    },
    propagation: { extract: (_: unknown, carrier: object) => (carrier as { traceparent?: string }).traceparent },
    context: { active: () => undefined },
    SpanKind: { CONSUMER: 4 },
    SpanStatusCode: { ERROR: 2 },
  };
  await working(
    (worker) => worker.handle("ts-otel", () => ({ ok: true })),
    async () => {
      const task = await client().create("ts-otel", 1, { headers: { traceparent: "00-a-b-01" } });
      await task.result({ timeout: 30 });
    },
    { middleware: [otel(api)] },
  );
  assert.deepEqual(seen, ["process ts-otel", "00-a-b-01", "end"]);
});

function later<T = unknown>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
