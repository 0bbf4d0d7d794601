import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

export async function open(address, role) {
  const pgPool = new pg.Pool({ connectionString: `postgres://postgres@${address}/postgres`, max: 20 });
  const logger = new Logger(() => () => {});
  const utils = role === "work" ? null : await makeWorkerUtils({ pgPool, logger });
  if (role === "setup") await utils.migrate();
  return {
    close: () => utils.release(),
    enqueue: (jobs) =>
      jobs.length === 1
        ? utils.addJob("send", jobs[0])
        : utils.addJobs(jobs.map((payload) => ({ identifier: "send", payload }))),
    async work(workers, window, done) {
      const many = { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } };
      const taskList = { send: async () => {} };
      const runner = await run({
        pgPool,
        logger,
        taskList,
        concurrency: Math.min(workers * window, 64),
        noHandleSignals: true,
        preset: window > 1 ? many : {},
      });
      // Comes when the task returns; the row goes one statement later.
      runner.events.on("job:complete", () => done(1));
      await runner.promise;
    },
  };
}
