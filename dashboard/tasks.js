// Lists of tasks, page by page.

import { get, query, session } from "./api.js";
import { button, h, link, setText } from "./dom.js";
import { ago, plural, shortId, time } from "./format.js";
import { selection } from "./selection.js";
import { countedAttempts, stateBadge, stateOf } from "./states.js";
import { table } from "./table.js";

const PAGE = 100;

export function taskLink(id, length) {
  return link(`#/tasks/${encodeURIComponent(id)}`, shortId(id, length), { class: "mono", title: id });
}

/** A cell with an instant and its age, or with the age alone. */
export function whenCell(name, isShort = false) {
  return (row) => {
    const node = h("time", { datetime: row[name], title: row[name] });
    const update = (next) =>
      setText(node, isShort ? ago(next[name]) : `${time(next[name])} · ${ago(next[name])}`);
    return { node, update };
  };
}

/** A completed task keeps the error of an earlier attempt, which is no news; of a traceback the end says most. */
function errorOf(task) {
  if (!task.error || task.status === "COMPLETED") return "–";
  return task.error.trim().split("\n").at(-1);
}

function columns(hasCommand, box) {
  const all = [
    box && { label: "Select", isSilent: true, kind: "box", make: box },
    { label: "Task", isHead: true, make: (task) => taskLink(task.id) },
    hasCommand && {
      label: "Queue",
      make: (task) => link(`#/queues/${encodeURIComponent(task.command)}`, task.command),
    },
    { label: "State", make: (task) => stateCell(task) },
    { label: "Attempts", kind: "num", text: (task) => `${countedAttempts(task)}/${task.maxAttempts ?? "∞"}` },
    { label: "Priority", kind: "num", text: (task) => task.priority ?? 0 },
    { label: "Worker", kind: "mono cut", text: (task) => task.workerId || "–" },
    { label: "Error", kind: "error cut", text: errorOf },
    { label: "Created", kind: "when", make: whenCell("createdAt") },
    { label: "Changed", kind: "when", make: whenCell("updatedAt") },
  ];
  return all.filter(Boolean);
}

function stateCell(task) {
  const node = h("span");
  const update = (next) => node.replaceChildren(stateBadge(stateOf(next)));
  return { node, update: (next) => (node.textContent !== stateOf(next) ? update(next) : undefined) };
}

/**
 * A table over a listing of any length: `show(path, filter)` starts it again, a button brings the next page.
 * Resolves once the first page is there.
 */
export function taskList({ caption, hasCommand = true, empty, signal }) {
  const chosen = session.isAdmin ? selection({ changed: () => refresh() }) : null;
  const shown = columns(hasCommand, chosen?.cell);
  const rows = table({ caption, columns: shown, key: (task) => task.id, empty });
  const grid = {
    node: rows.node,
    update(list) {
      rows.update(list);
      chosen?.update(list);
    },
  };
  const more = button("Load more", () => next(), { hidden: true });
  const status = h("span", { class: "muted", role: "status" }, "Loading…");
  const node = h("div", { class: "task-list" }, chosen?.node, grid.node, h("div", { class: "list-foot" }, status, more));
  let items = [];
  let asked = { path: "", filter: {}, cursor: "", number: 0, examined: 0 };

  function tell(page) {
    grid.update(items);
    asked.cursor = page.next ?? "";
    more.hidden = !page.next;
    setText(more, page.examined === undefined ? "Load more" : "Look further");
    const found = `${plural(items.length, "task")}${page.next ? " so far" : ""}`;
    const looked = page.examined === undefined ? "" : `; ${plural(asked.examined, "payload")} looked at`;
    setText(status, found + looked);
  }

  async function next() {
    const mine = asked.number;
    more.disabled = true;
    try {
      const page = await pageOf(asked, signal);
      if (asked.number !== mine) return;
      items = items.concat(page.items);
      asked.examined += page.examined ?? 0;
      tell(page);
    } catch (error) {
      if (!signal.aborted && asked.number === mine) setText(status, error.message);
      more.hidden = false;
      if (error.isAway && !signal.aborted) setTimeout(() => asked.number === mine && next(), 2000);
    }
    more.disabled = false;
  }

  async function show(path, filter) {
    asked = { path, filter, cursor: "", number: asked.number + 1, examined: 0 };
    items = [];
    await next();
  }

  /** The first page again, if no more than that is on display. What is in payloads is not looked for again and again. */
  async function refresh() {
    if (items.length > PAGE || !asked.path || more.disabled || asked.filter.payloadContains) return;
    const mine = asked.number;
    const page = await pageOf({ ...asked, cursor: "" }, signal);
    if (asked.number !== mine || items.length > PAGE) return;
    items = page.items;
    tell(page);
  }

  return { node, show, refresh, items: () => items };
}

/** A page may be empty although there are more; those are passed over, unless each of them costs a search. */
async function pageOf({ path, filter, cursor }, signal) {
  let from = cursor;
  for (;;) {
    const page = await get(`${path}${query({ ...filter, limit: PAGE, cursor: from })}`, { signal });
    if (page.items.length > 0 || !page.next || page.examined !== undefined) return page;
    from = page.next;
  }
}
