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

const found = (page) => page.getByRole("region", { name: "Tasks found" }).locator("tbody tr");

test("filters are chips: typed with suggestions of queues, tags and lanes, and removed one by one", async (t) => {
  for (const [lane, tag] of [
    ["eu", "invoice"],
    ["us", "invoice"],
    ["us", "mail"],
  ])
    await server.create("chips", { lane }, { lane, tags: [tag, "all"] });
  const page = await open(t, "/search");
  const add = page.getByLabel("Add a filter");
  const suggested = page.locator("#filter-suggestions option");
  await page.locator('#filter-suggestions option[value="tag:invoice"]').waitFor({ state: "attached" });
  const offered = await suggested.evaluateAll((options) => options.map(({ value }) => value));
  for (const wanted of ["queue:chips", "lane:eu", "tag:mail", "state:dead"])
    assert.ok(offered.includes(wanted), wanted);

  await add.fill("tag:invoice");
  await page.keyboard.press("Enter");
  const chips = page.getByRole("list", { name: "Filters in use" });
  await chips.getByText("tag: invoice").waitFor();
  await page.getByText("2 tasks", { exact: true }).waitFor();
  await add.fill("lane: us");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("1 task", { exact: true }).waitFor();
  assert.match(page.url(), /tag=invoice&lane=us/);
  await page.getByRole("link", { name: "Remove filter tag: invoice" }).click();
  await page.getByText("2 tasks", { exact: true }).waitFor();
  assert.doesNotMatch(page.url(), /tag=/);

  await add.fill("nonsense");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("Write it as word:value.").waitFor();
});

/** Goes on with a search until it says this: on a busy machine a page looks at few payloads. */
const searched = (page, text) =>
  page.waitForFunction((wanted) => {
    const more = [...document.querySelectorAll("button")].find((one) => one.textContent === "Look further");
    if (more && !more.hidden && !more.disabled) more.click();
    return document.body.textContent.includes(wanted);
  }, text);

test("payloads are searched, and it is said how many were looked at", async (t) => {
  await server.createMany("needles", 300, (index) => ({ payload: { text: index % 100 === 7 ? "NEEDLE" : "hay" } }));
  const page = await open(t, "/search?command=needles");
  await page.getByLabel("Payload contains").fill("needle");
  await page.getByRole("button", { name: "Search" }).click();
  await searched(page, "3 tasks; 300 payloads looked at");
  assert.equal(await found(page).count(), 3);
  assert.equal(await page.getByRole("button", { name: "Cancel matching…" }).count(), 0);
  await page.getByLabel("Payload contains").fill("no such thing");
  await page.getByRole("button", { name: "Search" }).click();
  await searched(page, "0 tasks; 300 payloads looked at");
});

test("a search that found nothing yet is gone on with by hand, not for ever by itself", async (t) => {
  const page = await open(t, "/");
  let asked = 0;
  await page.route(/\/admin\/tasks\?.*payloadContains/, (route) => {
    asked += 1;
    const body = JSON.stringify({ items: [], next: asked < 3 ? `n${asked}` : null, examined: 50_000 });
    return route.fulfill({ contentType: "application/json", body });
  });
  await page.goto(`${server.base}/ui#/search?payloadContains=x`);
  await page.getByText("0 tasks so far; 50,000 payloads looked at").waitFor();
  await page.getByRole("button", { name: "Look further" }).click();
  await page.getByText("0 tasks so far; 100,000 payloads looked at").waitFor();
  await page.getByRole("button", { name: "Look further" }).click();
  await page.getByText("0 tasks; 150,000 payloads looked at").waitFor();
  assert.equal(asked, 3);
});

test("a view gets a name, is found again after a reload, and is forgotten", async (t) => {
  await server.create("viewed");
  const page = await open(t, "/search?command=viewed&order=oldest");
  await page.getByRole("button", { name: "Save view…" }).click();
  await page.getByLabel("Name").fill("Mine");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  const views = page.getByRole("list", { name: "Saved views" });
  await views.getByRole("link", { name: "Mine" }).waitFor();
  await page.goto(`${server.base}/ui#/search`);
  await page.reload();
  await views.getByRole("link", { name: "Mine" }).click();
  await page.getByRole("list", { name: "Filters in use" }).getByText("queue: viewed").waitFor();
  assert.match(page.url(), /#\/search\?command=viewed&order=oldest$/);
  await page.getByRole("button", { name: "Copy link" }).click();
  await page.getByText("Address of this view copied.").waitFor();
  await page.getByRole("button", { name: "Forget view Mine" }).click();
  await views.waitFor({ state: "detached" });
});

test("a task is edited and run again as a new one", async (t) => {
  const big = "9007199254740993";
  const first = await fetch(`${server.base}/v1/codeq/tasks`, {
    method: "POST",
    headers: { Authorization: "Bearer dev-token" },
    body: `{"command":"again","payload":{"big":${big},"wrong":1},"tags":["x"],"lane":"eu","idempotencyKey":"order-7","headers":{"a":"b"}}`,
  }).then((response) => response.json());
  const page = await open(t, `/tasks/${first.id}`);
  await page.getByText("order-7").waitFor();
  await page.getByRole("link", { name: "eu", exact: true }).waitFor();
  await page.getByRole("button", { name: "Edit and run again…" }).click();
  const payload = page.getByRole("dialog").getByLabel("Payload");
  await payload.fill("{");
  await page.getByRole("button", { name: "Create task" }).click();
  await page.getByRole("alert").getByText("The payload is not JSON").waitFor();
  await payload.fill(`{"big": ${big}, "right": 2}`);
  await page.getByRole("button", { name: "Create task" }).click();
  await page.waitForURL((url) => url.hash.startsWith("#/tasks/") && !url.hash.includes(first.id));
  const id = decodeURIComponent(new URL(page.url()).hash.slice("#/tasks/".length));
  const made = await server.call("GET", `/tasks/${id}`);
  assert.equal(made.payload, `{"big":${big},"right":2}`);
  assert.deepEqual([made.tags, made.lane, made.headers, made.idempotencyKey], [["x"], "eu", { a: "b" }, undefined]);
});
