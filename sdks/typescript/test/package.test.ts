import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../../", import.meta.url));
/** What a program that bundles the SDK may pay for it. */
const BUNDLE_BYTES = 40_000;

test("both module systems have the same names", async () => {
  const esm = await import(`${root}/dist/esm/index.js`);
  const cjs = createRequire(import.meta.url)(`${root}/dist/cjs/index.js`);
  assert.deepEqual(Object.keys(cjs).sort(), Object.keys(esm).sort());
  assert.equal(typeof cjs.Worker, "function");
});

test("the package has no dependency and stays small", async () => {
  const { dependencies, version } = JSON.parse(readFileSync(`${root}/package.json`, "utf8"));
  assert.equal(dependencies, undefined);
  const { VERSION } = await import("../src/version.js");
  assert.equal(version, VERSION);
  const entryPoints = [`${root}/dist/esm/index.js`];
  const made = await build({ entryPoints, bundle: true, minify: true, platform: "node", format: "esm", write: false });
  const size = made.outputFiles[0]?.contents.length ?? 0;
  assert(size > 0 && size < BUNDLE_BYTES, `${size} bytes`);
});

test("a worker keeps its heartbeats in a minified bundle", async () => {
  const entryPoints = [`${root}/dist/esm/keeper.js`];
  const made = await build({ entryPoints, bundle: true, minify: true, platform: "node", format: "esm", write: false });
  const text = made.outputFiles[0]?.text ?? "";
  const module = await import(`data:text/javascript,${encodeURIComponent(text)}`);
  const beats: unknown[] = [];
  const { createServer } = await import("node:http");
  const server = createServer((request, response) => {
    beats.push(request.url);
    response.end('{"ok":true}');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const transport = { url: `http://127.0.0.1:${port}`, token: async () => "t" };
  const keeper = await module.Keeper.start(transport, 1000, {});
  const kept = new Promise<void>((resolve) => {
    keeper.add([
      {
        id: "a",
        attempt: 1,
        key: "a:1",
        leaseUntil: module.now() + 1000,
        kept: () => resolve(),
        lose: () => undefined,
      },
    ]);
  });
  await kept;
  await keeper.end();
  server.close();
  assert.deepEqual(beats, ["/v1/codeq/tasks/a/heartbeat"]);
});
