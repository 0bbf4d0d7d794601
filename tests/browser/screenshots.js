// Takes the pictures in docs/images, those that a page shows. SECONDS says how long the scene plays before, TO another
// directory for them.

import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openBrowser, openPage } from "./page.js";
import { play, set } from "./scene.js";
import { Server } from "./server.js";

const images = process.env.TO ? `${process.env.TO}/` : fileURLToPath(new URL("../../docs/images/", import.meta.url));
const SIZES = [
  [1280, 860],
  [390, 844],
];
const SHOWN = [
  "overview-light-1280",
  "dead-letters-dark-1280",
  "queue-light-1280",
  "task-light-1280",
  "search-light-1280",
  "live-dark-1280",
  "overview-dark-390",
  "task-light-390",
];

async function pages(server) {
  let items = [];
  while (items.length === 0) {
    ({ items } = await server.call("GET", "/admin/tasks?place=dead&limit=1"));
    if (items.length === 0) await play(server, 2);
  }
  return [
    ["overview", "/", ".store dd"],
    ["queue", "/queues/render_video", ".task-list tbody tr"],
    ["dead-letters", "/dead", ".task-list tbody tr"],
    ["task", `/tasks/${items[0].id}`, ".timeline li"],
    ["search", "/search?error=timeout", ".task-list tbody tr"],
    ["live", "/live", ".events li:nth-child(20)"],
  ];
}

/** Until what comes last is there, and every chart has its lines. */
async function settle(page, last) {
  await page.locator(last).first().waitFor();
  await page.waitForFunction(() =>
    [...document.querySelectorAll("svg.chart")].every((chart) => chart.querySelector(".line")),
  );
}

// On the disk, so that there is something to tell about the store.
const server = await Server.start(["dev", "--port", "0"]);
const browser = await openBrowser();
mkdirSync(images, { recursive: true });
try {
  await set(server);
  await play(server, Number(process.env.SECONDS ?? 180));
  const list = await pages(server);
  const busy = play(server, Number(process.env.BUSY ?? 60)).catch(() => undefined);
  for (const [width, height] of SIZES) {
    for (const theme of ["light", "dark"]) {
      const page = await openPage(browser, { viewport: { width, height }, colorScheme: theme });
      for (const [name, hash, last] of list) {
        const picture = `${name}-${theme}-${width}`;
        if (!SHOWN.includes(picture)) continue;
        await page.goto(`${server.base}/ui#${hash}`);
        await settle(page, last);
        await page.screenshot({ path: `${images}${picture}.png` });
      }
      await page.context().close();
    }
  }
  await Promise.race([busy, Promise.resolve()]);
} finally {
  await browser.close();
  await server.stop();
}
process.exit(0);
