import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { defineTask, Fail, NotFinished, Retry, TaskFailed, Worker } from "../src/index.js";
import { InlineQueue, type InlineTask } from "../src/testing.js";

const mail = defineTask("mail", {
  payload: z.object({ to: z.string(), copies: z.number().default(1) }),
  maxAttempts: 2,
});

function inline(...layers: ConstructorParameters<typeof Worker>[1][]): [InlineQueue, Worker] {
  const queue = new InlineQueue();
  const worker = new Worker(queue, layers[0]);
  return [queue.use(worker), worker];
}

test("result of a handler is the result of its task", async () => {
  const [queue, worker] = inline();
  worker.handle(mail, async ({ payload, attempt, progress, artifact }) => {
    await progress(50);
    artifact("log.txt", "sent");
    return { to: payload.to, copies: payload.copies, attempt };
  });
  const task = await queue.create(mail, { to: "ä@b" }, { key: "one" });
  const again = await queue.create(mail, { to: "other" }, { key: "one" });
  assert.deepEqual([again.id, again.replayed], [task.id, true]);
  assert.deepEqual(await task.result(), { to: "ä@b", copies: 1, attempt: 1 });
  const [done] = queue.completed("mail");
  assert.deepEqual(done?.progress, [50]);
  assert.equal(done?.artifacts.length, 1);
});

const isRefused = (error: unknown) =>
  error instanceof TaskFailed && /the payload cannot be read: to: .*string/.test(error.message);

test("a payload that its schema refuses is tried again", async () => {
  const [queue, worker] = inline();
  worker.handle(mail, () => undefined);
  const task = await queue.create("mail", { to: 5 }, { maxAttempts: 2 });
  await assert.rejects(task.result(), isRefused);
  const { attempts, failureReason } = queue.failed()[0] as InlineTask;
  assert.deepEqual([attempts, failureReason], [2, "MAX_ATTEMPTS"]);
});

test("a payload that its schema refuses fails at once if the worker says so", async () => {
  const [queue, worker] = inline({ failUnreadable: true });
  worker.handle(mail, () => undefined);
  const task = await queue.create("mail", { to: 5 });
  await assert.rejects(task.result(), isRefused);
  assert.equal(queue.failed()[0]?.attempts, 1);
});

test("errors are tried again until the attempts run out", async () => {
  const [queue, worker] = inline();
  worker.handle("flaky", async ({ payload, attempt, checkpoint, saved }) => {
    await checkpoint(attempt);
    if (attempt < payload) throw new Error("not yet");
    return { saved };
  });
  const good = await queue.create("flaky", 3);
  const bad = await queue.create("flaky", 9, { maxAttempts: 3 });
  assert.deepEqual(await good.result(), { saved: 2 });
  await assert.rejects(bad.result(), { name: "TaskFailed", reason: "MAX_ATTEMPTS", error: "Error: not yet" });
});

test("Fail is final and Retry waits for its delay", async () => {
  const [queue, worker] = inline();
  worker.handle("choose", ({ payload, attempt }) => {
    if (payload === "fail") throw new Fail("no such image");
    if (attempt === 1) throw new Retry("busy", { delay: "30s" });
  });
  const failed = await queue.create("choose", "fail");
  const later = await queue.create("choose", "retry");
  assert.equal(await queue.drain(), 2);
  assert.equal((await failed.wait()).error, "no such image");
  await assert.rejects(later.wait(), NotFinished);
  assert.equal(await queue.advance("29s"), 0);
  assert.equal(await queue.advance(1), 1);
  assert.deepEqual(await later.result(), {});
});

test("middleware runs around the handler in order", async () => {
  const seen: string[] = [];
  const layer = (name: string) => async (_: unknown, next: () => Promise<unknown>) => {
    seen.push(`${name} before`);
    const value = await next();
    seen.push(`${name} after`);
    return value;
  };
  const [queue, worker] = inline({ middleware: [layer("outer"), layer("inner")] });
  worker.handle("note", () => void seen.push("handler"));
  await queue.create("note", 1);
  await queue.drain();
  assert.deepEqual(seen, ["outer before", "inner before", "handler", "inner after", "outer after"]);
});

test("two handlers of one command are refused", () => {
  const [, worker] = inline();
  worker.handle("Mail", () => undefined);
  assert.throws(() => worker.handle("mail", () => undefined), /has a handler already/);
});
