// Full cycles a second of the TypeScript SDK: create, claim, run a handler that does nothing, report.
// usage: bench.mjs URL TOKEN TASKS CONCURRENCY. Prints one line of JSON.
import { Client, Worker } from "../typescript/dist/esm/index.js";

const [url, token, tasks, concurrency] = process.argv.slice(2);
const client = new Client({ url, token });
const worker = new Worker(client, { concurrency: Number(concurrency) });
let left = Number(tasks);
let ended;
const all = new Promise((resolve) => {
  ended = resolve;
});
worker.handle("bench-typescript", () => {
  if (--left === 0) ended();
});
const started = performance.now();
const running = worker.run({ signals: false });
const creating = client.createMany("bench-typescript", Array.from({ length: Number(tasks) }, (_, n) => n));
await all;
await creating;
worker.stop();
await running; // until the last report is answered
const seconds = (performance.now() - started) / 1000;
const perSecond = Math.round(Number(tasks) / seconds);
console.log(JSON.stringify({ sdk: "typescript", transport: "http", cycles: Number(tasks), perSecond }));
