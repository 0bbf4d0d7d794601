// Bulk work: asking how much it is, starting it, and watching it.

import { get, post, remove, query, segment, subject } from "./api.js";
import { deed, field, h, panel, replace, setAttribute, setText } from "./dom.js";
import { ask, attempt } from "./dialog.js";
import { ago, count, plural } from "./format.js";
import { poll } from "./poll.js";

const RUNNING_MS = 700;
const WORDS = { requeue: "Replay", delete: "Delete", cancel: "Cancel" };
/** Operations that are shown. */
const SHOWN = 8;

function rateField() {
  const input = h("input", {
    name: "rate",
    type: "number",
    min: 0,
    step: 1,
    value: 100,
    inputmode: "numeric",
  });
  return field("Tasks per second (0: as fast as possible)", input);
}

function attemptsField() {
  const input = h("input", {
    name: "attempts",
    type: "number",
    min: 1,
    step: 1,
    placeholder: "as before",
    inputmode: "numeric",
  });
  return field("Attempts each task gets", input);
}

function told(matched, doing) {
  const text = matched === 0 ? "No task matches any more." : `${plural(matched, "task")} will be ${doing}.`;
  return { text, isPossible: matched > 0 };
}

/** What a dialog says about its target: the queue, the cause or filter, and who acts. */
function target({ command, cause, filter }) {
  const matching = Object.entries(filter ?? {}).map(([name, value]) => `${name} = ${value}`);
  const rows = [
    ["Queue", command === "*" ? "all queues" : command],
    ["Cause", cause],
    ["Matching", matching.join(", ")],
    ["As", subject()],
  ].filter(([, value]) => value);
  return h(
    "dl",
    { class: "facts target" },
    rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/** What an operation is about, and who asked for it. */
function about({ filter = {}, cause, by }) {
  const { command, group, place, ...rest } = filter;
  const matching = Object.entries(rest).map(([name, value]) => `${name} = ${value}`);
  const parts = [command ?? "all queues", cause ?? (group && `cause ${group}`), ...matching, by && `by ${by}`];
  return parts.filter(Boolean).join(" · ");
}

/** Gives failed tasks new attempts, after a dry run. `what` is {command, group, cause, filter, title, place}. */
export function replay(what) {
  const { command, group, filter } = what;
  const path = `/admin/${what.place === "failed" ? "failed" : "dlq"}/${segment(command)}/requeue`;
  return ask({
    title: `Replay ${what.title}?`,
    describe: async () =>
      told((await post(path, { group, filter, dryRun: true })).matched, "put back into their queue"),
    fields: [target(what), rateField(), attemptsField()],
    confirm: "Replay",
    act: (form) =>
      post(path, {
        group,
        filter,
        ratePerSecond: Number(form.get("rate")) || undefined,
        maxAttempts: Number(form.get("attempts")) || undefined,
      }),
  });
}

export function deleteDead(what) {
  const { command, group, filter } = what;
  const dry = `/admin/dlq/${segment(command)}/requeue`;
  return ask({
    title: `Delete ${what.title}?`,
    describe: async () =>
      told((await post(dry, { group, filter, dryRun: true })).matched, "deleted permanently, with their payloads"),
    fields: [target(what)],
    confirm: "Delete",
    isDangerous: true,
    act: () => remove(`/admin/dlq/${segment(command)}${query({ ...filter, group, confirm: true })}`),
  });
}

export function cancelMatching(filter) {
  return ask({
    title: "Cancel all matching tasks?",
    describe: async () =>
      told(
        (await post("/admin/tasks/cancel", { filter, dryRun: true })).matched,
        "cancelled; those that are running are taken from their workers",
      ),
    fields: [target({ filter }), rateField()],
    confirm: "Cancel tasks",
    isDangerous: true,
    act: (form) =>
      post("/admin/tasks/cancel", { filter, ratePerSecond: Number(form.get("rate")) || undefined }),
  });
}

/** A panel of the last operations that keeps itself up to date. */
export function operations(signal, onDone = () => {}) {
  const list = h("ul", { class: "operations" });
  const node = panel("Operations", { class: "operations-panel", hidden: true }, list);
  const rows = new Map();
  let running = new Set();
  const askNow = poll(
    async () => {
      const { items } = await get("/admin/operations", { signal });
      const shown = items.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1)).slice(0, SHOWN);
      node.hidden = shown.length === 0;
      for (const operation of shown) {
        if (!rows.has(operation.id))
          rows.set(
            operation.id,
            row(operation, () => askNow()),
          );
        rows.get(operation.id).update(operation);
      }
      const nodes = shown.map(({ id }) => rows.get(id).node);
      if (nodes.some((one, index) => list.children[index] !== one)) replace(list, nodes);
      const now = new Set(items.filter(({ state }) => state === "running").map(({ id }) => id));
      if ([...running].some((id) => !now.has(id))) onDone();
      running = now;
      if (now.size > 0) setTimeout(askNow, RUNNING_MS);
    },
    5000,
    signal,
  );
  return { node, refresh: askNow };
}

function row(operation, refresh) {
  const text = h("span", { class: "operation-text" });
  const bar = h("progress", {
    max: 1,
    "aria-label": `Progress of ${WORDS[operation.kind] ?? operation.kind}`,
  });
  const stop = deed(
    "Stop",
    async () => {
      await attempt(() => post(`/admin/operations/${segment(operation.id)}/cancel`), "Stopped.");
      refresh();
    },
    { class: "small" },
  );
  const node = h(
    "li",
    { "data-state": operation.state },
    h("b", {}, WORDS[operation.kind] ?? operation.kind),
    bar,
    h("span", { class: "operation-about" }, text, h("span", { class: "muted" }, about(operation))),
    stop,
  );
  const update = (next) => {
    const isRunning = next.state === "running";
    setAttribute(node, "data-state", next.state);
    if (next.matched || !isRunning) {
      bar.max = next.matched || 1;
      bar.value = isRunning ? next.processed : next.matched ? next.processed : 1;
    } else {
      bar.removeAttribute("value");
    }
    const of = next.matched === undefined ? "" : ` of ${count(next.matched)}`;
    const failed = next.failed ? `, ${count(next.failed)} unchanged` : "";
    const state = isRunning ? "running" : next.state;
    setText(
      text,
      `${count(next.processed)}${of}${failed} · ${state}${next.error ? `: ${next.error}` : ""} · ${ago(next.createdAt)}`,
    );
    stop.hidden = !isRunning;
  };
  return { node, update };
}
