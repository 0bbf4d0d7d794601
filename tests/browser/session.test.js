import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { once } from "node:events";
import { openBrowser, openPage, waitFigure } from "./page.js";
import { Server } from "./server.js";

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

async function visit(t, base, hash = "/") {
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.goto(`${base}/ui#${hash}`);
  return page;
}

const staticAuth = (token, claims = {}) => ({
  env: "dev",
  producerAuthProvider: "static",
  producerAuthConfig: { token, subject: "someone", ...claims },
  workerAuthProvider: "static",
  workerAuthConfig: { token: "worker-token", subject: "a-worker", eventTypes: ["*"] },
});

test("outside of codeq dev nobody is given a token, and a wrong one is told as such", async (t) => {
  const server = await Server.serve(
    staticAuth("the-right-one", { scopes: ["codeq:admin"], raw: { role: "ADMIN", tenantId: "acme" } }),
  );
  t.after(() => server.stop());
  const config = await (await fetch(`${server.base}/ui/config.json`)).json();
  assert.equal(config.devToken, undefined);
  const page = await visit(t, server.base);
  await page.getByLabel("Token").fill("the-wrong-one");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("The server does not accept this token").waitFor();
  await page.getByLabel("Token").fill("the-right-one");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "No tasks yet" }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("codeq-token")), "the-right-one");
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage)), "{}");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("codeq-token")), null);
});

test("without the admin right tasks can be read and nothing can be done to them", async (t) => {
  const server = await Server.serve(staticAuth("reader", { raw: { tenantId: "acme" } }));
  t.after(() => server.stop());
  const task = await server.call("POST", "/tasks", { command: "demo", payload: { secret: 7 } }, "reader");
  const page = await visit(t, server.base);
  await page.getByLabel("Token").fill("reader");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "This token does not have admin rights" }).waitFor();
  await page.getByLabel("Open a task by its id").fill(task.id);
  await page.keyboard.press("Enter");
  await page.getByText('"secret": 7').waitFor();
  assert.equal(await page.getByRole("button", { name: "Cancel task" }).count(), 0);
});

test("a page recovers by itself when the server restarts", async (t) => {
  const first = await Server.dev();
  await first.createMany("before", 5);
  const page = await visit(t, first.base);
  await waitFigure(page, "ready", 5);
  await page.evaluate(() => (window.isSamePage = true));
  const { port } = first;
  await first.stop();
  await page
    .getByRole("alert")
    .getByText(/Trying again/)
    .waitFor();
  const second = await Server.start(["dev", "--memory", "--port", port]);
  t.after(() => second.stop());
  await second.createMany("after", 8);
  await waitFigure(page, "ready", 8);
  await page.getByRole("link", { name: "after", exact: true }).waitFor();
  assert.equal(await page.locator("#notice").isVisible(), false);
  assert.equal(await page.evaluate(() => window.isSamePage), true);
});

test("a callback that fails is shown with its answer and retried", async (t) => {
  let isUp = false;
  const received = [];
  const hook = createServer((request, response) => {
    request.resume();
    if (isUp) received.push(request.url);
    response.writeHead(isUp ? 204 : 500).end();
  });
  hook.listen(0, "127.0.0.1");
  await once(hook, "listening");
  t.after(() => hook.close());
  const server = await Server.dev();
  t.after(() => server.stop());
  const task = await server.create("hook", 1, { webhook: `http://127.0.0.1:${hook.address().port}/done` });
  await server.claim("hook");
  await server.complete(task);
  const page = await visit(t, server.base, "/webhooks");
  const row = page.getByRole("region", { name: "Callbacks, pending" }).locator("tbody tr");
  await row.filter({ hasText: "500" }).waitFor();
  isUp = true;
  const delivered = once(hook, "request");
  // The server redelivers only what has failed for good.
  assert.equal(await row.getByRole("button", { name: /Redeliver/ }).count(), 0);
  await delivered;
  await page.getByText("No callback is waiting.").waitFor();
  assert.deepEqual(received, ["/done"]);
});

test("a slow answer holds up nothing else, and a failing one is told", async (t) => {
  const server = await Server.dev();
  t.after(() => server.stop());
  await server.createMany("steady", 4);
  const page = await openPage(browser);
  t.after(() => page.context().close());
  await page.route(/\/metrics|\/admin\/store|\/admin\/history\?minutes=15/, () => undefined);
  await page.goto(`${server.base}/ui`);
  await waitFigure(page, "ready", 4);
  const error = JSON.stringify({ error: "disk full", code: "internal", requestId: "r-1" });
  await page.route(/\/admin\/queues/, (route) =>
    route.fulfill({ status: 500, contentType: "application/json", body: error }),
  );
  await page.getByRole("alert").getByText("disk full").waitFor();
  await waitFigure(page, "ready", 4);
  await page.unroute(/\/admin\/queues/);
  await server.create("steady");
  await waitFigure(page, "ready", 5);
  await page.locator("#notice").waitFor({ state: "hidden" });
});
