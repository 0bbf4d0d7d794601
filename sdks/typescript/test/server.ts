// One server for the tests of a file: the binary of this repository unless CODEQ_BIN says otherwise.
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { Client, Worker, type WorkerOptions } from "../src/index.js";
import { DevServer } from "../src/testing.js";

process.env.CODEQ_BIN ??= fileURLToPath(new URL("../../../../target/debug/codeq", import.meta.url));

let server: DevServer;
before(async () => {
  server = await DevServer.start();
});
after(() => server.stop());

export function client(options: ConstructorParameters<typeof Client>[0] = {}): Client {
  return new Client({ url: server.url, token: server.token, ...options });
}

/** Runs a worker while `body` runs. */
export async function working(
  define: (worker: Worker) => unknown,
  body: () => Promise<void>,
  options: WorkerOptions = {},
): Promise<void> {
  const worker = new Worker(client(), options);
  define(worker);
  const running = worker.run({ signals: false });
  try {
    await body();
  } finally {
    worker.stop();
    await running;
  }
}
