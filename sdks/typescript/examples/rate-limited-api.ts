// Calls an API that allows so many requests: what it turns away waits as long as it says, at no attempt's cost.
import { Client, defineTask, Fail, Retry, Worker } from "codeq-client";

const fetchItem = defineTask<{ url: string }, { status: number; bytes: number }>("api.fetch", { maxAttempts: 10 });

const worker = new Worker(new Client(), { concurrency: 4 });
worker.handle(fetchItem, async ({ payload, signal }) => {
  const response = await fetch(payload.url, { signal });
  if (response.status === 429) {
    const delay = Number(response.headers.get("retry-after") ?? 10);
    // The lane is the customer of the API: the others go on.
    throw new Retry("the API asks for a pause", { delay, hold: "lane" });
  }
  if (response.status >= 400 && response.status < 500) throw new Fail(`the API says ${response.status}`);
  if (!response.ok) throw new Error(`the API says ${response.status}`);
  return { status: response.status, bytes: (await response.arrayBuffer()).byteLength };
});
await worker.run();
