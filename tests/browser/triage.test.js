// What somebody needs who finds failed work at night.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./page.js";
import { Server } from "./server.js";

let browser;
let server;
before(async () => {
  [browser, server] = await Promise.all([openBrowser(), Server.dev()]);
});
after(async () => {
  await browser.close();
  await server.stop();
});

async function open(t, hash, options) {
  const page = await openPage(browser, options);
  t.after(() => page.context().close());
  await page.goto(`${server.base}/ui#${hash}`);
  return page;
}

/** Tasks of a command that died of these reasons. */
async function dead(command, reasons) {
  const ids = [];
  for (const reason of reasons) {
    const task = await server.create(command, {}, { maxAttempts: 1 });
    await server.claim(command);
    await server.call("POST", `/tasks/${task.id}/nack`, { reason });
    ids.push(task.id);
  }
  return ids;
}

// Every hex id that ended in a letter made a cause of its own.
test("forty errors of two causes are two rows", async (t) => {
  const reasons = Array.from({ length: 40 }, (_, n) =>
    n % 2 ? `charge ch_${(n * 37).toString(16)} declined` : `no customer ${(n * 3571).toString(16)}`,
  );
  await dead("charges", reasons);
  const page = await open(t, "/dead?command=charges");
  const causes = page.getByRole("region", { name: "Causes of dead letters" }).locator("tbody tr");
  await causes.nth(1).waitFor();
  assert.equal(await causes.count(), 2);
  await causes.filter({ hasText: "declined" }).getByRole("button", { name: /Replay/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("20 tasks will be put back").waitFor();
  await dialog.locator("dd", { hasText: "charges" }).waitFor();
  await dialog.locator("dd", { hasText: "charge ch_<n> declined" }).waitFor();
  await dialog.getByRole("button", { name: "Replay" }).click();
  await page.locator(".operations li", { hasText: "charge ch_<n> declined" }).waitFor();
  assert.deepEqual(page.troubles, []);
});

test("a traceback keeps its lines and is shown once", async (t) => {
  const trace = 'Traceback (most recent call last):\n  File "worker.py", line 7, in run\n    pay()\nPaymentError: declined';
  const [id] = await dead("traced", [trace]);
  const page = await open(t, `/tasks/${id}`);
  const block = page.locator("pre.trace");
  await block.waitFor();
  assert.equal(await block.count(), 1);
  assert.equal(await block.textContent(), trace);
  assert.match(await block.evaluate((node) => getComputedStyle(node).fontFamily), /mono/i);
  await page.locator("#summary", { hasText: "ran out of attempts: PaymentError: declined" }).waitFor();
  const text = await page.locator("main").textContent();
  assert.equal(text.split("Traceback").length - 1, 1);
});

test("dead letters found by a search are replayed, not cancelled", async (t) => {
  await dead("found", ["disk full on a", "disk full on b", "no route"]);
  const page = await open(t, "/search?command=found&place=dead&error=disk");
  await page.getByText("2 tasks", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: /Cancel matching/ }).count(), 0);
  await page.getByRole("button", { name: "Replay matching…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("2 tasks will be put back").waitFor();
  await dialog.getByRole("button", { name: "Replay" }).click();
  await page.locator(".operations li").getByText("2 of 2 · done").waitFor();
  const { ready, dlq } = await server.queue("found");
  assert.deepEqual([ready, dlq], [2, 1]);
  await page.goto(`${server.base}/ui#/search?status=COMPLETED`);
  await page.getByText("No task matches.").waitFor();
  assert.equal(await page.getByRole("button", { name: /matching/ }).count(), 0);
});

test("rows are selected and replayed together, and a search follows what happens", async (t) => {
  await dead("chosen", ["a", "b", "c"]);
  await server.create("chosen", { live: true });
  const page = await open(t, "/search?command=chosen");
  const rows = page.getByRole("region", { name: "Tasks found" }).locator("tbody tr");
  await rows.nth(3).waitFor();
  await page.getByLabel("Select all tasks shown").check();
  await page.getByText("4 tasks selected").waitFor();
  await page.getByRole("button", { name: "Replay…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("3 selected tasks will be put back").waitFor();
  await dialog.getByRole("button", { name: "Replay" }).click();
  await page.getByText("Replay: 3 tasks done.").waitFor();
  await page.waitForFunction(() => document.querySelectorAll("tbody .state-ready").length === 4);
  await rows.first().getByRole("checkbox").check();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await dialog.getByRole("button", { name: "Cancel", exact: true }).last().click();
  await page.getByText("Cancel: 1 task done.").waitFor();
  await server.create("chosen", { later: true });
  await page.waitForFunction(() => document.querySelectorAll("tbody .state-ready").length === 4);
  assert.deepEqual(page.troubles, []);
});

test("the id of a task is copied, and the way back leads over its queue", async (t) => {
  const task = await server.create("crumbs");
  const page = await open(t, `/tasks/${task.id}`);
  await page.getByRole("button", { name: "Copy id" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), task.id);
  await page.evaluate(() => navigator.clipboard.writeText(""));
  await page.locator("main").press("c");
  await page.waitForFunction(async (id) => (await navigator.clipboard.readText()) === id, task.id);
  await page.getByRole("navigation", { name: "Breadcrumb" }).getByRole("link", { name: "crumbs" }).click();
  await page.getByRole("heading", { name: "crumbs" }).waitFor();
});

test("the overview says what needs attention", async (t) => {
  await server.createMany("halted", 3);
  await server.call("POST", "/admin/queues/halted/pause");
  await dead("broken", ["x"]);
  const page = await open(t, "/");
  const list = page.getByRole("region", { name: "Needs attention" });
  await list.getByText("is paused; 3 tasks waiting").waitFor();
  await list.locator("li", { hasText: "broken" }).getByText("has 1 dead letter").waitFor();
  for (let n = 0; n < 3; n += 1) await server.create("failing");
  for (const { id } of await server.claim("failing", 3))
    await server.call("POST", `/tasks/${id}/result`, { status: "FAILED", error: "no such image" });
  await list.locator("li", { hasText: "failing" }).getByText("fails: 3 of 3 tasks in 15 minutes").waitFor();
});

test("what goes wrong in a queue is named by the rules of the alerts", async (t) => {
  const page = await open(t, "/");
  const told = await page.evaluate(async () => {
    const { problemOf } = await import("/ui/views/attention.js");
    const quiet = { command: "q", ready: 0, inProgress: 0, dlq: 0, paused: false };
    return [
      problemOf(quiet),
      problemOf({ ...quiet, ready: 4, oldestReadyAgeSeconds: 45 }),
      problemOf({ ...quiet, ready: 4, oldestReadyAgeSeconds: 65 })[1],
      problemOf({ ...quiet, ready: 4, inProgress: 2, oldestReadyAgeSeconds: 400 }),
      problemOf({ ...quiet, ready: 4, inProgress: 2, oldestReadyAgeSeconds: 1000 })[1],
      problemOf({ ...quiet, ready: 500, inProgress: 2, history: { createdPerSecond: 9, endedPerSecond: 2 } })[1],
      problemOf({ ...quiet, ready: 9, inProgress: 2, limited: 7, oldestReadyAgeSeconds: 65 })[1],
      problemOf({ ...quiet, history: { ended: [40, 20], failed: [1, 4] } }),
      problemOf({ ...quiet, history: { ended: [20, 20], failed: [1, 4] } })[1],
    ];
  });
  assert.deepEqual(told, [
    null,
    null,
    "has no worker: 4 tasks ready, the oldest for 1m 5s",
    null,
    "is behind: the oldest of 4 tasks has waited 16m 40s",
    "grows: 9/s in, 2/s out, 500 ready",
    "has reached a limit of its policy: 7 tasks held back, the oldest for 1m 5s",
    null,
    "fails: 5 of 40 tasks in 15 minutes",
  ]);
});

// "16m 40s" read "6m 40s".
for (const width of [390, 1440]) {
  test(`no label of a chart is cut at ${width} pixels`, async (t) => {
    const page = await open(t, "/");
    await page.setViewportSize({ width, height: 900 });
    const cut = await page.evaluate(async () => {
      const { chart } = await import("/ui/chart.js");
      const { millis } = await import("/ui/format.js");
      const made = chart({ title: "Long", series: [{ name: "p95", kind: "warn" }], format: millis });
      document.querySelector("main").append(made.node);
      made.update({ from: 0, to: 3_600_000, start: 0, step: 1_800_000, lines: [[0, 1_000_000, 500_000]] });
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      const box = made.node.querySelector("svg").getBoundingClientRect();
      const labels = [...made.node.querySelectorAll("text.label")];
      const isInside = (own) =>
        own.left >= box.left && own.right <= box.right && own.top >= box.top && own.bottom <= box.bottom;
      if (labels.length < 4) return ["there are too few labels"];
      return labels.filter((label) => !isInside(label.getBoundingClientRect())).map((label) => label.textContent);
    });
    assert.deepEqual(cut, []);
  });
}

// "Last 15 min" stood in a quarter of the width: "Last" alone, and the rest below.
test("labels of a queue's card stand on one line at 390 pixels", async (t) => {
  await server.create("narrow");
  const page = await open(t, "/");
  await page.setViewportSize({ width: 390, height: 844 });
  const cell = page.locator("tbody tr td.spark-cell").first();
  await cell.waitFor();
  const [row, own] = await cell.evaluate((node) => [node.parentElement.clientWidth, node.clientWidth]);
  assert.ok(own > row * 0.8, `${own} of ${row} pixels`);
});

test("failed callbacks are redelivered together", async (t) => {
  const failing = await Server.serve({
    env: "dev",
    producerAuthProvider: "static",
    producerAuthConfig: { token: "t", subject: "s", scopes: ["codeq:admin"], raw: { role: "ADMIN", tenantId: "acme" } },
    allowProducerAsWorker: true,
    resultWebhookMaxAttempts: 1,
  });
  t.after(() => failing.stop());
  for (let n = 0; n < 2; n += 1) {
    const task = await failing.call("POST", "/tasks", { command: "hook", payload: 1, webhook: "http://127.0.0.1:9/x" }, "t");
    await failing.call("POST", "/tasks/claim", { commands: ["hook"] }, "t");
    await failing.call("POST", `/tasks/${task.id}/result`, { status: "COMPLETED", result: {} }, "t");
  }
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${failing.base}/ui#/webhooks?state=failed`);
  await page.getByLabel("Token").fill("t");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("2 callbacks", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Redeliver all failed…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Shown: 2 callbacks to 127.0.0.1:9.").waitFor();
  await dialog.getByRole("button", { name: "Redeliver" }).click();
  await page.getByText("2 callbacks will be delivered again.").waitFor();
});

// Failed work was mixed with completed work under "Done".
test("failed tasks of a queue have a tab of their own", async (t) => {
  const [good, bad] = [await server.create("mixed"), await server.create("mixed")];
  await server.claim("mixed", 2);
  await server.complete(good);
  await server.call("POST", `/tasks/${bad.id}/result`, { status: "FAILED", error: "no such image" });
  const page = await open(t, "/queues/mixed");
  const rows = page.getByRole("region", { name: "Tasks of mixed" }).locator("tbody tr");
  await page.getByRole("button", { name: "Failed", exact: true }).click();
  await rows.filter({ hasText: "no such image" }).waitFor();
  assert.equal(await rows.count(), 1);
  await page.getByRole("button", { name: "Completed", exact: true }).click();
  await rows.filter({ hasText: good.id.slice(0, 8) }).waitFor();
  assert.equal(await rows.count(), 1);
});
