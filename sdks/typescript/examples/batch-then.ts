// Counts the words of many pages at once, and adds them up when all of them have ended.
import { readFile } from "node:fs/promises";
import { Client, defineTask, Worker } from "codeq-client";

const count = defineTask<{ path: string }, { words: number }>("words.count", { maxAttempts: 3 });
const addUp = defineTask<{ batch: string }, { words: number }>("words.sum");

const client = new Client();
const worker = new Worker(client, { concurrency: 8 });
worker.handle(count, async ({ payload }) => {
  const text = await readFile(payload.path, "utf8");
  return { words: text.split(/\s+/).filter(Boolean).length };
});
worker.handle(addUp, async ({ payload }) => {
  let words = 0;
  for await (const task of (await client.getBatch(payload.batch)).members()) {
    words += Number((await task.result()).words);
  }
  return { words };
});
const running = worker.run();

const batch = await client.createBatch({ name: "words" });
const pages = process.argv.slice(2).map((path) => ({ path }));
await client.createMany(count, pages, { batch });
// Runs when the batch has ended; if a page failed it is cancelled, unless onDependencyFailure is "run".
const last = await client.create(addUp, { batch: batch.id }, { after: [batch] });
await batch.close();
console.log(await last.result({ timeout: "5m" }));
worker.stop();
await running;
