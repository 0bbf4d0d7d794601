// Dead letters by cause, and what to do about them.

import { get, segment } from "../api.js";
import { button, field, h, link, panel, replace, select } from "../dom.js";
import { count } from "../format.js";
import { deleteDead, operations, replay } from "../operations.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { taskLink, taskList, whenCell } from "../tasks.js";

function causeCell(group) {
  const href = `#/search?place=dead&group=${segment(group.group)}`;
  return h("div", { class: "cause" }, link(href, group.error || "(no error text)", { class: "mono" }));
}

function examplesCell(group) {
  return h(
    "span",
    { class: "examples" },
    group.examples.map((id) => taskLink(id, 8)),
  );
}

function groupTable(started) {
  const act = (verb) => async (group) => {
    if (await verb(group.command, group.group, `dead letters of ${group.command}`)) started();
  };
  const [again, drop] = [act(replay), act(deleteDead)];
  const actionsCell = (group) =>
    h(
      "span",
      { class: "actions" },
      button("Replay…", () => again(group), {
        class: "small primary",
        "aria-label": `Replay ${group.command}: ${group.error}`,
      }),
      button("Delete…", () => drop(group), {
        class: "small danger",
        "aria-label": `Delete ${group.command}: ${group.error}`,
      }),
    );
  return table({
    caption: "Causes of dead letters",
    key: ({ group }) => group,
    empty:
      "No dead letters. Tasks that run out of attempts are kept here, grouped by the error they died of.",
    columns: [
      { label: "Count", kind: "num strong", text: (group) => count(group.count) },
      { label: "Cause", isHead: true, kind: "wide", make: causeCell },
      { label: "Queue", make: (group) => link(`#/queues/${segment(group.command)}`, group.command) },
      { label: "First", kind: "when", make: whenCell("firstSeen", true) },
      { label: "Last", kind: "when", make: whenCell("lastSeen", true) },
      { label: "Examples", kind: "full", make: examplesCell },
      { label: "Actions", isSilent: true, kind: "right", make: actionsCell },
    ],
  });
}

export function dead({ root, search, signal }) {
  const command = search.get("command") || "*";
  let refresh = () => {};
  const work = operations(signal, () => refresh());
  const started = () => {
    work.refresh();
    refresh();
  };
  const grid = groupTable(started);
  const truncated = h("p", { class: "muted", hidden: true }, "Only the most frequent causes are shown.");
  const choice = select("command", [["*", "All queues"]], command);
  choice.addEventListener("change", () => {
    location.hash = choice.value === "*" ? "#/dead" : `#/dead?command=${segment(choice.value)}`;
  });
  const all = (verb) => async () => {
    const what = command === "*" ? "all dead letters" : `all dead letters of ${command}`;
    if (await verb(command, undefined, what)) started();
  };
  const actions = h(
    "div",
    { class: "actions" },
    button("Replay all…", all(replay)),
    button("Delete all…", all(deleteDead), { class: "danger" }),
  );
  const list = taskList({ caption: "Newest dead letters", empty: "None.", signal });
  const newest = panel("Newest", { hidden: true }, list.node);
  replace(
    root,
    h(
      "div",
      { class: "page-head" },
      h("h1", {}, "Dead letters"),
      h("div", { class: "actions" }, field("Queue", choice, { class: "field inline" }), actions),
    ),
    work.node,
    panel("By cause", {}, grid.node, truncated),
    newest,
  );
  fillChoice(choice, command, signal);
  list.show("/admin/tasks", { place: "dead", command: command === "*" ? "" : command });
  refresh = poll(
    async () => {
      const found = await get(`/admin/dlq/${segment(command)}/groups`, { signal });
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
