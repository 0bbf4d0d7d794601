// Creates a task and works on it, with nothing but the installed package. Prints "done".
import assert from "node:assert/strict";
import { Client, Worker } from "codeq-client";

const client = new Client();
const worker = new Worker(client);
worker.handle("first", ({ payload }) => ({ twice: 2 * payload.n }));
const running = worker.run({ signals: false });
const task = await client.create("first", { n: 21 });
assert.deepEqual(await task.result({ timeout: "30s" }), { twice: 42 });
worker.stop();
await running;
console.log("done");
