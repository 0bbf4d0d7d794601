// Compiles the package twice: as ES modules and as CommonJS.
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const run = (...args) => execFileSync(process.execPath, [tsc, "-p", root, ...args], { stdio: "inherit" });

rmSync(`${root}/dist`, { recursive: true, force: true });
run();
run("--module", "commonjs", "--moduleResolution", "node10", "--outDir", `${root}/dist/cjs`);
writeFileSync(`${root}/dist/cjs/package.json`, '{"type":"commonjs"}\n');
