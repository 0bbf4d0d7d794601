import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./page.js";
import { Server } from "./server.js";

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

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
  assert.deepEqual(page.troubles, []);
});
