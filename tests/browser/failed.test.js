import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./page.js";
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
