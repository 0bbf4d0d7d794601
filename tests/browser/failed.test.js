import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage, rowOf, waitFigure } from "./page.js";
import { Server } from "./server.js";

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

async function fail(server, command, error) {
  await server.create(command);
  const [task] = await server.claim(command);
  await server.submit([{ taskId: task.id, status: "FAILED", error }]);
  return task;
}

test("failed tasks are grouped by cause, and one cause is replayed", async (t) => {
  const server = await Server.dev();
  t.after(() => server.stop());
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await fail(server, "bill", "card 17 declined");
  await fail(server, "bill", "card 18 declined");
  await fail(server, "bill", "no such order");
  await page.goto(`${server.base}/ui#/failed`);
  await page.getByRole("heading", { name: "Failed", exact: true }).waitFor();
  const cause = page.locator("tbody tr", { hasText: "card <n> declined" });
  await cause.waitFor();
  assert.equal(await cause.getByRole("button", { name: /^Delete/ }).count(), 0);
  await cause.getByRole("button", { name: /^Replay/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("2 tasks", { exact: false }).waitFor();
  await dialog.getByRole("button", { name: "Replay", exact: true }).click();
  await cause.waitFor({ state: "detached" });
  assert.equal((await server.queue("bill")).ready, 2);
  assert.deepEqual(page.troubles, []);
});

test("failed work is counted beside dead letters, and the count leads to its causes", async (t) => {
  const server = await Server.dev();
  t.after(() => server.stop());
  const page = await openPage(browser);
  t.after(() => page.context().close());
  for (const order of [1, 2]) await fail(server, "bill", `no such order ${order}`);
  const [cancelled, held] = [await server.create("bill"), await server.create("first")];
  await server.call("POST", `/admin/tasks/${cancelled.id}/cancel`);
  await server.create("bill", {}, { after: [held.id] });
  await page.goto(`${server.base}/ui`);
  await waitFigure(page, "failed", 2);
  const row = await rowOf(page, "bill");
  assert.deepEqual([row.Ready, row.Dead, row.Failed], ["0", "0", "2"]);
  await page.locator('tbody tr:has(th a:text-is("bill"))').getByRole("link", { name: "2", exact: true }).click();
  await page.locator("tbody tr", { hasText: "no such order <n>" }).waitFor();
  await page.goto(`${server.base}/ui#/queues/bill`);
  await waitFigure(page, "failed", 2);
  await waitFigure(page, "held", 1);
  const tasks = page.getByRole("region", { name: "Tasks of bill" }).locator("tbody tr");
  for (const [tab, number] of [["Failed", 2], ["Cancelled", 1], ["Held", 1]]) {
    await page.getByRole("button", { name: tab, exact: true }).click();
    await page.getByText(number === 1 ? "1 task" : `${number} tasks`, { exact: true }).waitFor();
    assert.equal(await tasks.count(), number, tab);
  }
  assert.deepEqual(page.troubles, []);
});
