import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage, waitFigure } from "./page.js";
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

test("a queue is paused and resumed", async (t) => {
  await server.createMany("pausing", 3);
  const page = await open(t, "/queues/pausing");
  await waitFigure(page, "ready", 3);
  await page.getByRole("button", { name: "Pause" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("3 ready tasks will wait").waitFor();
  await dialog.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).waitFor();
  assert.equal((await server.queue("pausing")).paused, true);
  assert.deepEqual(await server.claim("pausing"), []);
  await page.getByRole("button", { name: "Resume" }).click();
  await dialog.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  assert.equal((await server.queue("pausing")).paused, false);
  const [task] = await server.claim("pausing");
  await waitFigure(page, "inProgress", 1);
  await page
    .locator("section", { hasText: "Workers" })
    .locator("tbody th", { hasText: task.workerId })
    .first()
    .waitFor();
  assert.deepEqual(page.troubles, []);
});

test("dead letters are grouped by cause, and one cause is replayed while its progress is shown", async (t) => {
  await server.createMany("import", 120, () => ({ maxAttempts: 1 }));
  const tasks = [...(await server.claim("import", 100)), ...(await server.claim("import", 20))];
  for (const [index, task] of tasks.entries()) {
    const cause =
      index % 4 === 0
        ? `timeout after ${30 + index} s`
        : index % 4 === 1
          ? `no such file "/data/${index}.csv"`
          : null;
    if (cause) await server.call("POST", `/tasks/${task.id}/nack`, { reason: cause });
    else await server.complete(task);
  }
  const page = await open(t, "/dead?command=import");
  const causes = page.getByRole("region", { name: "Causes of dead letters" }).locator("tbody tr");
  await causes.nth(1).waitFor();
  assert.equal(await causes.count(), 2);
  const counts = await causes
    .locator("td")
    .evaluateAll((cells) =>
      cells.filter((cell) => cell.dataset.label === "Count").map((cell) => cell.textContent),
    );
  assert.deepEqual(counts, ["30", "30"]);
  const timeouts = causes.filter({ hasText: "timeout" });
  assert.equal(await timeouts.locator(".examples a").count(), 3);
  await timeouts.getByRole("button", { name: /Replay/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("30 tasks will be put back into their queue").waitFor();
  await dialog.getByLabel(/Tasks per second/).fill("15");
  await dialog.getByRole("button", { name: "Replay" }).click();
  const work = page.locator(".operations li").first();
  await page.waitForFunction(() => {
    const text = document.querySelector(".operation-text")?.textContent ?? "";
    const [, done] = /^(\d+) of 30/.exec(text) ?? [];
    return Number(done) > 0 && Number(done) < 30 && text.includes("running");
  });
  await work.getByText("30 of 30 · done").waitFor();
  await page.waitForFunction(
    () => document.querySelectorAll('[aria-label="Causes of dead letters"] tbody tr').length === 1,
  );
  const queue = await server.queue("import");
  assert.deepEqual([queue.ready, queue.dlq], [30, 30]);
  await causes.getByRole("button", { name: /Delete/ }).click();
  await dialog.getByText("30 tasks will be deleted permanently").waitFor();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("No dead letters.").waitFor();
  assert.equal((await server.queue("import")).dlq, 0);
  assert.deepEqual(page.troubles, []);
});

test("a search by error text survives a reload and goes on page by page", async (t) => {
  await server.createMany("sync", 250, () => ({ maxAttempts: 1 }));
  await server.work("sync", (task) => ({ taskId: task.id, status: "FAILED", error: "Disk Full on host 7" }));
  await server.create("sync");
  const page = await open(t, "/search");
  await page.getByLabel("Error contains").fill("disk full");
  await page.getByLabel("Queue", { exact: true }).fill("sync");
  await page.getByRole("button", { name: "Search" }).click();
  const rows = page.getByRole("region", { name: "Tasks found" }).locator("tbody tr");
  await rows.nth(99).waitFor();
  await page.getByRole("button", { name: "Load more" }).click();
  await rows.nth(199).waitFor();
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByText("250 tasks", { exact: true }).waitFor();
  assert.match(page.url(), /#\/search\?.*error=disk\+full/);
  await page.reload();
  await rows.nth(99).waitFor();
  assert.equal(await page.getByLabel("Error contains").inputValue(), "disk full");
  assert.match(await rows.first().textContent(), /Disk Full on host 7/);
  assert.deepEqual(page.troubles, []);
});

test("events are shown as they happen, filtered and paused", async (t) => {
  const page = await open(t, "/live?command=tailed");
  await page.getByText(/Listening/).waitFor();
  await server.create("tailed");
  await server.create("unseen");
  const rows = page.locator(".events li");
  await rows.filter({ hasText: "created" }).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await server.claim("tailed");
  await page.getByText("Paused, 1 waiting").waitFor();
  assert.equal(await rows.count(), 1);
  await page.getByRole("button", { name: "Resume" }).click();
  await rows.filter({ hasText: "claimed" }).waitFor();
  assert.equal(await rows.count(), 2);
  assert.equal(await rows.filter({ hasText: "unseen" }).count(), 0);
  assert.deepEqual(page.troubles, []);
});
