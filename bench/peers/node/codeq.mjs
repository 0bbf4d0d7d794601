import { Client, Worker } from "codeq-client";

/** Over HTTP; the address is "HTTP,PRODUCERS,WORKERS", of which the streams are not used. */
export async function open(address) {
  const client = new Client({ url: address.split(",")[0], token: "dev-token" });
  return {
    close: async () => {},
    enqueue: (jobs) => (jobs.length === 1 ? client.create("send", jobs[0]) : client.createMany("send", jobs)),
    async work(workers, window, done) {
      // Counted when the handler returns, as for the other libraries: reports follow in batches.
      const worker = new Worker(client, { concurrency: workers * window });
      worker.handle("send", () => {
        done(1);
        return { ok: true };
      });
      await worker.run();
    },
  };
}
