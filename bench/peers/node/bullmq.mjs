import { Queue, Worker } from "bullmq";

export async function open(address, role) {
  const [host, port] = address.split(":");
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  const queue = role === "work" ? null : new Queue("jobs", { connection });
  await queue?.waitUntilReady();
  return {
    close: () => queue.close(),
    enqueue: (jobs) =>
      jobs.length === 1 ? queue.add("send", jobs[0]) : queue.addBulk(jobs.map((data) => ({ name: "send", data }))),
    work: (workers, window, done) =>
      new Promise((_, reject) => {
        const worker = new Worker("jobs", async () => ({ ok: true }), { connection, concurrency: workers * window });
        worker.on("completed", () => done(1));
        worker.on("error", reject);
      }),
  };
}
