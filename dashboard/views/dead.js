// Dead letters and failed tasks by cause, and what to do about them.

import { get, segment } from "../api.js";
import { deed, field, h, link, panel, replace, select } from "../dom.js";
import { count } from "../format.js";
import { deleteDead, operations, replay } from "../operations.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { taskLink, taskList, whenCell } from "../tasks.js";

/** What the page shows: dead letters ran out of attempts, failed tasks were given up by their workers. */
const KINDS = {
  dead: {
    route: "dlq",
    title: "Dead letters",
    some: "dead letters",
    empty: "No dead letters. Tasks that run out of attempts are kept here, grouped by cause.",
  },
  failed: {
    route: "failed",
    title: "Failed",
    some: "failed tasks",
    empty: "No failed tasks. Tasks that their worker gave up for good are kept here for a while, grouped by cause.",
  },
};

const causeCell = (place) => (group) => {
  const href = `#/search?place=${place}&group=${segment(group.group)}`;
  return h("div", { class: "cause" }, link(href, group.error || "(no error text)", { class: "mono" }));
};

function examplesCell(group) {
  return h(
    "span",
    { class: "examples" },
    group.examples.map((id) => taskLink(id, 8)),
  );
}

function groupTable(place, started) {
  const kind = KINDS[place];
  const act = (verb) => async (group) => {
    const what = {
      command: group.command,
      group: group.group,
      cause: group.error || "(no error text)",
      title: `${kind.some} of ${group.command}`,
      place,
    };
    if (await verb(what)) started();
  };
  const [again, drop] = [act(replay), act(deleteDead)];
  const actionsCell = (group) =>
    h(
      "span",
      { class: "actions" },
      deed("Replay…", () => again(group), {
        class: "small primary",
        "aria-label": `Replay ${group.command}: ${group.error}`,
      }),
      place === "dead" &&
        deed("Delete…", () => drop(group), {
          class: "small danger",
          "aria-label": `Delete ${group.command}: ${group.error}`,
        }),
    );
  return table({
    caption: `Causes of ${kind.some}`,
    key: ({ group }) => group,
    empty: kind.empty,
    columns: [
      { label: "Count", kind: "num strong", text: (group) => count(group.count) },
      { label: "Cause", isHead: true, kind: "wide", make: causeCell(place) },
      { label: "Queue", make: (group) => link(`#/queues/${segment(group.command)}`, group.command) },
      { label: "First", kind: "when", make: whenCell("firstSeen", true) },
      { label: "Last", kind: "when", make: whenCell("lastSeen", true) },
      { label: "Examples", kind: "full", make: examplesCell },
      { label: "Actions", isSilent: true, kind: "right", make: actionsCell },
    ],
  });
}

export const dead = (page) => show(page, "dead");
export const failed = (page) => show(page, "failed");

function show({ root, search, signal }, place) {
  const kind = KINDS[place];
  const command = search.get("command") || "*";
  let refresh = () => {};
  const work = operations(signal, () => refresh());
  const started = () => {
    work.refresh();
    refresh();
  };
  const grid = groupTable(place, started);
  const truncated = h("p", { class: "muted", hidden: true }, "Only the most frequent causes are shown.");
  const choice = select("command", [["*", "All queues"]], command);
  choice.addEventListener("change", () => {
    location.hash = choice.value === "*" ? `#/${place}` : `#/${place}?command=${segment(choice.value)}`;
  });
  const all = (verb) => async () => {
    const title = command === "*" ? `all ${kind.some}` : `all ${kind.some} of ${command}`;
    if (await verb({ command, title, place })) started();
  };
  const actions = h(
    "div",
    { class: "actions" },
    deed("Replay all…", all(replay)),
    place === "dead" && deed("Delete all…", all(deleteDead), { class: "danger" }),
  );
  const list = taskList({ caption: `Newest ${kind.some}`, empty: "None.", signal });
  const newest = panel("Newest", { hidden: true }, list.node);
  replace(
    root,
    h(
      "div",
      { class: "page-head" },
      h("h1", {}, kind.title),
      h("div", { class: "actions" }, field("Queue", choice, { class: "field inline" }), actions),
    ),
    work.node,
    panel("By cause", {}, grid.node, truncated),
    newest,
  );
  fillChoice(choice, command, signal);
  list.show("/admin/tasks", { place, command: command === "*" ? "" : command });
  refresh = poll(
    async () => {
      const found = await get(`/admin/${kind.route}/${segment(command)}/groups`, { signal });
      grid.update(found.groups);
      truncated.hidden = !found.truncated;
      actions.hidden = found.groups.length === 0;
      newest.hidden = found.groups.length === 0;
      await list.refresh();
    },
    4000,
    signal,
  );
}

async function fillChoice(choice, command, signal) {
  const { queues } = await get("/admin/queues?view=stats", { signal }).catch(() => ({ queues: [] }));
  const names = new Set(queues.map((queue) => queue.command));
  if (command !== "*") names.add(command);
  for (const name of [...names].sort())
    choice.append(h("option", { value: name, selected: name === command }, name));
}
