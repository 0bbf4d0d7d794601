// A task from start to end over the types that openapi-typescript makes of /openapi.json.
//
// Checked by `tsc --strict` before it runs: a payload and a result are plain JSON, and every call has its type.
import * as assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths, webhooks } from "./api";

type Ended = webhooks["taskEnded"]["post"]["requestBody"]["content"]["application/json"];
type Available = components["schemas"]["WorkAvailable"];
export type Callback = Ended | Available;

const client = createClient<paths>({
  baseUrl: process.argv[2],
  headers: { Authorization: "Bearer dev-token" },
});

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("no answer");
  return value;
}

async function finishOne(): Promise<void> {
  const created = present(
    (await client.POST("/v1/codeq/tasks", { body: { command: "generated", payload: { n: 1 } } })).data,
  );
  const claim = { commands: ["generated"], waitSeconds: 5 };
  const claimed = present((await client.POST("/v1/codeq/tasks/claim", { body: claim })).data);
  assert.equal(claimed.id, created.id);
  assert.deepEqual(JSON.parse(present(claimed.payload)), { n: 1 });

  const path = { id: claimed.id };
  const ended = await client.POST("/v1/codeq/tasks/{id}/result", {
    params: { path },
    body: { status: "COMPLETED", result: { ok: true }, attempt: claimed.attempts },
  });
  assert.deepEqual(present(ended.data).result, { ok: true });
  const read = await client.GET("/v1/codeq/tasks/{id}/result", { params: { path, query: { waitSeconds: 5 } } });
  assert.deepEqual(present(read.data).result.result, { ok: true });
}

async function finishBatch(): Promise<void> {
  const tasks = [0, 1, 2].map((n) => ({ command: "generated", payload: n }));
  const created = await client.POST("/v1/codeq/tasks/batch", { body: { tasks } });
  assert.equal(present(created.data).results.length, 3);

  const claim = { count: 10, commands: ["generated"] };
  const claimed = present((await client.POST("/v1/codeq/tasks/claim/batch", { body: claim })).data).tasks;
  assert.equal(claimed.length, 3);

  const results = claimed.map((task) => ({
    taskId: task.id,
    status: "FAILED" as const,
    error: "no",
    attempt: task.attempts,
  }));
  const ended = await client.POST("/v1/codeq/tasks/batch/results", { body: { results } });
  assert.equal(present(ended.data).results.length, 3);
}

async function move(): Promise<void> {
  await client.POST("/v1/codeq/tasks", { body: { command: "moved-too", payload: ["a", null] } });
  const query = { command: "moved-too" };
  const lines = await client.GET("/v1/codeq/admin/export", { params: { query }, parseAs: "text" });
  const taken = await client.POST("/v1/codeq/admin/import", {
    body: present(lines.data),
    bodySerializer: (body) => body,
  });
  const answer = present(taken.data);
  assert.deepEqual([answer.existing, answer.refused], [1, []]);
}

async function main(): Promise<void> {
  await finishOne();
  await finishBatch();
  await move();
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
