// Choosing rows of a list of tasks, and doing one thing to all of them.

import { post, remove, segment } from "./api.js";
import { button, deed, h, setText } from "./dom.js";
import { ask, attempt, toast } from "./dialog.js";
import { plural } from "./format.js";
import { stateOf } from "./states.js";

const LIVE = ["ready", "delayed", "running"];

const VERBS = [
  {
    word: "Replay",
    fits: (state) => state === "dead" || state === "failed",
    doing: "put back into their queues with a full set of attempts",
    act: ({ id, command }) => post(`/admin/dlq/${segment(command)}/${segment(id)}/requeue`, {}),
  },
  {
    word: "Cancel",
    fits: (state) => LIVE.includes(state),
    doing: "cancelled; those that are running are taken from their workers",
    isDangerous: true,
    act: ({ id }) => post(`/admin/tasks/${segment(id)}/cancel`),
  },
  {
    word: "Delete",
    fits: (state) => state === "dead",
    doing: "deleted permanently, with their payloads",
    isDangerous: true,
    act: ({ id, command }) => remove(`/admin/dlq/${segment(command)}/${segment(id)}`),
  },
];

/** One after the other; what changed in the meantime is counted, not an error. */
async function each(tasks, act) {
  let failed = 0;
  for (const task of tasks) {
    try {
      await act(task);
    } catch (error) {
      if (error.isAway || error.status === 401 || error.status === 403) throw error;
      failed += 1;
    }
  }
  return failed;
}

/** `cell` makes the box of a row, `update(tasks)` follows the list, `changed` is called after an action. */
export function selection({ changed }) {
  const chosen = new Set();
  const boxes = new Map();
  let tasks = [];
  const all = h("input", { type: "checkbox", "aria-label": "Select all tasks shown" });
  const status = h("span", { class: "muted", role: "status" });
  const picked = () => tasks.filter(({ id }) => chosen.has(id));
  const buttons = VERBS.map((verb) => ({
    verb,
    node: deed(`${verb.word}…`, () => perform(verb), { class: verb.isDangerous ? "small danger" : "small", hidden: true }),
  }));
  const copy = button(
    "Copy ids",
    () => attempt(() => navigator.clipboard.writeText(picked().map(({ id }) => id).join("\n")), "Ids copied."),
    { class: "small", hidden: true },
  );
  const node = h(
    "div",
    { class: "selection", hidden: true },
    h("label", { class: "select-all" }, all, "Select all"),
    status,
    buttons.map((one) => one.node),
    copy,
  );

  async function perform(verb) {
    const fitting = picked().filter((task) => verb.fits(stateOf(task)));
    const done = await ask({
      title: `${verb.word} ${plural(fitting.length, "task")}?`,
      describe: async () => `${plural(fitting.length, "selected task")} will be ${verb.doing}.`,
      confirm: verb.word,
      isDangerous: verb.isDangerous,
      act: async () => ({ failed: await each(fitting, verb.act) }),
    });
    if (!done) return;
    const left = done.failed ? `; ${plural(done.failed, "task")} had changed and stayed as they were` : "";
    toast(`${verb.word}: ${plural(fitting.length - done.failed, "task")} done${left}.`);
    chosen.clear();
    draw();
    changed();
  }

  function draw() {
    const rows = picked();
    for (const [id, box] of boxes) box.checked = chosen.has(id);
    all.checked = rows.length > 0 && rows.length === tasks.length;
    all.indeterminate = rows.length > 0 && rows.length < tasks.length;
    setText(status, rows.length ? `${plural(rows.length, "task")} selected` : "");
    for (const { verb, node: one } of buttons) one.hidden = !rows.some((task) => verb.fits(stateOf(task)));
    copy.hidden = rows.length === 0;
    node.hidden = tasks.length === 0;
  }

  all.addEventListener("change", () => {
    for (const { id } of tasks) all.checked ? chosen.add(id) : chosen.delete(id);
    draw();
  });

  const cell = (task) => {
    const box = h("input", { type: "checkbox", "aria-label": `Select task ${task.id}` });
    box.addEventListener("change", () => {
      box.checked ? chosen.add(task.id) : chosen.delete(task.id);
      draw();
    });
    boxes.set(task.id, box);
    return box;
  };

  const update = (next) => {
    tasks = next;
    const ids = new Set(tasks.map(({ id }) => id));
    for (const id of chosen) if (!ids.has(id)) chosen.delete(id);
    for (const id of boxes.keys()) if (!ids.has(id)) boxes.delete(id);
    draw();
  };
  return { node, cell, update };
}
