// One queue: how it goes, who works on it, what lies in it.

import { get, post, query, segment } from "../api.js";
import { badge, button, deed, h, link, panel, replace, setText } from "../dom.js";
import { ask, toast } from "../dialog.js";
import { follow } from "../events.js";
import { age, ago, count, plural } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { taskList } from "../tasks.js";
import { charts } from "./history.js";
import { figures } from "./overview.js";
import { limits } from "./policy.js";

/** Tabs, and the filter of each. */
const STATES = [
  ["ready", "Ready", { place: "ready" }],
  ["delayed", "Delayed", { place: "delayed" }],
  ["running", "In progress", { place: "running" }],
  ["held", "Held", { place: "held" }],
  ["dead", "Dead", { place: "dead" }],
  ["failed", "Failed", { place: "failed" }],
  ["cancelled", "Cancelled", { place: "cancelled" }],
  ["completed", "Completed", { place: "done", status: "COMPLETED" }],
];
const FIGURES = [
  ["Ready", "ready"],
  ["Delayed", "delayed"],
  ["In progress", "inProgress"],
  ["Held", "held"],
  ["Dead", "dlq"],
  ["Failed", "failed"],
  ["Oldest ready", "oldest"],
];
/** Of a queue, as the list of queues tells them. */
const PLACES = ["ready", "delayed", "inProgress", "held", "dlq", "failed"];
const EMPTY = { ...Object.fromEntries(PLACES.map((name) => [name, 0])), paused: false, oldestReadyAgeSeconds: 0 };
/** A worker that claimed nothing for so long is not shown any more. */
const SEEN_MS = 5 * 60_000;
/** Workers that are remembered. */
const WORKERS = 500;

function workers(command, signal) {
  const seen = new Map();
  const grid = table({
    caption: "Workers of this queue",
    key: ({ id }) => id,
    empty: "No worker has claimed from this queue in the last minutes.",
    columns: [
      { label: "Worker", kind: "mono cut", isHead: true, text: ({ id }) => id },
      { label: "Running", kind: "num", text: ({ running }) => count(running) },
      { label: "Claims seen", kind: "num", text: ({ claims }) => count(claims) },
      { label: "Last claim", kind: "when", text: ({ at }) => (at ? ago(at) : "–") },
    ],
  });
  const note = (id) => {
    if (!seen.has(id) && seen.size >= WORKERS) seen.delete(seen.keys().next().value);
    if (!seen.has(id)) seen.set(id, { id, running: 0, claims: 0, at: 0 });
    return seen.get(id);
  };
  const draw = () => {
    for (const [id, { running, at }] of seen) if (running === 0 && Date.now() - at > SEEN_MS) seen.delete(id);
    grid.update([...seen.values()].sort((a, b) => b.running - a.running || b.at - a.at));
  };
  const on = ({ type, workerId, at }) => {
    if (type !== "claimed" || !workerId) return;
    const worker = note(workerId);
    worker.claims += 1;
    worker.at = new Date(at).getTime();
  };
  follow({ filter: { command, types: "claimed" }, on, signal });
  poll(
    async () => {
      const { items } = await get(`/admin/tasks${query({ command, place: "running", limit: 500 })}`, {
        signal,
      });
      for (const worker of seen.values()) worker.running = 0;
      for (const { workerId, updatedAt } of items) {
        const worker = note(workerId || "?");
        worker.running += 1;
        worker.at = Math.max(worker.at, new Date(updatedAt).getTime());
      }
      draw();
    },
    3000,
    signal,
  );
  return panel("Workers", {}, grid.node);
}

function pauseButton(command, refresh) {
  let state = {};
  const node = deed("Pause", async () => {
    const verb = state.paused ? "resume" : "pause";
    const done = await ask({
      title: state.paused ? `Resume ${command}?` : `Pause ${command}?`,
      describe: async () =>
        state.paused
          ? `Workers get tasks from this queue again: ${plural(state.ready, "task")} ready now.`
          : `Workers get no tasks from this queue until it is resumed: ${plural(state.ready, "ready task")} will wait. The ${count(state.inProgress)} in progress continue, and new tasks are still accepted.`,
      confirm: state.paused ? "Resume" : "Pause",
      act: () => post(`/admin/queues/${segment(command)}/${verb}`),
    });
    if (done) toast(state.paused ? "Resumed." : "Paused.");
    refresh();
  });
  const update = (next) => {
    state = next;
    setText(node, next.paused ? "Resume" : "Pause");
  };
  return { node, update };
}

function tasksByState(command, signal) {
  const list = taskList({
    caption: `Tasks of ${command}`,
    hasCommand: false,
    empty: "No task in this state.",
    signal,
  });
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "State" });
  const choose = (word, filter) => {
    for (const tab of tabs.children) tab.setAttribute("aria-pressed", tab.dataset.state === word);
    list.show("/admin/tasks", { command, ...filter });
  };
  for (const [word, label, filter] of STATES) {
    tabs.append(button(label, () => choose(word, filter), { "data-state": word, "aria-pressed": "false" }));
  }
  choose(STATES[0][0], STATES[0][2]);
  poll(() => list.refresh(), 4000, signal);
  const all = link(`#/search?command=${segment(command)}`, "Search in this queue");
  return panel("Tasks", { tools: h("div", { class: "panel-tools" }, all) }, tabs, list.node);
}

export function queue({ root, rest, signal }) {
  const command = rest[0] ?? "";
  const totals = figures(FIGURES);
  const paused = badge("paused", "warn");
  paused.hidden = true;
  let refresh = () => {};
  const pause = pauseButton(command, () => refresh());
  const restricted = limits(command, signal, () => refresh());
  const head = h(
    "div",
    { class: "page-head" },
    h("div", {}, h("p", { class: "crumb" }, link("#/", "Queues")), h("h1", {}, command, " ", paused)),
    h(
      "div",
      { class: "actions" },
      link(`#/dead?command=${segment(command)}`, "Dead letters", { class: "button" }),
      link(`#/failed?command=${segment(command)}`, "Failed", { class: "button" }),
      pause.node,
    ),
  );
  replace(
    root,
    head,
    totals.node,
    panel("Over time", { class: "charts-panel" }, charts({ command, signal })),
    workers(command, signal),
    restricted.node,
    tasksByState(command, signal),
  );
  refresh = poll(
    async () => {
      const { queues } = await get("/admin/queues?view=stats", { signal });
      const own = queues.find((one) => one.command.toLowerCase() === command.toLowerCase()) ?? EMPTY;
      paused.hidden = !own.paused;
      pause.update(own);
      restricted.update(own.policy);
      const numbers = PLACES.map((name) => [name, count(own[name])]);
      totals.update({
        ...Object.fromEntries(numbers),
        oldest: own.ready > 0 ? age(own.oldestReadyAgeSeconds) : "–",
      });
    },
    2000,
    signal,
  );
}
