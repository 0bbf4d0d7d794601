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

async function open(t, hash) {
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${server.base}/ui#${hash}`);
  return page;
}

test("what operators did is listed, newest first, and filtered by verb and person", async (t) => {
  await server.create("mail");
  await server.call("POST", "/admin/queues/mail/pause");
  await server.call("POST", "/admin/queues/mail/resume");
  await server.call("POST", "/admin/tasks/cancel", { filter: { command: "mail" } });
  const page = await open(t, "/audit");
  const rows = page.getByRole("region", { name: "What operators did" }).locator("tbody tr");
  await page.getByText("3 records", { exact: true }).waitFor();
  const verbs = await rows
    .locator("td")
    .evaluateAll((cells) => cells.filter((cell) => cell.dataset.label === "Did").map((cell) => cell.textContent));
  assert.deepEqual(verbs, ["cancel", "resume", "pause"]);
  await page.getByLabel("Verb").selectOption("pause");
  await page.getByText("1 record", { exact: true }).waitFor();
  await rows.filter({ hasText: "queues/mail" }).filter({ hasText: "producer-dev" }).waitFor();
  assert.match(page.url(), /verb=pause/);
  await page.reload();
  await page.getByText("1 record", { exact: true }).waitFor();
  await rows.getByRole("link", { name: "producer-dev" }).click();
  await page.getByText("3 records", { exact: true }).waitFor();
  await page.getByLabel("Who").fill("somebody else");
  await page.getByLabel("Who").press("Enter");
  await page.getByText("No record matches.").waitFor();
  assert.deepEqual(page.troubles, []);
});

test("an operation names its cause, its queue and who asked for it, to everybody", async (t) => {
  for (let n = 0; n < 3; n += 1) {
    await server.create("bill", {}, { maxAttempts: 1 });
    const [task] = await server.claim("bill");
    await server.call("POST", `/tasks/${task.id}/nack`, { reason: `card ${n} declined` });
  }
  const [cause] = (await server.call("GET", "/admin/dlq/bill/groups")).groups;
  await server.call("POST", "/admin/dlq/bill/requeue", { group: cause.group });
  const page = await open(t, "/dead");
  const work = page.locator(".operations li").filter({ hasText: "Replay" });
  await work.getByText("3 of 3 · done").waitFor();
  await work.getByText("bill · card <n> declined · by producer-dev").waitFor();
});
