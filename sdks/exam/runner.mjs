// The TypeScript runner of the exam; see exam.py.
import { appendFileSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Fail, RawJson, Refused, Worker } from "../typescript/dist/esm/index.js";

const [mode, file] = process.argv.slice(2);
const text = readFileSync(file, "utf8");
const order = JSON.parse(text);
const tokens = [...order.tokens];
const token = tokens.length === 1 ? tokens[0] : () => (tokens.length > 1 ? tokens.shift() : tokens[0]);
const client = new Client({ url: order.url, token });

async function act({ payload, payloadText, attempt, signal, saved, checkpoint, progress }) {
  if (payload.do === "flaky" && attempt < payload.until) throw new Error("not yet");
  if (payload.do === "raise") throw new Error(payload.text);
  if (payload.do === "fail") throw new Fail(payload.text);
  if (payload.do === "sleep") await sleep(payload.seconds * 1000, undefined, { signal });
  if (payload.do === "heed") {
    await sleep(payload.seconds * 1000, undefined, { signal }).catch(() => undefined);
    return { heeded: signal.reason?.why === "cancelled" && signal.reason.deadline instanceof Date };
  }
  if (payload.do === "resume") {
    // As text: the integer is above 2^53.
    if (saved !== undefined) return new RawJson(`{"from":${saved}}`);
    await checkpoint(/"value": (\d+)/.exec(payloadText)[1]);
    throw new Error("the next attempt goes on");
  }
  if (payload.do === "report") {
    await progress(payload.value);
    await sleep(payload.seconds * 1000, undefined, { signal });
  }
  if (payload.do === "block") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, payload.seconds * 1000);
  return new RawJson(payloadText);
}

if (mode === "worker") {
  const { concurrency = 16, lease = 60, grace = 25 } = order;
  const worker = new Worker(client, { concurrency, lease, grace });
  worker.handle("exam", async (job) => {
    const note = (event) =>
      appendFileSync(order.log, `${JSON.stringify({ event, task: job.id, attempt: job.attempt, worker: order.worker })}\n`);
    note("start");
    job.signal.addEventListener("abort", () => note("stopped"));
    try {
      return await act(job);
    } finally {
      note("end");
    }
  });
  await worker.run();
} else if (order.cancel) {
  const { ids, grace, reason } = order.cancel;
  for (const id of ids) await client.cancel(id, { grace, reason });
} else if (order.schedule) {
  const { name, payload, cron } = order.schedule;
  await client.putSchedule(name, { task: "exam", payload, cron });
} else if (order.batch) {
  const batch = await client.createBatch();
  const made = await client.createMany("exam", order.batch.members, { batch });
  made.push(await client.create("exam", order.batch.then, { after: [batch] }));
  await batch.close();
  for (const { id } of made) console.log(JSON.stringify({ id }));
} else {
  // Integers above 2^53 are kept by taking the text of each payload as it stands.
  const payloads = order.tasks.map((one) => new RawJson(one.payloadText ?? JSON.stringify(one.payload)));
  const name = (one) => order.tasks[one].command ?? "exam";
  const made = [];
  if (order.many) made.push(...(await client.createMany(name(0), payloads)));
  else {
    for (const [at, payload] of payloads.entries()) {
      const { maxAttempts, lane, webhook, unique } = order.tasks[at];
      const options = { maxAttempts, lane, webhook, unique: unique && { key: unique } };
      made.push(await client.create(name(at), payload, options).catch((error) => error));
    }
  }
  for (const one of made) {
    if (one instanceof Error && !(one instanceof Refused)) throw one;
    console.log(JSON.stringify(one instanceof Refused ? { type: one.name, code: one.code } : { id: one.id }));
  }
}
