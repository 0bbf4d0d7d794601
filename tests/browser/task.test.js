import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
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

async function open(t, id) {
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${server.base}/ui#/tasks/${id}`);
  return page;
}

async function summary(page, text) {
  await page.locator("#summary", { hasText: text }).waitFor();
}

test("why a task is where it is, for every state", async (t) => {
  const ready = await server.create("ready");
  const delayed = await server.create("delayed", {}, { delaySeconds: 3600 });
  const running = await server.create("running");
  await server.claim("running");
  const completed = await server.create("completed");
  await server.claim("completed");
  await server.complete(completed, { pages: 12 });
  const failed = await server.create("failed");
  await server.claim("failed");
  await server.call("POST", `/tasks/${failed.id}/result`, { status: "FAILED", error: "bad input" });
  const dead = await server.create("dead", {}, { maxAttempts: 1 });
  await server.claim("dead");
  await server.call("POST", `/tasks/${dead.id}/nack`, { reason: "no route to host" });
  const cancelled = await server.create("cancelled");
  await server.call("POST", `/admin/tasks/${cancelled.id}/cancel`);

  const page = await open(t, ready.id);
  const expected = [
    [ready, /No worker has claimed from this queue/],
    [delayed, /The task is scheduled for/],
    [running, /runs attempt 1 and holds the lease until/],
    [completed, /The task is completed/],
    [failed, /failed the task for good: bad input/],
    [dead, /ran out of attempts: .*no route to host/],
    [cancelled, /An operator cancelled the task/],
  ];
  for (const [task, text] of expected) {
    await page.goto(`${server.base}/ui#/tasks/${task.id}`);
    await page.getByRole("heading", { name: task.id }).waitFor();
    await summary(page, text);
  }
  await page.goto(`${server.base}/ui#/tasks/${completed.id}`);
  await page.getByRole("region", { name: "Result" }).getByText('"pages": 12').waitFor();
  await page.goto(`${server.base}/ui#/tasks/${dead.id}`);
  await page.locator(".timeline li").filter({ hasText: "Attempt 1" }).filter({ hasText: "nack" }).waitFor();
  await page.getByRole("button", { name: "Replay" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Replay" }).click();
  await page.locator("h1 .badge", { hasText: "ready" }).waitFor();
  await page.getByRole("button", { name: "Cancel task" }).click();
  await page.getByRole("dialog").getByText("1 task will be cancelled").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel task" }).click();
  await summary(page, /An operator cancelled the task/);
  assert.deepEqual(page.troubles, []);
});

test("a task page follows its task without a reload", async (t) => {
  const task = await server.create("followed");
  const page = await open(t, task.id);
  await page.locator("h1 .badge", { hasText: "ready" }).waitFor();
  await server.claim("followed");
  await page.locator("h1 .badge", { hasText: "running" }).waitFor();
  await server.complete(task, { big: 1 });
  await page.locator("h1 .badge", { hasText: "completed" }).waitFor();
  await page.getByText('"big": 1').waitFor();
});

test("a payload with markup and a megabyte of text is shown inert, cut, and whole on request", async (t) => {
  const markup = '<script>window.hacked = true</script><img src=x onerror="window.hacked = true">';
  const task = await server.create("markup", { markup, text: "word ".repeat(200_000) });
  await server.claim("markup");
  await server.call("POST", `/tasks/${task.id}/nack`, { reason: markup, delaySeconds: 3600 });
  const page = await open(t, task.id);
  const payload = page.getByRole("region", { name: "Payload" }).locator(".code");
  await payload.waitFor();
  assert.ok((await payload.textContent()).includes(markup.replaceAll('"', '\\"')));
  assert.ok((await payload.textContent()).length < 20_000);
  const started = performance.now();
  await page.getByRole("button", { name: "Show all of payload" }).click();
  await page.waitForFunction(() => document.querySelector(".code").textContent.length > 1_000_000);
  const took = performance.now() - started;
  console.log(`a payload of 1 MB shown whole after ${took.toFixed(0)} ms`);
  await page.locator(".timeline", { hasText: markup }).waitFor();
  await page.goto(`${server.base}/ui#/search?command=markup`);
  await page.getByText(markup).first().waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("main script, main img").count(), 0);
  assert.deepEqual(page.troubles, []);
});

test("numbers that a double cannot hold are shown as they were sent", async (t) => {
  const payload = '{"id":9007199254740993,"price":1.10}';
  const response = await fetch(`${server.base}/v1/codeq/tasks`, {
    method: "POST",
    headers: { Authorization: "Bearer dev-token" },
    body: `{"command":"exact","payload":${payload}}`,
  });
  const page = await open(t, (await response.json()).id);
  await page.getByText('"id": 9007199254740993').waitFor();
  await page.getByText('"price": 1.10').waitFor();
});

test("files of a result are downloaded with the token", async (t) => {
  const task = await server.create("files");
  await server.claim("files");
  const artifacts = [
    {
      name: "report.txt",
      contentBase64: Buffer.from("all is well").toString("base64"),
      contentType: "text/plain",
    },
  ];
  await server.call("POST", `/tasks/${task.id}/result`, {
    status: "COMPLETED",
    result: { ok: true },
    artifacts,
  });
  const page = await open(t, task.id);
  const arrived = page.waitForEvent("download");
  await page.getByRole("button", { name: "report.txt" }).click();
  const download = await arrived;
  assert.equal(download.suggestedFilename(), "report.txt");
  assert.equal(readFileSync(await download.path(), "utf8"), "all is well");
  assert.deepEqual(page.troubles, []);
});

test("an unknown id is said to be unknown", async (t) => {
  const page = await open(t, "0b6f3f1e-53f5-4a3f-9f5a-0d6f6a0f2c11");
  await page.getByRole("heading", { name: "There is no such task" }).waitFor();
});
