// What a task waited for, and what waits for it: after → this → waiting.

import { get, query, segment } from "../api.js";
import { badge, h, link, panel, replace } from "../dom.js";
import { plural, shortId } from "../format.js";
import { poll } from "../poll.js";
import { stateBadge, stateOf } from "../states.js";
import { taskLink } from "../tasks.js";

/** Neighbours whose state is asked for. */
const ASKED = 20;
/** Held tasks that are looked at for those that wait for this one. */
const LOOKED_AT = 500;
const EVERY_MS = 10_000;
/** What has ended does not change. */
const known = new Map();

async function found(path, signal) {
  try {
    return await get(path, { signal });
  } catch (error) {
    if (error.status === 404 || error.status === 501) return null;
    throw error;
  }
}

const isOver = (state) => ["completed", "failed", "dead", "gone"].includes(state);

/** A task, a batch, or something that is gone. */
async function neighbour(id, signal) {
  if (known.has(id)) return known.get(id);
  const task = await found(`/tasks/${segment(id)}`, signal);
  const batch = task ? null : await found(`/batches/${segment(id)}`, signal);
  const told = task
    ? { id, kind: "task", state: stateOf(task), name: task.command }
    : batch
      ? { id, kind: "batch", state: batch.state, name: batch.name ?? "batch" }
      : { id, kind: "task", state: "gone", name: "" };
  if (isOver(told.state)) known.set(id, told);
  return told;
}

function node({ id, kind, state, name }) {
  const to = kind === "batch" ? link(`#/batches/${segment(id)}`, shortId(id), { class: "mono", title: id }) : taskLink(id);
  return h("li", {}, to, name ? ` ${name} ` : " ", state ? (state === "gone" ? badge("gone") : stateBadge(state)) : null);
}

function side(title, list, more) {
  return h(
    "div",
    {},
    h("h3", {}, title),
    h("ul", {}, list.map(node), more > 0 ? h("li", { class: "muted" }, `and ${more} more`) : null),
  );
}

const arrow = () => h("div", { class: "arrow", "aria-hidden": "true" }, "→");

/** A panel that is there only if the task has neighbours. */
export function graph(task, signal) {
  const after = task.after ?? [];
  const root = h("div");
  let drawn = "";
  poll(
    async () => {
      const [before, held] = await Promise.all([
        Promise.all(after.slice(0, ASKED).map((id) => neighbour(id, signal))),
        get(`/admin/tasks${query({ place: "held", limit: LOOKED_AT })}`, { signal }),
      ]);
      const waiting = held.items
        .filter((other) => other.after?.includes(task.id))
        .map((other) => ({ id: other.id, kind: "task", state: stateOf(other), name: other.command }));
      const now = JSON.stringify([before, waiting]);
      if (now === drawn) return;
      drawn = now;
      if (after.length === 0 && waiting.length === 0) return void replace(root);
      const own = h("div", { class: "self" }, "This task");
      const left = after.length ? [side(`After ${plural(after.length, "other")}`, before, after.length - before.length), arrow()] : [];
      const shown = waiting.slice(0, ASKED);
      const right = waiting.length ? [arrow(), side("Waiting for it", shown, waiting.length - shown.length)] : [];
      replace(root, panel("Dependencies", {}, h("div", { class: "graph" }, left, own, right)));
    },
    EVERY_MS,
    signal,
  );
  return root;
}
