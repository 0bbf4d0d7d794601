// The JavaScript that the documentation gives to receivers of webhooks.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

test("the JavaScript of the webhook page verifies what it should", async (t) => {
  const page = readFileSync(new URL("../../docs/webhooks.md", import.meta.url), "utf8");
  const [, code] = /```js\n([\s\S]*?)```/.exec(page);
  const directory = mkdtempSync(join(tmpdir(), "codeq-verify-"));
  t.after(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, "verify.mjs"), code);
  const { verify } = await import(join(directory, "verify.mjs"));
  const body = Buffer.from(/```json\n(\{"taskId".*\})\n/.exec(page)[1]);
  const headers = {
    "webhook-id": "msg_0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "webhook-timestamp": "1772366405",
    "webhook-signature": "v1,HMByih2xZo7UhiZ1GDTJOMfQknnhIDElUta2wE0aNP4=",
  };
  verify("s3cr3t-for-docs", headers, body, 1772366410);
  verify("whsec_czNjcjN0LWZvci1kb2Nz", headers, body, 1772366410);
  assert.throws(() => verify("other", headers, body, 1772366410), /not signed/);
  assert.throws(() => verify("s3cr3t-for-docs", headers, Buffer.concat([body, body]), 1772366410), /not signed/);
  assert.throws(() => verify("s3cr3t-for-docs", headers, body, 1772369999), /too old/);
});
