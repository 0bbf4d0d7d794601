// Who works, and what each has in hand.

import { get } from "../api.js";
import { h, link, panel, replace, setText } from "../dom.js";
import { ago, plural } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { taskLink } from "../tasks.js";

/** Tasks of a worker that are shown in its row. */
const SHOWN = 5;

const of = (count, slots) => (slots === undefined ? `${count}` : `${count} of ${slots}`);

/** A cell that is made anew when what it shows has changed. */
function cell(make, name) {
  return (row) => {
    const node = h("span");
    let shown;
    const update = (next) => {
      const now = JSON.stringify(next[name]);
      if (now === shown) return;
      shown = now;
      node.replaceChildren(...make(next));
    };
    update(row);
    return { node, update };
  };
}

function commands(worker) {
  if (worker.commands.length === 0) return ["any"];
  const links = worker.commands.map((name) =>
    name === "*" ? "any" : link(`#/queues/${encodeURIComponent(name)}`, name),
  );
  return links.flatMap((entry, index) => (index === 0 ? [entry] : [", ", entry]));
}

function tasks(worker) {
  if (worker.runningCount === 0) return ["–"];
  const links = worker.running.slice(0, SHOWN).flatMap((id) => [taskLink(id), " "]);
  const more = worker.runningCount - Math.min(SHOWN, worker.running.length);
  return more > 0 ? [...links, `and ${more} more`] : links;
}

const columns = [
  { label: "Worker", isHead: true, kind: "mono cut", text: (worker) => worker.worker },
  { label: "Token", kind: "cut", text: (worker) => worker.sub || "–" },
  { label: "Over", text: (worker) => (worker.protocol === "grpc" ? "stream" : "HTTP") },
  { label: "Commands", make: cell(commands, "commands") },
  { label: "In hand", kind: "num", text: (worker) => of(worker.runningCount, worker.slots) },
  { label: "Tasks", make: cell(tasks, "running") },
  { label: "Host", kind: "mono cut", text: (worker) => worker.host || "–" },
  {
    label: "SDK",
    text: (worker) => (worker.sdk ? `${worker.sdk} ${worker.version ?? ""}`.trim() : "–"),
  },
  { label: "Last seen", kind: "when", text: (worker) => ago(worker.lastSeenAt) },
];

export function workers({ root, signal }) {
  const status = h("span", { class: "muted", role: "status" }, "Loading…");
  const grid = table({
    caption: "Workers",
    columns,
    key: ({ sub, worker, protocol }) => JSON.stringify([sub, worker, protocol]),
    empty: "No worker was heard of within the last five minutes.",
  });
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Workers")),
    panel(
      "Claimed or reported within the last five minutes",
      {},
      grid.node,
      h("div", { class: "list-foot" }, status),
    ),
  );
  poll(
    async () => {
      const { items } = await get("/admin/workers", { signal });
      grid.update(items);
      const running = items.reduce((sum, { runningCount }) => sum + runningCount, 0);
      setText(status, `${plural(items.length, "worker")}, ${plural(running, "task")} in hand`);
    },
    2000,
    signal,
  );
}
