// What a worker makes of claims that take long.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Job, Worker } from "../src/index.js";
import { Fake } from "./fake.js";

test("a lease begins when it is asked for", { timeout: 20_000 }, async () => {
  const fake = new Fake();
  const waits: number[] = [];
  const slow: typeof fetch = async (input, init) => {
    if (!String(input).endsWith("/tasks/claim") || waits.length) return fake.fetch(input, init);
    waits.push(JSON.parse(String(init?.body)).waitSeconds);
    // The answer may be long on its way.
    await sleep(500);
    return Response.json({ id: "a", command: "look", attempts: 1, payload: "1" });
  };
  const worker = new Worker(fake.client({ fetch: slow }), { lease: "10s" });
  const left = new Promise<number>((resolve) => {
    worker.handle("look", (job: Job) => resolve(job.deadlineMs));
  });
  const running = worker.run({ signals: false });
  const ms = await left;
  worker.stop();
  await running;
  assert(ms <= 9_500, `${ms} ms left`);
  assert.deepEqual(waits, [5]);
});

test("a claim without an answer takes nothing of the grace", { timeout: 20_000 }, async () => {
  let told: () => void = () => undefined;
  const asked = new Promise<void>((resolve) => {
    told = resolve;
  });
  const silent: typeof fetch = (_, init) => {
    told();
    return new Promise((_resolve, reject) => {
      init?.signal?.addEventListener("abort", () => reject(init.signal?.reason));
    });
  };
  const worker = new Worker(new Fake().client({ fetch: silent }), { grace: "100ms" }).handle("done", () => undefined);
  const running = worker.run({ signals: false });
  await asked;
  worker.stop();
  const started = Date.now();
  await running;
  assert(Date.now() - started < 10_000);
});
