import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./page.js";
import { Server, TOKEN } from "./server.js";

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

async function claimAs(server, worker, body) {
  const response = await fetch(`${server.base}/v1/codeq/tasks/claim`, {
    method: "POST",
    headers: { Authorization: `Bearer ${TOKEN}`, "Codeq-Worker": worker },
    body: JSON.stringify(body),
  });
  return response.status === 200 ? response.json() : null;
}

test("workers are listed with what they have in hand", async (t) => {
  const server = await Server.dev();
  t.after(() => server.stop());
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${server.base}/ui#/workers`);
  await page.getByText("No worker was heard of within the last five minutes.").waitFor();
  await server.create("render");
  const info = { host: "host-7", pid: 1, sdk: "python", version: "0.1.0", slots: 4 };
  const task = await claimAs(server, "worker-a", { commands: ["render"], worker: info });
  await claimAs(server, "worker-b", {});
  const rowOf = (name) => page.locator("tbody tr", { hasText: name });
  const row = rowOf("worker-a");
  await row.waitFor();
  assert.match(await row.textContent(), /render.*1 of 4.*host-7.*python 0\.1\.0/s);
  await rowOf("worker-b").waitFor();
  await row.getByRole("link", { name: new RegExp(task.id.slice(0, 8)) }).click();
  await page.getByRole("heading", { name: new RegExp(task.id.slice(0, 8)) }).waitFor();
  assert.deepEqual(page.troubles, []);
});
