import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { openBrowser, openPage, rowOf, waitFigure } from "./page.js";
import { Server } from "./server.js";

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

async function opened(t, ...more) {
  const server = await Server.dev(...more);
  t.after(() => server.stop());
  const page = await openPage(browser);
  t.after(() => page.context().close());
  return { server, page };
}

test("a first visit shows a line to paste, and the line works", async (t) => {
  const { server, page } = await opened(t);
  await page.goto(`${server.base}/`);
  assert.equal(new URL(page.url()).pathname, "/ui");
  await page.getByRole("heading", { name: "No tasks yet" }).waitFor();
  const line = await page.locator(".paste code").first().textContent();
  const created = JSON.parse(execFileSync("sh", ["-c", line], { encoding: "utf8" }));
  assert.equal(created.status, "PENDING");
  await page.getByRole("link", { name: "demo", exact: true }).waitFor();
  assert.equal(await page.getByRole("heading", { name: "No tasks yet" }).isVisible(), false);
  assert.deepEqual(page.troubles, []);
});

test("a program that asks for / gets what it always got", async (t) => {
  const { server } = await opened(t);
  const answer = await fetch(`${server.base}/`, { redirect: "manual" });
  assert.equal(answer.status, 404);
  assert.equal((await answer.json()).code, "route_not_found");
});

test("numbers and charts move while 1,000 tasks are worked off, and end equal to the API's", async (t) => {
  const { server, page } = await opened(t);
  await page.goto(`${server.base}/ui`);
  await page.getByRole("heading", { name: "No tasks yet" }).waitFor();
  await page.evaluate(() => (window.isSamePage = true));
  await server.createMany("render", 700);
  await server.createMany("mail", 300);
  await waitFigure(page, "ready", 1000);
  const line = page.locator(".chart .line.in").first();
  await page.waitForFunction(() => /L/.test(document.querySelector(".chart .line.in")?.getAttribute("d") ?? ""));
  const before = await line.getAttribute("d");
  await server.work("render", (task) => ({ taskId: task.id, status: "COMPLETED", result: { ok: true } }));
  const held = await server.claim("mail", 40);
  assert.equal(held.length, 40);
  await waitFigure(page, "ready", 260);
  await waitFigure(page, "inProgress", 40);
  await page.waitForFunction((old) => document.querySelector(".chart .line.in")?.getAttribute("d") !== old, before);
  await page.waitForFunction(() => document.querySelector(".chart .line.out")?.getAttribute("d").includes("L"));
  const mail = await server.queue("mail");
  await page.locator("tbody tr", { hasText: "mail" }).waitFor();
  const row = await rowOf(page, "mail");
  assert.deepEqual([row.Ready, row.Delayed, row["In progress"], row.Dead], [mail.ready, mail.delayed, mail.inProgress, mail.dlq].map(String));
  await page.waitForFunction(() => document.querySelectorAll(".spark .line.in[d*='L']").length >= 2);
  assert.equal(await page.evaluate(() => window.isSamePage), true);
  const told = await page.locator(".since").first().textContent();
  assert.match(told, /starts anew when the server restarts/);
  assert.deepEqual(page.troubles, []);
});

test("200 queues are painted within a second", async (t) => {
  const { server, page } = await opened(t);
  for (let number = 0; number < 200; number += 1) await server.create(`queue-${String(number).padStart(3, "0")}`);
  await page.goto("about:blank");
  const started = performance.now();
  await page.goto(`${server.base}/ui`);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 200, undefined, { polling: "raf" });
  const whole = performance.now() - started;
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  const settled = await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => resolve(performance.now()))));
  console.log(`first paint ${paint.toFixed(0)} ms, all 200 queues after ${settled.toFixed(0)} ms (${whole.toFixed(0)} ms with the driver)`);
  assert.ok(paint < 1000, `first paint took ${paint} ms`);
  assert.deepEqual(page.troubles, []);
});
