import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./page.js";
import { Server } from "./server.js";

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

test("a schedule is made, changed without losing what the form does not show, and deleted", async (t) => {
  const server = await Server.dev();
  t.after(() => server.stop());
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${server.base}/ui#/schedules`);
  await page.getByRole("button", { name: "New schedule…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("nightly");
  await dialog.getByLabel("Queue").fill("report");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText("Give either a cron expression or a number of seconds.").waitFor();
  await dialog.getByLabel("Cron").fill("30 2 29 2 *");
  await dialog.getByLabel("Time zone").fill("Europe/Berlin");
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByText("nightly is in force.").waitFor();
  const row = page.locator("tbody tr", { hasText: "nightly" });
  await row.waitFor();

  const big = "9007199254740993";
  const response = await fetch(`${server.base}/v1/codeq/schedules/nightly`, {
    method: "PUT",
    headers: { Authorization: "Bearer dev-token" },
    body: `{"cron":"30 2 29 2 *","timezone":"Europe/Berlin","jitterSeconds":7,"task":{"command":"report","payload":{"big":${big}},"priority":3}}`,
  });
  assert.equal(response.status, 200, await response.text());
  await row.getByRole("button", { name: "Change nightly" }).click();
  await dialog.getByLabel("Cron").fill("15 3 29 2 *");
  await dialog.getByRole("button", { name: "Change" }).click();
  await row.getByText("15 3 29 2 * (Europe/Berlin)").waitFor();
  const text = await (
    await fetch(`${server.base}/v1/codeq/schedules/nightly`, { headers: { Authorization: "Bearer dev-token" } })
  ).text();
  const { task, jitterSeconds } = JSON.parse(text);
  assert.deepEqual([jitterSeconds, task.priority, text.includes(big)], [7, 3, true]);

  await row.getByRole("button", { name: "Delete nightly" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("There are no schedules.").waitFor();
  assert.deepEqual(page.troubles, []);
});

test("schedules are listed, paused, resumed and triggered", async (t) => {
  const server = await Server.dev();
  t.after(() => server.stop());
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${server.base}/ui#/schedules`);
  await page.getByText("There are no schedules.").waitFor();
  await server.call("PUT", "/schedules/nightly", {
    cron: "30 2 29 2 *",
    timezone: "Europe/Berlin",
    task: { command: "report", payload: 1 },
  });
  const row = page.locator("tbody tr", { hasText: "nightly" });
  await row.waitFor();
  assert.match(await row.textContent(), /report.*30 2 29 2 \* \(Europe\/Berlin\).*on/s);
  await row.getByRole("button", { name: "Next nightly" }).click();
  await page.getByRole("heading", { name: "Next ticks of nightly" }).waitFor();
  assert.equal(await page.getByRole("dialog").getByRole("listitem").count(), 10);
  await page.getByRole("button", { name: "Close" }).click();
  await row.getByRole("button", { name: "Trigger nightly" }).click();
  await page.getByText("A task of nightly was made.").waitFor();
  await row.getByRole("button", { name: "Pause nightly" }).click();
  await page.getByLabel("Note").fill("upgrade");
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await row.getByText("paused").waitFor();
  await row.getByText("upgrade").waitFor();
  await row.getByRole("button", { name: "Resume nightly" }).click();
  await row.getByRole("button", { name: "Pause nightly" }).waitFor();
  await row.getByRole("link", { name: "nightly" }).click();
  const history = page.getByRole("region", { name: "Tasks found" }).locator("tbody tr");
  await history.filter({ hasText: "report" }).waitFor();
  assert.equal(await history.count(), 1);
  assert.deepEqual(page.troubles, []);
});
