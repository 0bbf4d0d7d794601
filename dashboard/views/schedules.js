// Schedules: when they tick next, what came of the last tick, and the buttons to pause and trigger them.

import { get, post, query, segment } from "../api.js";
import { badge, button, deed, field, h, link, panel, replace, setText } from "../dom.js";
import { ask, attempt, toast } from "../dialog.js";
import { ago, plural, time } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { taskLink } from "../tasks.js";
import { drop, edit } from "./plan.js";

/** Schedules of one page. */
const PAGE = 100;
/** Ticks that are shown ahead. */
const AHEAD = 10;

function plan(schedule) {
  if (schedule.everySeconds !== undefined) return `every ${schedule.everySeconds} s`;
  return schedule.timezone === "UTC" ? schedule.cron : `${schedule.cron} (${schedule.timezone})`;
}

/** A cell that is made anew when what it shows has changed. */
function cell(make, of) {
  return (row) => {
    const node = h("span");
    let shown;
    const update = (next) => {
      const now = JSON.stringify(of(next));
      if (now === shown) return;
      shown = now;
      node.replaceChildren(...make(next));
    };
    update(row);
    return { node, update };
  };
}

function state(schedule) {
  if (schedule.paused) return [badge("paused", "warn"), schedule.note ? ` ${schedule.note}` : ""];
  return [schedule.nextAt ? badge("on", "good") : badge("ended")];
}

async function pause(schedule) {
  const note = h("input", { name: "note", maxlength: 512, autocomplete: "off" });
  const done = await ask({
    title: `Pause ${schedule.name}?`,
    describe: async () => "It makes no tasks until it is resumed. Ticks until then are not missed.",
    fields: [field("Note", note)],
    confirm: "Pause",
    act: (values) => post(`/schedules/${segment(schedule.name)}/pause`, { note: values.get("note") }),
  });
  if (done) toast(`${schedule.name} is paused.`);
}

async function showNext(schedule) {
  const { items } = await get(`/schedules/${segment(schedule.name)}/next${query({ count: AHEAD })}`);
  const ticks = items.map((at) => h("li", { class: "mono" }, h("time", { datetime: at }, time(at))));
  const dialog = h(
    "dialog",
    { "aria-label": `Next ticks of ${schedule.name}` },
    h("h2", {}, `Next ticks of ${schedule.name}`),
    ticks.length > 0 ? h("ol", {}, ticks) : h("p", {}, "Its plan has ended."),
    h(
      "div",
      { class: "dialog-actions" },
      button("Close", () => dialog.close()),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function actions(refresh) {
  const act = (schedule, text, action, kind = deed) =>
    kind(
      text,
      async () => {
        await action();
        refresh();
      },
      { class: "small", "aria-label": `${text} ${schedule.name}` },
    );
  const verb = (schedule, name, done) => () =>
    attempt(() => post(`/schedules/${segment(schedule.name)}/${name}`), done);
  return (schedule) => [
    act(schedule, "Next", () => attempt(() => showNext(schedule)), button),
    " ",
    act(schedule, "Trigger", verb(schedule, "trigger", `A task of ${schedule.name} was made.`)),
    " ",
    schedule.paused
      ? act(schedule, "Resume", verb(schedule, "resume", `${schedule.name} goes on.`))
      : act(schedule, "Pause", () => pause(schedule)),
    " ",
    act(schedule, "Change", () => attempt(() => edit(schedule.name))),
    " ",
    act(schedule, "Delete", () => drop(schedule.name)),
  ];
}

/** The name, which leads to the tasks that it has made. */
function made({ name }) {
  const title = `Tasks that ${name} has made`;
  return [link(`#/search${query({ schedule: name })}`, name, { title })];
}

function columns(refresh) {
  const command = ({ task }) => [link(`#/queues/${segment(task.command)}`, task.command)];
  return [
    { label: "Name", isHead: true, kind: "mono cut", make: cell(made, ({ name }) => name) },
    { label: "Command", make: cell(command, ({ task }) => task.command) },
    { label: "Plan", kind: "mono cut", text: plan },
    { label: "State", make: cell(state, ({ paused, note, nextAt }) => [paused, note, Boolean(nextAt)]) },
    { label: "Next", kind: "when", text: ({ nextAt }) => (nextAt ? time(nextAt) : "–") },
    { label: "Last", kind: "when", text: ({ lastAt }) => (lastAt ? ago(lastAt) : "–") },
    {
      label: "Last task",
      make: cell(
        ({ lastTaskId }) => (lastTaskId ? [taskLink(lastTaskId)] : ["–"]),
        ({ lastTaskId }) => lastTaskId ?? "",
      ),
    },
    { label: "Missed", kind: "num", text: ({ missed }) => missed },
    { label: "Skipped", kind: "num", text: ({ skipped }) => skipped },
    { label: "Action", isSilent: true, kind: "right", make: cell(actions(refresh), ({ paused }) => paused) },
  ];
}

export function schedules({ root, search, signal }) {
  let refresh = () => {};
  const status = h("span", { class: "muted", role: "status" }, "Loading…");
  const more = h("span");
  const make = deed(
    "New schedule…",
    async () => {
      await attempt(() => edit());
      refresh();
    },
    { class: "small primary" },
  );
  const grid = table({
    caption: "Schedules",
    columns: columns(() => refresh()),
    key: ({ name }) => name,
    empty: "There are no schedules. Make one here, or with `codeq schedule put`.",
  });
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Schedules")),
    panel("Tasks by the clock", { tools: h("div", { class: "panel-tools" }, make) }, grid.node, h("div", { class: "list-foot" }, status, " ", more)),
  );
  const cursor = search.get("cursor") ?? "";
  refresh = poll(
    async () => {
      try {
        const page = await get(`/schedules${query({ limit: PAGE, cursor })}`, { signal });
        grid.update(page.items);
        setText(status, plural(page.items.length, "schedule"));
        replace(more, page.next ? link(`#/schedules${query({ cursor: page.next })}`, "More") : null);
      } catch (error) {
        if (error.code !== "not_supported") throw error;
        setText(status, "The store of this server does not keep schedules.");
      }
    },
    3000,
    signal,
  );
}
