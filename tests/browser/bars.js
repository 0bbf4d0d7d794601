// Measures what the dashboard and its searches are held to; by hand, on a machine that does nothing else.
//
//   CODEQ=target/release/codeq node tests/browser/bars.js          all of it, some minutes
//   CODEQ=target/release/codeq node tests/browser/bars.js paint    one of paint, search, audit
//
// QUEUES, DEAD, TASKS, SECONDS and ROUNDS make it smaller. Ends with 1 if a bar is missed.

import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { openBrowser, openPage } from "./page.js";
import { Server, TOKEN } from "./server.js";

const size = (name, value) => Number(process.env[name] ?? value);
const QUEUES = size("QUEUES", 500);
const DEAD = size("DEAD", 100_000);
const TASKS = size("TASKS", 1_000_000);
const SECONDS = size("SECONDS", 5);
/** Measured so often; the median counts. */
const ROUNDS = size("ROUNDS", 5);
/** Requests at once while tasks are made. */
const AT_ONCE = 8;
const OPERATOR_CALLS_PER_SECOND = 10;

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
let isMissed = false;

function tell(what, value, unit, bar, isMet) {
  isMissed ||= !isMet;
  console.log(`${isMet ? "ok  " : "MISS"} ${what}: ${value.toFixed(unit === "ms" ? 0 : 3)} ${unit} (bar: ${bar})`);
}

/** One dead letter is made; the others are its copies under ids of their own. */
async function plantDead(server) {
  const task = await server.create("plant", { index: 0 }, { maxAttempts: 1 });
  await server.claim("plant");
  await server.call("POST", `/tasks/${task.id}/nack`, { reason: "timeout after 30 s" });
  const exported = await fetch(`${server.base}/v1/codeq/admin/export?status=FAILED&command=plant`, {
    headers: { Authorization: `Bearer ${TOKEN}` },
  });
  const [line] = (await exported.text()).split("\n");
  const lines = Array.from({ length: DEAD }, () => `${line.replaceAll(task.id, randomUUID())}\n`).join("");
  const sha256 = createHash("sha256").update(lines).digest("hex");
  const response = await fetch(`${server.base}/v1/codeq/admin/import`, {
    method: "POST",
    headers: { Authorization: `Bearer ${TOKEN}` },
    body: `${lines}${JSON.stringify({ count: DEAD, sha256 })}\n`,
  });
  const { created, refused } = await response.json();
  if (created !== DEAD) throw new Error(`${created} of ${DEAD} were imported: ${JSON.stringify(refused?.[0])}`);
}

async function coldPaint(browser, server) {
  const page = await openPage(browser);
  await page.addInitScript((wanted) => {
    const look = () => {
      if (document.querySelectorAll("tbody tr").length < wanted) requestAnimationFrame(look);
      else requestAnimationFrame(() => (window.paintedAt = performance.now()));
    };
    requestAnimationFrame(look);
  }, QUEUES);
  await page.goto(`${server.base}/ui`);
  const painted = await (await page.waitForFunction(() => window.paintedAt)).jsonValue();
  await page.context().close();
  return painted;
}

async function paint() {
  const server = await Server.start(["dev", "--port", "0"]);
  const browser = await openBrowser();
  try {
    for (let number = 0; number < QUEUES; number += 1) await server.create(`queue-${number}`);
    await plantDead(server);
    const tries = [];
    for (let round = 0; round < ROUNDS; round += 1) tries.push(await coldPaint(browser, server));
    tell(`overview with ${QUEUES} queues and ${DEAD} dead letters`, median(tries), "ms", "under 1000", median(tries) < 1000);
  } finally {
    await browser.close();
    await server.stop();
  }
}

async function fill(server) {
  let made = 0;
  const maker = async () => {
    while (made < TASKS) {
      const from = made;
      made += 100;
      const tasks = Array.from({ length: 100 }, (_, index) => ({
        command: "stored",
        payload: { order: from + index, note: `customer ${(from + index) % 977}` },
      }));
      await server.call("POST", "/tasks/batch", { tasks });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, maker));
}

/** Cycles of create, claim and result per second, against a server that runs. */
async function cycles(server) {
  const asked = ["bench", "http", "--base-url", server.base, "--producer-token", TOKEN, "--worker-token", TOKEN];
  const { stdout } = await promisify(execFile)(
    process.env.CODEQ,
    [...asked, "--seconds", String(SECONDS), "--connections", "16", "--json"],
    { maxBuffer: 1 << 24 },
  );
  return JSON.parse(stdout).rows.find(({ name }) => name === "cycle").per_second;
}

/** The throughput beside something, in relation to the throughput without it: pairs, one after the other. */
async function beside(server, act) {
  const ratios = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const alone = await cycles(server);
    let isOver = false;
    const busy = (async () => {
      while (!isOver) await act();
    })();
    const together = await cycles(server);
    isOver = true;
    await busy;
    ratios.push(together / alone);
  }
  return median(ratios);
}

async function search() {
  const server = await Server.start(["dev", "--port", "0"]);
  try {
    await fill(server);
    // What was created a moment ago is still on its way into the tables; a list takes it along.
    const begun = performance.now();
    await server.call("GET", "/admin/tasks?limit=1");
    console.log(`     first list after ${TASKS} creates: ${(performance.now() - begun).toFixed(0)} ms (no bar)`);
    // Everywhere, in few, and nowhere: the last looks at as much as a page may.
    for (const text of ["customer", "customer 976", "no such text"]) {
      const times = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        const started = performance.now();
        await server.call("GET", `/admin/tasks?payloadContains=${encodeURIComponent(text)}&limit=100`);
        times.push(performance.now() - started);
      }
      tell(`first page of ${TASKS} tasks with "${text}"`, median(times), "ms", "under 500", median(times) < 500);
    }
    const ratio = await beside(server, () => server.call("GET", "/admin/tasks?payloadContains=nowhere&limit=100"));
    tell("throughput beside payload searches", ratio, "of that without", "at least 0.9", ratio >= 0.9);
  } finally {
    await server.stop();
  }
}

/** Only calls of operators are noted, and that is never off: so with many of them, against none. */
async function audit() {
  const server = await Server.start(["dev", "--port", "0"]);
  try {
    await server.create("other");
    let isPaused = false;
    const ratio = await beside(server, async () => {
      isPaused = !isPaused;
      await server.call("POST", `/admin/queues/other/${isPaused ? "pause" : "resume"}`);
      await new Promise((resolve) => setTimeout(resolve, 1000 / OPERATOR_CALLS_PER_SECOND));
    });
    tell("throughput beside audited calls", ratio, "of that without", "at least 0.98", ratio >= 0.98);
  } finally {
    await server.stop();
  }
}

const all = { paint, search, audit };
for (const name of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(all)) await all[name]();
process.exitCode = isMissed ? 1 : 0;
