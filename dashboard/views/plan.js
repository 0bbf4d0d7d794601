// Making, changing and deleting a schedule.

import { getText, put, remove, segment } from "../api.js";
import { field, h, select } from "../dom.js";
import { ask, toast } from "../dialog.js";
import { parseExactly } from "../content.js";

const OVERLAPS = [
  ["skip", "Skip the tick while the task before lives"],
  ["allow", "Make a task for every tick"],
  ["cancel", "Cancel the task before"],
];
/** What a change leaves as it is. */
const KEPT = ["anchor", "catchUp", "catchUpWindowSeconds", "jitterSeconds", "startAt", "endAt", "paused"];

const input = (name, value, more = {}) => h("input", { name, value, autocomplete: "off", spellcheck: "false", ...more });

function payloadOf(text) {
  try {
    return parseExactly(text);
  } catch (error) {
    throw new Error(`The payload is not JSON: ${error.message}`);
  }
}

/** The body of a put from the form, with what the form does not show of the schedule as it was. */
function bodyOf(values, before) {
  const text = (name) => String(values.get(name) ?? "").trim();
  const [cron, every] = [text("cron"), text("everySeconds")];
  if (Boolean(cron) === Boolean(every)) throw new Error("Give either a cron expression or a number of seconds.");
  const kept = Object.fromEntries(KEPT.filter((name) => before[name] !== undefined).map((name) => [name, before[name]]));
  if (!every) delete kept.anchor;
  return {
    ...kept,
    cron: cron || undefined,
    everySeconds: every ? Number(every) : undefined,
    timezone: text("timezone") || undefined,
    overlap: text("overlap"),
    task: { ...before.task, command: text("command"), payload: payloadOf(text("payload")) },
  };
}

/** Asks for a plan and puts it; with a name it changes that schedule. */
export async function edit(name) {
  const before = name ? parseExactly(await getText(`/schedules/${segment(name)}`)) : { task: {} };
  const payload = h("textarea", { name: "payload", rows: 6, class: "mono", spellcheck: "false" });
  payload.value = JSON.stringify(before.task.payload ?? {}, null, 2);
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
  const done = await ask({
    title: name ? `Change ${name}` : "New schedule",
    describe: async () => "Every tick makes one task. Give a cron expression, or a number of seconds.",
    fields: [
      name ? null : field("Name", input("name", "", { required: true, maxlength: 200 })),
      field("Cron", input("cron", before.cron ?? "", { placeholder: "30 2 * * *" })),
      field("Every (seconds)", input("everySeconds", before.everySeconds ?? "", { type: "number", min: 1 })),
      field("Time zone", input("timezone", before.timezone ?? here)),
      field("Queue", input("command", before.task.command ?? "", { required: true })),
      field("Payload", payload),
      field("While the last task lives", select("overlap", OVERLAPS, before.overlap ?? "skip")),
    ],
    confirm: name ? "Change" : "Create",
    act: async (values) => {
      const title = name ?? String(values.get("name")).trim();
      await put(`/schedules/${segment(title)}`, bodyOf(values, before));
      return { title };
    },
  });
  if (done) toast(`${done.title} is in force.`);
}

export function drop(name) {
  return ask({
    title: `Delete ${name}?`,
    describe: async () => "It makes no more tasks. Those that it has made stay.",
    confirm: "Delete",
    isDangerous: true,
    act: () => remove(`/schedules/${segment(name)}`),
  });
}
