// What a worker makes of answers that a server gives seldom.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "../src/index.js";
import { Fake, items, type Say, taken, whole } from "./fake.js";

/** What a worker reports for handlers that complete, request by request, when it is answered like that. */
async function statuses(answers: Say[], tasks = 1, until = answers.length): Promise<string[][]> {
  const fake = new Fake(...answers);
  for (let count = 0; count < tasks; count++) fake.lend("done");
  await working(fake, () => fake.heard(until));
  return fake.reported.map(({ results }) => results.map(({ status }) => status));
}

async function working(fake: Fake, body: () => Promise<void>, client = fake.client()): Promise<void> {
  const worker = new Worker(client, { lease: "2s" }).handle("done", () => undefined);
  const running = worker.run({ signals: false });
  await body();
  worker.stop();
  await running;
}

const page: Say = () => new Response("<html>");
const passing = [
  whole(500, "internal"),
  whole(501, ""),
  whole(401, "invalid_token"),
  whole(403, "missing_scope"),
  whole(404, "route_not_found"),
  page,
  () => Response.json({ results: [] }),
  items("internal"),
  items("storage_unavailable"),
];
for (const [at, answer] of passing.entries()) {
  test(`finished work is reported again when the answer says nothing about it: ${at}`, async () => {
    assert.deepEqual(await statuses([answer, answer, taken]), [["COMPLETED"], ["COMPLETED"], ["COMPLETED"]]);
  });
}

for (const answer of [whole(400, "invalid_body"), whole(413, "body_too_large"), items("invalid_artifact")]) {
  test("a result that is never taken becomes a failure", async () => {
    assert.deepEqual(await statuses([answer, taken]), [["COMPLETED"], ["FAILED"]]);
  });
}

for (const body of ["<html>", "[]", '{"tasks":[{}]}']) {
  test(`a claim whose answer is not understood is repeated: ${body}`, async () => {
    const fake = new Fake();
    fake.claims.push(new Response(body));
    fake.lend("done");
    await working(fake, () => fake.heard(1));
  });
}

test("the fetch of the client is used for heartbeats", { timeout: 20_000 }, async () => {
  const fake = new Fake();
  fake.lend("long");
  const beaten = fake.asked("heartbeat");
  const worker = new Worker(fake.client(), { lease: "1s" }).handle("long", () => beaten);
  const running = worker.run({ signals: false });
  await fake.heard(1);
  worker.stop();
  await running;
});

test("a token that is not there yet keeps a worker waiting, not ending", async () => {
  const fake = new Fake();
  fake.lend("done");
  let calls = 0;
  const token = () => {
    if (++calls < 3) throw new Error("no network yet");
    return "token";
  };
  await working(fake, () => fake.heard(1), fake.client({ token }));
});

test("a worker that ends with an error leaves no listener behind", async () => {
  const fake = new Fake();
  fake.claims.push(Response.json({ code: "invalid_token" }, { status: 401 }));
  const worker = new Worker(fake.client()).handle("done", () => undefined);
  const before = process.listenerCount("SIGTERM");
  await assert.rejects(worker.run(), { code: "invalid_token" });
  assert.equal(process.listenerCount("SIGTERM"), before);
});

test("a result that is never taken takes no other with it", async () => {
  const oneIsBad: Say = (body) => {
    const isBad = body.results.some(({ taskId, status }) => taskId === "task-1" && status === "COMPLETED");
    return isBad ? whole(400, "invalid_body")(body) : taken(body);
  };
  const said = await statuses([oneIsBad], 3, 5);
  const done = ["COMPLETED"];
  assert.deepEqual(said, [[...done, ...done, ...done], done, done, done, ["FAILED"]]);
});
