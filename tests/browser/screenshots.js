// Takes the pictures in docs/images: both themes, a desk and a telephone. SECONDS says how long the scene
// plays before.

import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openBrowser, openPage } from "./page.js";
import { play } from "./scene.js";
import { Server } from "./server.js";

const images = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const SIZES = [[1280, 860], [390, 844]];

async function pages(server) {
  const { items } = await server.call("GET", "/admin/tasks?place=dead&limit=1");
  return [["overview", "/"], ["queue", "/queues/render_video"], ["dead-letters", "/dead"], ["task", `/tasks/${items[0].id}`], ["search", "/search?error=timeout"], ["live", "/live"]];
}

async function settle(page) {
  await page.waitForLoadState("networkidle", { timeout: 3000 }).catch(() => undefined);
  await page.waitForFunction(() => !document.querySelector("main .wait"));
}

const server = await Server.dev();
const browser = await openBrowser();
mkdirSync(images, { recursive: true });
try {
  await play(server, Number(process.env.SECONDS ?? 180));
  const list = await pages(server);
  const busy = play(server, Number(process.env.BUSY ?? 60)).catch(() => undefined);
  for (const [width, height] of SIZES) {
    for (const theme of ["light", "dark"]) {
      const page = await openPage(browser, { viewport: { width, height }, colorScheme: theme });
      for (const [name, hash] of list) {
        await page.goto(`${server.base}/ui#${hash}`);
        await settle(page);
        await page.screenshot({ path: `${images}${name}-${theme}-${width}.png` });
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
