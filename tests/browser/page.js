// A browser, and pages that tell when something went wrong in them.

import { chromium } from "playwright-core";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
export const PATIENCE_MS = 20_000;

/** Playwright gives it an empty directory for its profile. */
export function openBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
}

/** A page with a session of its own. `page.troubles` holds errors of the console, blocked content included. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]).catch(() => undefined);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.troubles = [];
  page.on("pageerror", (error) => page.troubles.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.troubles.push(message.text()));
  page.on("request", (request) => {
    const { origin } = new URL(request.url());
    const own = new URL(page.url()).origin;
    if (own !== "null" && origin !== own && origin !== "null")
      page.troubles.push(`foreign request to ${origin}`);
  });
  if (process.env.ASSETS) await fromDisk(context, process.env.ASSETS);
  return page;
}

/** For whoever works on the dashboard: its files from the disk instead of the binary. */
async function fromDisk(context, directory) {
  await context.route(/\/ui(\/(?!config\.json)[\w./]+)?$/, async (route) => {
    const name = new URL(route.request().url()).pathname.replace(/^\/ui\/?/, "") || "index.html";
    await route.fulfill({ path: `${directory}/${name}` });
  });
}

/** Waits until a figure reads `wanted`. */
export async function waitFigure(page, name, wanted) {
  const text = new Intl.NumberFormat("en-US").format(wanted);
  await page.locator(`[data-figure="${name}"]`, { hasText: new RegExp(`^${text}$`) }).waitFor();
}

/** The text of a queue's row by column label. */
export function rowOf(page, queue) {
  return page
    .locator(`tbody tr:has(th a:text-is("${queue}"))`)
    .evaluate((row) =>
      Object.fromEntries([...row.children].map((cell) => [cell.dataset.label, cell.textContent])),
    );
}
