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

async function act({ payload, attempt, signal }) {
  if (payload.do === "flaky" && attempt < payload.until) throw new Error("not yet");
  if (payload.do === "raise") throw new Error(payload.text);
  if (payload.do === "fail") throw new Fail(payload.text);
  if (payload.do === "sleep") await sleep(payload.seconds * 1000, undefined, { signal });
  if (payload.do === "block") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, payload.seconds * 1000);
}

if (mode === "worker") {
  const { concurrency = 16, lease = 60, grace = 25 } = order;
  const worker = new Worker(client, { concurrency, lease, grace });
  worker.handle("exam", async (job) => {
    const note = (event) =>
      appendFileSync(order.log, `${JSON.stringify({ event, task: job.id, attempt: job.attempt })}\n`);
    note("start");
    job.signal.addEventListener("abort", () => note("stopped"));
    try {
      await act(job);
      return new RawJson(job.payloadText);
    } finally {
      note("end");
    }
  });
  await worker.run();
} else {
  // Integers above 2^53 are kept by taking the text of each payload as it stands.
  const payloads = order.tasks.map((one) => new RawJson(one.payloadText ?? JSON.stringify(one.payload)));
  const name = (one) => order.tasks[one].command ?? "exam";
  const made = [];
  if (order.many) made.push(...(await client.createMany(name(0), payloads)));
  else {
    for (const [at, payload] of payloads.entries()) {
      const { maxAttempts } = order.tasks[at];
      const options = maxAttempts === undefined ? {} : { maxAttempts };
      made.push(await client.create(name(at), payload, options).catch((error) => error));
    }
  }
  for (const one of made) {
    if (one instanceof Error && !(one instanceof Refused)) throw one;
    console.log(JSON.stringify(one instanceof Refused ? { type: one.name, code: one.code } : { id: one.id }));
  }
}
