import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { openBrowser, openPage } from "./page.js";
import { play, set } from "./scene.js";
import { Server } from "./server.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser;
let server;
let pages;
before(async () => {
  [browser, server] = await Promise.all([openBrowser(), Server.dev()]);
  await set(server);
  await play(server, 4);
  const dead = await server.create("gone", {}, { maxAttempts: 1 });
  await server.claim("gone");
  await server.call("POST", `/tasks/${dead.id}/nack`, { reason: "timeout" });
  const batch = await server.call("POST", "/batches", { name: "night" });
  await server.create("member", {}, { batchId: batch.id });
  const held = await server.create("held", {}, { after: [batch.id] });
  await server.create("later", {}, { after: [held.id] });
  pages = [
    "/",
    "/batches",
    `/batches/${batch.id}`,
    `/tasks/${held.id}`,
    "/webhooks?state=delivered",
    "/queues/render_video",
    "/dead",
    `/tasks/${dead.id}`,
    "/search?error=timeout",
    "/search?payloadContains=x&tag=a",
    "/failed",
    "/workers",
    "/schedules",
    "/live",
    "/webhooks",
    "/audit",
    "/nowhere",
  ];
});
after(async () => {
  await browser.close();
  await server.stop();
});

async function settled(page, hash) {
  await page.goto(`${server.base}/ui#${hash}`);
  await page.locator("main h1").first().waitFor({ state: "attached" });
  await page.waitForFunction(() => !document.querySelector("main .wait"));
}

async function findings(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const bad = found.violations.filter(({ impact }) => impact !== "minor");
  return bad.map(
    ({ id, nodes }) =>
      `${id}: ${nodes
        .map(({ html, any }) => `${html} ${any[0]?.message ?? ""}`)
        .slice(0, 3)
        .join(" | ")}`,
  );
}

for (const colorScheme of ["light", "dark"]) {
  for (const width of [390, 1440]) {
    test(`axe finds nothing worse than minor on any page, ${colorScheme}, ${width} pixels`, async (t) => {
      const page = await openPage(browser, { colorScheme, bypassCSP: true, viewport: { width, height: 900 } });
      t.after(() => page.context().close());
      const found = {};
      for (const hash of pages) {
        await settled(page, hash);
        const list = await findings(page);
        if (list.length) found[hash] = list;
      }
      await page.goto(`${server.base}/docs`);
      await page.locator(".op").first().waitFor();
      const list = await findings(page);
      if (list.length) found["/docs"] = list;
      assert.deepEqual(found, {});
    });
  }
}

test("a dialog is announced, takes the focus and gives it back", async (t) => {
  const page = await openPage(browser, { bypassCSP: true });
  t.after(() => page.context().close());
  await settled(page, "/queues/render_video");
  const pause = page.getByRole("button", { name: "Pause" });
  await pause.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Pause render_video?" });
  await dialog.getByRole("button", { name: "Pause" }).and(page.locator(":focus")).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await pause.and(page.locator(":focus")).waitFor();
});

test("everything fits a width of 390 pixels", async (t) => {
  const page = await openPage(browser, { viewport: { width: 390, height: 844 } });
  t.after(() => page.context().close());
  for (const hash of pages) {
    await settled(page, hash);
    const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(content <= window, `${hash} is ${content} pixels wide`);
  }
});

test("the theme follows the system until someone chooses", async (t) => {
  const page = await openPage(browser, { colorScheme: "dark" });
  t.after(() => page.context().close());
  await settled(page, "/");
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  assert.equal(await theme(), "dark");
  await page.getByRole("button", { name: "Switch to the light theme" }).click();
  assert.equal(await theme(), "light");
  await page.reload();
  assert.equal(await theme(), "light");
  assert.deepEqual(page.troubles, []);
});
