// A server with something to see: queues with steady work, failures of a few causes, one queue paused.

const QUEUES = [
  ["billing.charge", 6, 0.02],
  ["import_csv", 3, 0.25],
  ["render_video", 10, 0.05],
  ["resize_image", 22, 0],
  ["send_email", 30, 0.01],
  ["sync_crm", 5, 0.12],
];
const CAUSES = [
  (number) =>
    `timeout after ${20 + (number % 40)} s calling https://crm.internal/v2/contacts/${1000 + number}`,
  (number) => `row ${number}: column "amount" is not a number`,
  (number) => `connection refused (10.0.3.${number % 250}:5432)`,
];
const TICK_MS = 500;

function payload(number) {
  return {
    order: 48_000 + number,
    customer: { id: `c-${number % 97}`, plan: ["free", "team", "business"][number % 3] },
    source: `s3://uploads/2026/11/${number}.csv`,
    dryRun: false,
  };
}

/** What stands around. */
export async function set(server) {
  await server.createMany("nightly_report", 14, () => ({ delaySeconds: 6 * 3600 }));
  await server.createMany("legacy_export", 37);
  await server.call("POST", "/admin/queues/legacy_export/pause");
}

/** Keeps a server busy for so many seconds. */
export async function play(server, seconds) {
  const end = Date.now() + seconds * 1000;
  let number = 0;
  while (Date.now() < end) {
    const started = Date.now();
    const wave = 1 + 0.45 * Math.sin(started / 19_000) + 0.3 * Math.random();
    for (const [command, perSecond, failing] of QUEUES) {
      const count = Math.round((perSecond * wave * TICK_MS) / 1000 + Math.random() - 0.5);
      if (count > 0)
        await server.createMany(command, count, (index) => ({
          maxAttempts: 2,
          priority: index % 3,
          payload: payload(number + index),
        }));
      number = await workSome(
        server,
        command,
        Math.round(count * (0.85 + 0.3 * Math.random())),
        failing,
        number,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, TICK_MS - (Date.now() - started))));
  }
}

async function workSome(server, command, count, failing, number) {
  const tasks = count > 0 ? await server.claim(command, count) : [];
  const done = [];
  let next = number;
  for (const task of tasks) {
    next += 1;
    if (Math.random() < failing)
      await server.call("POST", `/tasks/${task.id}/nack`, {
        reason: CAUSES[next % CAUSES.length](next),
        delaySeconds: 1,
      });
    else if (Math.random() < 0.97)
      done.push({
        taskId: task.id,
        status: "COMPLETED",
        result: { pages: next % 40, file: `out/${next}.mp4` },
      });
  }
  if (done.length) await server.submit(done);
  return next;
}
