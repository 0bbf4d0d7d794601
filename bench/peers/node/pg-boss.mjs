import PgBoss from "pg-boss";

export async function open(address, role) {
  const connectionString = `postgres://postgres@${address}/postgres`;
  const boss = new PgBoss({ connectionString, max: 20, supervise: false, schedule: false, migrate: role === "setup" });
  boss.on("error", (error) => console.error(error.message));
  await boss.start();
  if (role === "setup") await boss.createQueue("jobs");

  // `boss.work` polls twice a second at most, so a worker that is always busy fetches and completes in a loop.
  async function loop(window, done) {
    for (;;) {
      const jobs = await boss.fetch("jobs", { batchSize: window });
      if (jobs.length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        continue;
      }
      await boss.complete("jobs", jobs.map((job) => job.id), { ok: true });
      done(jobs.length);
    }
  }

  return {
    close: () => boss.stop({ graceful: false }),
    enqueue: (jobs) =>
      jobs.length === 1 ? boss.send("jobs", jobs[0]) : boss.insert("jobs", jobs.map((data) => ({ data }))),
    work: (workers, window, done) => Promise.all(Array.from({ length: workers }, () => loop(window, done))),
  };
}
