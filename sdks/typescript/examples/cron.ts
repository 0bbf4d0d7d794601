// A report every night at half past two in Berlin. Putting an equal schedule again changes nothing.
import { Client, defineTask, Worker } from "codeq-client";

const nightly = defineTask<{ kind: string }, { kind: string; for: string }>("report.nightly", { maxAttempts: 3 });

const client = new Client();
await client.putSchedule("nightly-report", {
  task: nightly,
  payload: { kind: "sales" },
  cron: "30 2 * * *",
  timezone: "Europe/Berlin",
  catchUp: "one",
});
console.log(await client.nextTicks("nightly-report", 3));

const worker = new Worker(client);
worker.handle(nightly, ({ payload, headers }) => {
  // The instant of the plan, which is the same in every attempt.
  return { kind: payload.kind, for: headers["codeq-scheduled-for"] ?? "" };
});
await worker.run();
