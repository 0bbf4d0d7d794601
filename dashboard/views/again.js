// A new task from one that exists: edit what was wrong with it and run it again.

import { post } from "../api.js";
import { field, h } from "../dom.js";
import { ask } from "../dialog.js";
import { parseExactly } from "../content.js";

/** Characters of a payload that is offered for editing; larger ones are slow to type in. */
const EDITABLE = 200_000;

function neat(text) {
  try {
    return JSON.stringify(parseExactly(text), null, 2);
  } catch {
    return text;
  }
}

function read(text) {
  try {
    return parseExactly(text);
  } catch (error) {
    throw new Error(`The payload is not JSON: ${error.message}`);
  }
}

/** What the new task takes over: everything but what names this one task. */
function inherited({ webhook, headers, lane, tags }) {
  const { "codeq-schedule": _, ...others } = headers ?? {};
  return { webhook, lane, tags, headers: Object.keys(others).length ? others : undefined };
}

const number = (name, value, min, max) =>
  h("input", { name, type: "number", min, max, step: 1, value, required: true });

/** Asks, creates, and goes to the new task. */
export async function runAgain(task) {
  const payload = task.payload ?? "null";
  if (payload.length > EDITABLE) throw new Error("The payload is too large to edit here; use the API.");
  const text = h("textarea", { name: "payload", rows: 12, class: "mono", spellcheck: "false" });
  text.value = neat(payload);
  const command = h("input", { name: "command", value: task.command, required: true, autocomplete: "off" });
  const made = await ask({
    title: "New task from this one",
    describe: async () =>
      "A new task will be created; this one stays as it is. Headers, tags, lane and callback are taken over, keys are not.",
    fields: [
      field("Queue", command),
      field("Payload", text),
      field("Priority", number("priority", task.priority ?? 0, 0, 9)),
      field("Attempts", number("maxAttempts", task.maxAttempts ?? 5, 1, 1000)),
      field("Delay in seconds", number("delaySeconds", 0, 0, 31_536_000)),
    ],
    confirm: "Create task",
    act: (values) =>
      post("/tasks", {
        ...inherited(task),
        command: String(values.get("command")).trim(),
        payload: read(String(values.get("payload"))),
        priority: Number(values.get("priority")),
        maxAttempts: Number(values.get("maxAttempts")),
        delaySeconds: Number(values.get("delaySeconds")) || undefined,
      }),
  });
  if (made?.id) location.hash = `#/tasks/${encodeURIComponent(made.id)}`;
}
