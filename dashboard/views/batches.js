// Batches: those of recent tasks, and one with its counts and members.

import { get, post, query, remove, segment } from "../api.js";
import { badge, deed, field, h, link, panel, replace, setText } from "../dom.js";
import { ask } from "../dialog.js";
import { ago, count, plural, shortId, time } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { taskList } from "../tasks.js";

/** Tasks that are looked at to find batches: there is no list of these. */
const LOOKED_AT = 500;
/** Batches that are asked for. */
const SHOWN = 50;
const EVERY_MS = 3000;

const KINDS = { open: "now", closed: "warn", completed: "good", failed: "bad" };

function stateText({ state, cancelled }) {
  return cancelled ? `${state}, cancelled` : state;
}

/** What is known of a batch; null if it is gone. */
async function read(id, signal) {
  try {
    return await get(`/batches/${segment(id)}`, { signal });
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function meter(label) {
  const bar = h("progress", { max: 1, value: 0, "aria-label": label });
  const text = h("span", { class: "muted" });
  return {
    node: h("span", { class: "told-progress" }, bar, text),
    update({ progress, counts }) {
      bar.value = progress;
      setText(text, `${Math.floor(progress * 100)} %, ${plural(counts.live, "task")} left`);
    },
  };
}

function columns() {
  return [
    {
      label: "Batch",
      isHead: true,
      make: ({ id }) => link(`#/batches/${segment(id)}`, shortId(id), { class: "mono", title: id }),
    },
    { label: "Name", kind: "cut", text: ({ name }) => name || "–" },
    {
      label: "State",
      make: () => {
        const node = h("span");
        return { node, update: (next) => node.replaceChildren(badge(stateText(next), KINDS[next.state])) };
      },
    },
    { label: "Progress", make: ({ id }) => meter(`Progress of ${id}`) },
    { label: "Completed", kind: "num", text: ({ counts }) => count(counts.completed) },
    { label: "Failed", kind: "num", text: ({ counts }) => count(counts.failed) },
    { label: "Created", kind: "when", text: ({ createdAt }) => ago(createdAt) },
  ];
}

/** The batches of the newest tasks, the newest first. */
async function recent(signal) {
  const page = await get(`/admin/tasks${query({ order: "newest", limit: LOOKED_AT })}`, { signal });
  const ids = [...new Set(page.items.map(({ batchId }) => batchId).filter(Boolean))].slice(0, SHOWN);
  const batches = await Promise.all(ids.map((id) => read(id, signal)));
  return batches.filter(Boolean);
}

function finder() {
  const id = h("input", { name: "id", autocomplete: "off", spellcheck: "false", required: true });
  const form = h(
    "form",
    { class: "filter", role: "search", "aria-label": "Find a batch" },
    field("Batch id", id),
    h("button", { type: "submit", class: "primary" }, "Open"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#/batches/${segment(id.value.trim())}`;
  });
  return form;
}

function list(root, signal) {
  const grid = table({
    caption: "Batches of recent tasks",
    columns: columns(),
    key: ({ id }) => id,
    empty: "No recent task belongs to a batch. Make one with POST /v1/codeq/batches or `codeq batch create`.",
  });
  const status = h("span", { class: "muted", role: "status" }, "Loading…");
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Batches")),
    panel("Find a batch", {}, finder()),
    panel("Recent batches", {}, grid.node, h("div", { class: "list-foot" }, status)),
  );
  poll(
    async () => {
      grid.update(await recent(signal));
      setText(status, `Batches of the newest ${LOOKED_AT} tasks.`);
    },
    EVERY_MS,
    signal,
  );
}

function actions(batch, refresh) {
  const path = `/batches/${segment(batch.id)}`;
  const act = (settings) => async () => {
    if (await ask(settings)) refresh();
  };
  const left = plural(batch.counts.live, "live task");
  return [
    batch.state === "open" &&
      deed(
        "Close",
        act({
          title: "Close this batch?",
          describe: async () => `No more tasks can join. It ends when none of its tasks lives; ${left} now.`,
          confirm: "Close",
          act: () => post(`${path}/close`),
        }),
      ),
    !batch.endedAt &&
      deed(
        "Cancel batch",
        act({
          title: "Cancel this batch?",
          describe: async () => `${left} will be cancelled and the batch fails.`,
          confirm: "Cancel batch",
          isDangerous: true,
          act: () => remove(path),
        }),
        { class: "danger" },
      ),
  ].filter(Boolean);
}

function facts(batch) {
  const rows = [
    ["Completed", count(batch.counts.completed)],
    ["Failed", count(batch.counts.failed)],
    ["Live", count(batch.counts.live)],
    ["Created", time(batch.createdAt)],
    ["Closes after", `${count(batch.closeAfterSeconds)} s without a new task`],
    ["Closed", batch.closedAt && time(batch.closedAt)],
    ["Ended", batch.endedAt && time(batch.endedAt)],
  ];
  const shown = rows.filter(([, value]) => value);
  return h("dl", { class: "facts-row" }, shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function gone(root, id) {
  replace(
    root,
    h(
      "div",
      { class: "empty" },
      h("h1", {}, "There is no such batch"),
      h("p", { class: "mono" }, id),
      h("p", {}, "It never existed, its retention is over, or it belongs to another tenant."),
      h("p", {}, link("#/batches", "Recent batches")),
    ),
  );
}

async function one(root, id, signal) {
  const first = await read(id, signal);
  if (!first) return gone(root, id);
  const head = h("div", { class: "page-head" });
  const bar = meter("Progress");
  const told = h("div");
  const members = taskList({ caption: "Members of this batch", empty: "No task has joined.", signal });
  replace(
    root,
    head,
    panel("Progress", {}, bar.node, told),
    panel("Members", {}, members.node),
  );
  let drawn = "";
  let refresh = () => {};
  const draw = (batch) => {
    bar.update(batch);
    const now = JSON.stringify(batch);
    if (now === drawn) return;
    drawn = now;
    const crumb = h("nav", { class: "crumb", "aria-label": "Breadcrumb" }, link("#/batches", "Batches"), " / Batch");
    const title = h("h1", { class: "mono" }, batch.id, " ", badge(stateText(batch), KINDS[batch.state]));
    replace(
      head,
      h("div", {}, crumb, title, batch.name ? h("p", { class: "muted" }, batch.name) : null),
      h("div", { class: "actions" }, actions(batch, () => refresh())),
    );
    replace(told, facts(batch));
  };
  draw(first);
  await members.show(`/batches/${segment(id)}/members`, {});
  refresh = poll(
    async () => {
      const batch = await read(id, signal);
      if (!batch) return gone(root, id);
      draw(batch);
      return members.refresh();
    },
    EVERY_MS,
    signal,
  );
  return undefined;
}

export function batches({ root, rest, signal }) {
  return rest[0] ? one(root, rest[0], signal) : list(root, signal);
}
