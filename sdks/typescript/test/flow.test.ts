import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Retry, type Stopped, Worker } from "../src/index.js";
import { DevServer } from "../src/testing.js";
import { client, working } from "./server.js";

let clock: DevServer;
before(async () => {
  clock = await DevServer.start({ testClock: true });
});
after(() => clock.stop());

test("a requested cancel aborts the signal, and what the handler says then counts", async () => {
  let started: () => void = () => undefined;
  const running = new Promise<void>((resolve) => {
    started = resolve;
  });
  const handle = (worker: Worker) =>
    worker.handle("ts-heed", async ({ signal, checkpoint }) => {
      started();
      await sleep(60_000, undefined, { signal }).catch(() => undefined);
      await checkpoint({ at: 7 });
      const { why, deadline, message } = signal.reason as Stopped;
      return { why, hasDeadline: deadline instanceof Date, message };
    });
  await working(
    handle,
    async () => {
      const task = await client().create("ts-heed", 1);
      await running;
      await task.cancel({ grace: "30s", reason: "enough" });
      const wanted = { why: "cancelled", hasDeadline: true, message: "enough" };
      assert.deepEqual(await task.result({ timeout: 30 }), wanted);
    },
    { lease: "3s" },
  );
});

test("the next attempt finds what the last one saved", async () => {
  const producer = new Client({ url: clock.url, token: clock.token });
  const worker = new Worker(producer).handle("ts-resume", async ({ saved, lane, attempt, progress, checkpoint }) => {
    await progress({ attempt });
    if (saved !== undefined) return { from: saved, lane };
    await checkpoint({ at: 7 });
    throw new Retry("once more", { delay: "10m" });
  });
  const running = worker.run({ signals: false });
  const task = await producer.create("ts-resume", 1, { lane: "customer-1" });
  for (let tries = 0; (await task.refresh()).fields.lastKnownLocation !== "DELAYED_ZSET"; tries++) {
    assert(tries < 1000);
    await sleep(20);
  }
  // No further than the delay: the lease of the next attempt must not run out.
  await clock.advance("10m");
  assert.deepEqual(await task.result({ timeout: 30 }), { from: { at: 7 }, lane: "customer-1" });
  worker.stop();
  await running;
});

test("a schedule fires when the clock is moved", async () => {
  const producer = new Client({ url: clock.url, token: clock.token });
  const made = await producer.putSchedule("hourly", { task: "ts-tick", payload: { n: 1 }, every: "1h" });
  assert.equal(made.everySeconds, 3600);
  await clock.advance("1h");
  const { lastTaskId } = await producer.getSchedule("hourly");
  assert.deepEqual((await producer.get(String(lastTaskId))).payload, { n: 1 });
  assert.notEqual((await producer.triggerSchedule("hourly")).id, lastTaskId);
  for await (const plan of producer.schedules()) assert.equal(plan.name, "hourly");
  await producer.deleteSchedule("hourly");
});

test("unique creates are answered with the holder", async () => {
  const producer = client();
  const first = await producer.create("ts-unique", 1, { unique: { key: "page-7" }, tags: ["a"], expiresIn: "10m" });
  const second = await producer.create("ts-unique", 2, { unique: { key: "page-7", onConflict: "replace" } });
  assert.deepEqual([second.id, first.replayed, second.replayed], [first.id, false, true]);
  assert.equal((await producer.get(first.id)).payload, 2);
});
