// What a producer makes of the answers to its creates, and of none.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, PayloadTooLarge, Task, Unavailable } from "../src/index.js";

type Create = { command: string; payload: unknown; idempotencyKey: string };

/** Creates tasks, and refuses a batch with a payload "bad" as a whole. The first answers are lost. */
function server(lost = 0): { client: Client; asked: Create[][]; made: Map<string, string> } {
  const asked: Create[][] = [];
  const made = new Map<string, string>();
  let left = lost;
  const answer: typeof fetch = async (_, init) => {
    const { tasks } = JSON.parse(String(init?.body)) as { tasks: Create[] };
    asked.push(tasks);
    if (tasks.some(({ payload }) => payload === "bad")) {
      return Response.json({ error: "payload too large", code: "payload_too_large" }, { status: 413 });
    }
    const results = tasks.map(({ command, idempotencyKey: key }) => {
      const replayed = made.has(key);
      if (!replayed) made.set(key, `task-${made.size}`);
      return { task: { id: made.get(key), command, status: "PENDING" }, replayed };
    });
    if (left-- > 0) throw new TypeError("fetch failed");
    return Response.json({ results });
  };
  return { client: new Client({ url: "http://fake", token: "t", fetch: answer }), asked, made };
}

test("a batch whose answer was lost is sent again with the same keys", async () => {
  const { client, asked, made } = server(2);
  const tasks = await client.createMany("mail", [1, 2, 3]);
  assert.deepEqual(asked[1], asked[0]);
  assert.deepEqual(asked[2], asked[0]);
  assert.equal(made.size, 3);
  // They are there already, because we made them.
  assert.deepEqual(
    tasks.map((one) => one instanceof Task && one.replayed),
    [false, false, false],
  );
});

test("a create that spoils its batch takes no other with it", async () => {
  const [first, second, third] = await server().client.createMany("mail", ["a", "bad", "b"]);
  assert(first instanceof Task && second instanceof PayloadTooLarge && third instanceof Task);
});

test("an answer that is not ours is none", async () => {
  const page: typeof fetch = async () => new Response("<html>");
  const client = new Client({ url: "http://fake", token: "t", fetch: page, giveUp: "100ms" });
  await assert.rejects(client.create("mail", 1), Unavailable);
});

test("a wait ends with its timeout when the server is away", async () => {
  const away: typeof fetch = async () => {
    throw new TypeError("fetch failed");
  };
  const started = Date.now();
  const client = new Client({ url: "http://fake", token: "t", fetch: away });
  await assert.rejects(client.wait("task-1", { timeout: "200ms" }), Unavailable);
  assert(Date.now() - started < 10_000);
});
