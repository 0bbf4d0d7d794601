import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./page.js";
import { Server } from "./server.js";

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

test("a policy is put, corrected and deleted, and lanes are seen", async (t) => {
  const server = await Server.dev();
  t.after(() => server.stop());
  const page = await openPage(browser);
  t.after(() => page.context().close());
  for (const lane of ["acme", "acme", "umbrella"]) {
    await server.call("POST", "/tasks", { command: "mail", payload: 1, lane });
  }
  await page.goto(`${server.base}/ui#/queues/mail`);
  const limits = page.getByRole("region", { name: "Limits and lanes" });
  await limits.getByText("No policy").waitFor();
  const acme = limits.locator("tbody tr", { hasText: "acme" });
  assert.match(await acme.textContent(), /acme.*2.*0.*1.*–/s);
  await limits.getByRole("button", { name: "Edit" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Policy as JSON").fill('{"concurency": 1}');
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("invalid concurency: is not a known field").waitFor();
  await dialog.getByLabel("Policy as JSON").fill('{"lanes": {"concurrency": 1}}');
  await dialog.getByRole("button", { name: "Save" }).click();
  await limits.locator("pre", { hasText: '"concurrency": 1' }).waitFor();
  await server.call("POST", "/tasks/claim", { commands: ["mail"] });
  await acme.getByText("its limit of running tasks").waitFor();
  await limits.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await limits.getByText("No policy").waitFor();
  assert.deepEqual(page.troubles.filter((trouble) => !/40[049]|422/.test(String(trouble))), []);
});
