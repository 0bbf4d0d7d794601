import assert from "node:assert/strict";
import { createServer } from "node:http";
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

async function open(t, hash) {
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${server.base}/ui#${hash}`);
  return page;
}

test("a batch shows its progress and members, is closed and cancelled", async (t) => {
  const batch = await server.call("POST", "/batches", { name: "night import" });
  const first = await server.create("rows", {}, { batchId: batch.id });
  await server.create("rows", {}, { batchId: batch.id });
  await server.claim("rows");
  await server.complete(first);

  const page = await open(t, "/batches");
  const row = page.getByRole("region", { name: "Batches of recent tasks" }).locator("tbody tr");
  await row.filter({ hasText: "night import" }).filter({ hasText: "50 %, 1 task left" }).waitFor();
  await page.getByLabel("Batch id").fill(batch.id);
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { name: batch.id }).waitFor();
  await page.locator("h1 .badge", { hasText: "open" }).waitFor();
  const members = page.getByRole("region", { name: "Members of this batch" }).locator("tbody tr");
  await members.nth(1).waitFor();
  assert.equal(await members.count(), 2);

  await page.getByRole("button", { name: "Close", exact: true }).click();
  await page.getByRole("dialog").getByText("1 live task now.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await page.locator("h1 .badge", { hasText: "closed" }).waitFor();
  await page.getByRole("button", { name: "Cancel batch" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel batch" }).click();
  await page.locator("h1 .badge", { hasText: "failed, cancelled" }).waitFor();
  await page.getByText("100 %, 0 tasks left").waitFor();
  await page.goto(`${server.base}/ui#/batches/${"0".repeat(8)}-0000-4000-8000-000000000000`);
  await page.getByText("There is no such batch").waitFor();
});

test("a task shows what it waited for and what waits for it", async (t) => {
  const first = await server.create("first");
  const second = await server.create("second", {}, { after: [first.id] });
  const third = await server.create("third", {}, { after: [second.id] });
  const page = await open(t, `/tasks/${second.id}`);
  await page.locator("h1 .badge", { hasText: "held" }).waitFor();
  const graph = page.getByRole("region", { name: "Dependencies" });
  await graph.getByRole("link", { name: first.id.slice(0, 8) }).waitFor();
  await graph.getByText("Waiting for it").waitFor();
  await graph.getByRole("link", { name: third.id.slice(0, 8) }).click();
  await page.getByRole("heading", { name: third.id }).waitFor();
  assert.deepEqual(page.troubles, []);
});

test("a delayed task runs now", async (t) => {
  const task = await server.create("later", {}, { delaySeconds: 3600 });
  const page = await open(t, `/tasks/${task.id}`);
  await page.getByRole("button", { name: "Run now" }).click();
  await page.locator("h1 .badge", { hasText: "ready" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Run now" }).count(), 0);
  assert.deepEqual(page.troubles, []);
});

test("a running task shows progress and checkpoint, and is asked to stop with grace", async (t) => {
  const task = await server.create("long");
  await server.claim("long");
  await server.call("POST", `/tasks/${task.id}/heartbeat`, {
    progress: { done: 2, total: 8 },
    checkpoint: { row: 41_007 },
  });
  const page = await open(t, `/tasks/${task.id}`);
  const bar = page.getByRole("progressbar", { name: "Progress" });
  await bar.waitFor();
  assert.equal(await bar.getAttribute("value"), "0.25");
  await page.getByRole("region", { name: "Checkpoint" }).first().getByText("41007").waitFor();
  await page.getByRole("button", { name: "Cancel task" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Grace in seconds").fill("600");
  await dialog.getByLabel("Reason").fill("order withdrawn");
  await dialog.getByRole("button", { name: "Cancel task" }).click();
  await page.locator(".why", { hasText: "was asked to stop" }).waitFor();
  await page.locator("h1 .badge", { hasText: "running" }).waitFor();
  assert.deepEqual(page.troubles, []);
});

test("delivered callbacks show what the receiver answered", async (t) => {
  const receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(202).end("thank you");
  });
  await new Promise((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  t.after(() => receiver.close());
  const webhook = `http://127.0.0.1:${receiver.address().port}/done`;
  const task = await server.create("hook", {}, { webhook });
  await server.claim("hook");
  await server.complete(task);
  const page = await open(t, "/webhooks?state=delivered");
  const row = page.locator("tbody tr").filter({ hasText: task.id.slice(0, 8) });
  await row.filter({ hasText: "202" }).waitFor();
  await row.getByRole("button", { name: "Response of" }).click();
  await page.getByRole("dialog").getByText("thank you").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await page.goto(`${server.base}/ui#/tasks/${task.id}`);
  await page.getByRole("region", { name: "Callbacks" }).first().getByText("delivered").first().waitFor();
  assert.deepEqual(page.troubles, []);
});
