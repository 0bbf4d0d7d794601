import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./page.js";
import { Server, TOKEN } from "./server.js";

let browser;
let server;
before(async () => {
  [browser, server] = await Promise.all([openBrowser(), Server.dev()]);
});
after(async () => {
  await browser.close();
  await server.stop();
});

async function openDocs(t) {
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${server.base}/docs`);
  await page.locator(".op").first().waitFor();
  return page;
}

/** Opens folds until no closed one is left; folds build their content, with more folds, when they open. */
async function expandAll(section) {
  for (let round = 0; round < 8; round += 1) {
    const closed = await section.locator("details:not([open]) > summary").count();
    if (closed === 0) return;
    await section.evaluate((node) => {
      for (const fold of node.querySelectorAll("details:not([open])")) fold.open = true;
    });
    await section.page().waitForTimeout(0);
  }
  throw new Error("folds within folds without end");
}

// The page was one error box for everyone: it took the body of every operation for JSON, and the import of
// tasks has another type.
test("every operation of the description is shown and can be expanded", async (t) => {
  const described = await (await fetch(`${server.base}/openapi.json`)).json();
  const ids = Object.values(described.paths).flatMap((item) =>
    Object.values(item)
      .map((operation) => operation.operationId)
      .filter(Boolean),
  );
  assert.ok(ids.length > 50);
  const page = await openDocs(t);
  assert.equal(await page.locator(".op").count(), ids.length);
  for (const id of ids) {
    const section = page.locator(`#${id}`);
    await expandAll(section);
    assert.ok((await section.locator("details .body").count()) > 0, `${id} has responses`);
  }
  assert.equal(await page.locator("#content [role=alert]").count(), 0);
  await page.locator("#importTasks").getByText("application/octet-stream").first().waitFor();
  assert.deepEqual(page.troubles, []);
});

async function tryIt(page, id, { body, parameters = {} }) {
  const section = page.locator(`#${id}`);
  for (const [name, value] of Object.entries(parameters))
    await section.getByLabel(name, { exact: false }).first().fill(value);
  if (body) await section.getByLabel("Body").fill(JSON.stringify(body));
  await section.getByRole("button", { name: "Try it" }).click();
  await section.locator("[aria-live=polite] .status").waitFor();
  return {
    status: Number.parseInt(await section.locator("[aria-live=polite] .status").textContent(), 10),
    text: await section.locator("[aria-live=polite] pre").last().textContent(),
  };
}

test("a task is created, claimed and finished from the page", async (t) => {
  const page = await openDocs(t);
  await page.locator("#token").fill(TOKEN);
  const created = await tryIt(page, "createTask", { body: { command: "docs", payload: { n: 1 } } });
  assert.equal(created.status, 202, created.text);
  const { id } = JSON.parse(created.text);
  const claimed = await tryIt(page, "claimTask", { body: { commands: ["docs"] } });
  assert.equal(claimed.status, 200, claimed.text);
  assert.equal(JSON.parse(claimed.text).id, id);
  const finished = await tryIt(page, "submitResult", {
    body: { status: "COMPLETED", result: { ok: true } },
    parameters: { id },
  });
  assert.equal(finished.status, 200, finished.text);
  assert.equal((await server.call("GET", `/tasks/${id}`)).status, "COMPLETED");
  assert.ok((await page.locator("#submitResult .side-panel pre").first().textContent()).includes(id), "curl has the id");
  assert.deepEqual(page.troubles, []);
});

test("events are shown as they come, until the reader stops them", async (t) => {
  const page = await openDocs(t);
  await page.locator("#token").fill(TOKEN);
  const section = page.locator("#listenToEvents");
  await section.getByRole("button", { name: "Try it" }).click();
  await section.locator("[aria-live=polite] .status").waitFor();
  await server.create("seen");
  await section.locator("[aria-live=polite] pre", { hasText: "seen" }).waitFor();
  await section.getByRole("button", { name: "Stop" }).click();
  await section.getByText("Stopped.").waitFor();
});
