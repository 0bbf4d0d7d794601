// Who may look at everything and change nothing.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./page.js";
import { Server } from "./server.js";

const OBSERVER = "only-looks";

let browser;
let server;
before(async () => {
  const raw = { tenantId: "acme" };
  const of = (token, scopes, more = {}) => ({
    type: "static",
    config: { token, subject: token, scopes, eventTypes: ["*"], raw: { ...raw, ...more } },
  });
  const worker = ["codeq:claim", "codeq:nack", "codeq:result", "codeq:heartbeat"];
  [browser, server] = await Promise.all([
    openBrowser(),
    Server.serve({
      env: "dev",
      resultWebhookMaxAttempts: 1,
      producerAuthProvider: "multi",
      producerAuthConfig: { providers: [of("dev-token", [], { role: "ADMIN" }), of(OBSERVER, ["codeq:observe"])] },
      workerAuthProvider: "static",
      workerAuthConfig: of("dev-token", worker).config,
    }),
  ]);
});
after(async () => {
  await browser.close();
  await server.stop();
});

/** One of everything that there is a button for. */
async function everything() {
  const ended = async (command, verb, body) => {
    const task = await server.create(command, {}, { maxAttempts: 1 });
    await server.claim(command);
    await server.call("POST", `/tasks/${task.id}/${verb}`, body);
    return task;
  };
  const dead = await ended("gone", "nack", { reason: "timeout" });
  const failed = await ended("given-up", "result", { status: "FAILED", error: "no such order" });
  const told = await server.create("told", {}, { webhook: "http://127.0.0.1:1/nobody-listens" });
  await server.claim("told");
  await server.complete(told);
  while ((await server.call("GET", "/admin/webhooks?state=failed")).items.length === 0);
  const later = await server.create("later", {}, { delaySeconds: 3600 });
  await server.call("PUT", "/admin/queues/later/policy", { concurrency: 3 });
  const batch = await server.call("POST", "/batches", { name: "night" });
  await server.create("member", {}, { batchId: batch.id });
  const plan = { everySeconds: 3600, task: { command: "tick", payload: {} } };
  await server.call("PUT", "/schedules/nightly", plan);
  await server.call("POST", "/admin/failed/given-up/requeue", { ratePerSecond: 1 });
  await ended("given-up", "result", { status: "FAILED", error: "no such order" });
  return [
    ["/", "Overview"],
    ["/queues/later", "later"],
    ["/dead", "Dead letters"],
    ["/failed", "Failed"],
    [`/tasks/${dead.id}`, dead.id],
    [`/tasks/${failed.id}`, failed.id],
    [`/tasks/${later.id}`, later.id],
    ["/search?place=dead", "Search"],
    ["/search?place=failed", "Search"],
    ["/search?command=later", "Search"],
    ["/schedules", "Schedules"],
    [`/batches/${batch.id}`, batch.id],
    ["/workers", "Workers"],
    ["/webhooks?state=failed", "Webhooks"],
    ["/audit", "Audit"],
  ];
}

/** Buttons that change nothing. */
const HARMLESS = [
  ...["Switch to", "Sign out", "Copy", "Load more", "Look further", "Search", "Clear", "Add", "Save view", "Show all"],
  ...["Ready", "Delayed", "In progress", "Held", "Dead", "Failed", "Cancelled", "Completed"],
  ...["Queue", "Oldest", "In", "Out", "Next ", "Remove", "Response of"],
];

test("a token that may only look is shown everything, and no button that would be refused", async (t) => {
  const pages = await everything();
  const page = await openPage(browser);
  t.after(() => page.context().close());
  const refused = [];
  page.on("response", (response) => response.status() >= 400 && refused.push(`${response.status()} ${response.url()}`));
  await page.goto(`${server.base}/ui`);
  await page.getByLabel("Token").fill(OBSERVER);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Read only", { exact: true }).waitFor();
  const before = await server.call("GET", "/admin/audit");
  for (const [hash, heading] of pages) {
    await page.goto(`${server.base}/ui#${hash}`);
    await page.reload();
    await page.getByRole("heading", { name: heading, level: 1 }).waitFor({ state: "attached" });
    await page.waitForFunction(() => !document.querySelector("main .wait"));
    await page.locator("tbody tr, .why, .policy").first().waitFor();
    for (const box of await page.getByLabel("Select all tasks shown").all()) await box.check().catch(() => undefined);
    const names = await page.getByRole("button").evaluateAll((nodes) =>
      nodes.filter((node) => node.checkVisibility()).map((node) => node.ariaLabel ?? node.textContent),
    );
    const harmful = names.filter((name) => !HARMLESS.some((known) => name.startsWith(known)));
    assert.ok(names.length > 0, `${hash} has buttons`);
    assert.deepEqual(harmful, [], `${hash} offers what the server refuses`);
  }
  assert.deepEqual(refused, []);
  assert.equal((await server.call("GET", "/admin/audit")).items.length, before.items.length);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").fill("dev-token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.goto(`${server.base}/ui#/dead`);
  await page.getByRole("button", { name: "Replay all…" }).waitFor();
  assert.equal(await page.getByText("Read only", { exact: true }).isVisible(), false);
});
