// Drives one queue from two processes, a producer and a worker, as Node programs do: each has one thread.
//
// usage: bench.mjs SYSTEM ADDRESS PRODUCERS WORKERS WINDOW SECONDS   the race
//        bench.mjs SYSTEM ADDRESS one-by-one JOBS                    only a producer: one job after the other
//
// Prints what the Go program beside it prints, and waits for a line in the same places.
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { job } from "./job.mjs";

const [system, address, ...rest] = process.argv.slice(2);
/** How many jobs may wait: producers pause beyond it, so rates are steady states and not bursts. */
const BACKLOG_MAX = 4_000;
const WARM_UP_MS = 3_000;
const REPORT_MS = 20;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const open = async (role) => (await import(`./${system}.mjs`)).open(address, role);

async function oneByOne(jobs) {
  const queue = await open("setup");
  await queue.enqueue([job(0)]);
  console.log("ready");
  await once(process.stdin, "data");
  for (let at = 1; at <= jobs; at += 1) await queue.enqueue([job(at)]);
  console.log(JSON.stringify({ enqueued: jobs }));
  process.exit(0);
}

/** Producers of one process: each waits for its answer before it goes on. */
async function produce(producers, window) {
  const queue = await open("produce");
  let next = 0;
  let sent = 0;
  let isPaused = false;
  let waits = null;
  process.on("message", (said) => {
    if ("isPaused" in said) isPaused = said.isPaused;
    if (said.measure) waits = [];
    if (said.report) process.send({ waits });
  });
  setInterval(() => process.send({ sent }), REPORT_MS);
  const one = async () => {
    for (;;) {
      while (isPaused) await pause(2);
      const jobs = Array.from({ length: window }, () => job(next++));
      const begun = performance.now();
      await queue.enqueue(jobs);
      waits?.push((performance.now() - begun) * 1000);
      sent += window;
    }
  };
  await Promise.all(Array.from({ length: producers }, one));
}

async function work(workers, window) {
  const queue = await open("work");
  let done = 0;
  setInterval(() => process.send({ done }), REPORT_MS);
  await queue.work(workers, window, (jobs) => {
    done += jobs;
  });
}

async function race(seconds) {
  const setup = await open("setup");
  await setup.close();
  const seen = { sent: 0, done: 0, waits: null };
  const start = (role) => {
    const child = fork(fileURLToPath(import.meta.url), process.argv.slice(2), { env: { ...process.env, ROLE: role } });
    child.on("message", (said) => Object.assign(seen, said));
    child.on("exit", () => {
      console.error(`${role} ended`);
      process.exit(1);
    });
    return child;
  };
  const [producer, worker] = [start("produce"), start("work")];
  let isPaused = false;
  setInterval(() => {
    const isBehind = seen.sent - seen.done >= BACKLOG_MAX;
    if (isBehind !== isPaused) producer.send({ isPaused: isBehind });
    isPaused = isBehind;
  }, 10);
  await pause(WARM_UP_MS);
  console.log("begin");
  producer.send({ measure: true });
  const [before, begun] = [seen.done, performance.now()];
  await pause(seconds * 1000);
  const [cycles, length] = [seen.done - before, (performance.now() - begun) / 1000];
  producer.send({ report: true });
  while (!seen.waits) await pause(REPORT_MS);
  const waits = seen.waits.sort((a, b) => a - b);
  const at = (share) => Math.round(waits[Math.floor((waits.length - 1) * share)] ?? 0);
  console.log(JSON.stringify({ cycles, seconds: length, enqueueP50Us: at(0.5), enqueueP99Us: at(0.99) }));
  // Whoever measures looks at the processes before they end.
  await once(process.stdin, "data");
  for (const child of [producer, worker]) {
    child.removeAllListeners("exit");
    child.kill("SIGKILL");
  }
  process.exit(0);
}

const [producers, workers, window, seconds] = rest.map(Number);
if (rest[0] === "one-by-one") await oneByOne(Number(rest[1]));
else if (process.env.ROLE === "produce") await produce(producers, window);
else if (process.env.ROLE === "work") await work(workers, window);
else await race(seconds);
