// Every queue at a glance.

import { get, query, segment, session } from "../api.js";
import { sparkline } from "../chart.js";
import { badge, h, link, panel, replace, setAttribute, setText } from "../dom.js";
import { age, count, plural, rate } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { attention, problemOf } from "./attention.js";
import { charts } from "./history.js";
import { storeHealth } from "./store.js";
import { welcome } from "./welcome.js";

const EVERY_MS = 2000;
const SPARK = { minutes: 15, points: 60 };

const FIGURES = [
  ["Ready", "ready"],
  ["Delayed", "delayed"],
  ["In progress", "inProgress"],
  ["Dead", "dlq"],
  ["Failed", "failed"],
];

export function figures(names = FIGURES) {
  const cells = names.map(([label, name]) => {
    const value = h("dd", { "data-figure": name }, "–");
    return { name, value, node: h("div", { class: `figure figure-${name}` }, h("dt", {}, label), value) };
  });
  const node = h(
    "dl",
    { class: "figures" },
    cells.map((cell) => cell.node),
  );
  const update = (values) => {
    for (const { name, value, node: box } of cells) {
      if (values[name] === undefined) continue;
      setText(value, values[name]);
      setAttribute(box, "data-some", values[name] !== "0" ? "yes" : "no");
    }
  };
  return { node, update };
}

const queueHref = (command) => `#/queues/${segment(command)}`;
const keyOf = ({ command, tenantId }) => `${command.toLowerCase()}\n${tenantId}`;

function nameCell(queue) {
  const paused = badge("paused", "warn");
  const node = h("span", { class: "queue-name" }, link(queueHref(queue.command), queue.command), paused);
  return { node, update: (next) => (paused.hidden = !next.paused) };
}

function ageCell() {
  const node = h("span");
  const update = (queue) => {
    setText(node, queue.ready > 0 ? age(queue.oldestReadyAgeSeconds) : "–");
    setAttribute(
      node,
      "class",
      queue.ready > 0 && (problemOf(queue)?.[0] ?? 0) >= 4 ? "warn-text" : null,
    );
  };
  return { node, update };
}

/** How many have failed, as a link to the page that says why. */
const endedCell = (name, page) => () => {
  const node = h("span");
  const update = (queue) => {
    const number = queue[name] ?? 0;
    if (node.dataset.count === String(number)) return;
    node.dataset.count = number;
    const href = `#/${page}?command=${segment(queue.command)}`;
    replace(node, number > 0 ? link(href, count(number), { class: "bad-text" }) : "0");
  };
  return { node, update };
};

function sparkCell(queue) {
  const spark = sparkline(`Created and ended in ${queue.command} over 15 minutes`);
  const update = (next) => next.history && spark.update(next.history.created, next.history.ended);
  return { node: spark.node, update };
}

const number = (label, name) => ({
  label,
  kind: "num",
  sort: (queue) => queue[name],
  isDownFirst: true,
  text: (queue) => count(queue[name]),
});

const per = (label, name) => ({
  label,
  kind: "num",
  sort: (queue) => queue.history?.[name] ?? 0,
  isDownFirst: true,
  text: (queue) => (queue.history ? rate(queue.history[name]) : "–"),
});

const COLUMNS = [
  { label: "Queue", isHead: true, sort: (queue) => queue.command.toLowerCase(), make: nameCell },
  number("Ready", "ready"),
  number("Delayed", "delayed"),
  number("In progress", "inProgress"),
  { ...number("Dead", "dlq"), text: undefined, make: endedCell("dlq", "dead") },
  { ...number("Failed", "failed"), text: undefined, make: endedCell("failed", "failed") },
  {
    label: "Oldest",
    kind: "num",
    sort: (queue) => queue.oldestReadyAgeSeconds ?? 0,
    isDownFirst: true,
    make: ageCell,
  },
  per("In", "createdPerSecond"),
  per("Out", "endedPerSecond"),
  { label: "Last 15 min", kind: "spark-cell", make: sparkCell },
];

export function overview({ root, signal }) {
  const totals = figures([...FIGURES, ["Created", "in"], ["Ended", "out"]]);
  const grid = table({
    caption: "Queues by name",
    columns: COLUMNS,
    key: keyOf,
    sorted: 0,
    empty: "No queue matches.",
  });
  const filter = h("input", {
    type: "search",
    placeholder: "Filter queues",
    "aria-label": "Filter queues by name",
  });
  const number = h("span", { class: "muted", role: "status" });
  const list = panel("Queues", { tools: h("div", { class: "panel-tools" }, number, filter) }, grid.node);
  const start = h("div", { hidden: true });
  const urgent = attention();
  let queues = null;
  let histories = new Map();

  const draw = () => {
    if (!queues) return;
    const rows = queues.map((queue) => ({ ...queue, history: histories.get(keyOf(queue)) }));
    const wanted = filter.value.trim().toLowerCase();
    grid.update(rows.filter(({ command }) => command.toLowerCase().includes(wanted)));
    setText(number, plural(rows.length, "queue"));
    const sum = (name) => rows.reduce((total, row) => total + (row[name] ?? 0), 0);
    totals.update(Object.fromEntries(FIGURES.map(([, name]) => [name, count(sum(name))])));
    urgent.update(rows);
    list.hidden = rows.length === 0;
    if (rows.length === 0 && !start.firstChild) start.append(welcome());
    start.hidden = rows.length > 0;
  };
  filter.addEventListener("input", draw);

  replace(
    root,
    h("h1", { class: "unseen" }, "Overview"),
    totals.node,
    urgent.node,
    start,
    panel("All queues", { class: "charts-panel" }, charts({ signal })),
    list,
    storeHealth(signal),
  );

  poll(
    async () => {
      const answer = await get(`/admin/queues?view=stats`, { signal });
      ({ queues } = answer);
      session.tenant = queues[0]?.tenantId ?? session.tenant;
      draw();
    },
    EVERY_MS,
    signal,
  );
  poll(
    async () => {
      const history = await get(`/admin/history${query(SPARK)}`, { signal });
      histories = new Map(history.queues.map((one) => [keyOf(one), one]));
      const sum = (name) => history.queues.reduce((total, one) => total + one[name], 0);
      totals.update({ in: rate(sum("createdPerSecond")), out: rate(sum("endedPerSecond")) });
      draw();
    },
    2 * EVERY_MS,
    signal,
  );
}
