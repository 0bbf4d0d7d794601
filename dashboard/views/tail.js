// Events as they happen.

import { segment, session } from "../api.js";
import { badge, button, field, h, link, panel, replace, setText } from "../dom.js";
import { follow } from "../events.js";
import { count, plural, precise } from "../format.js";
import { taskLink } from "../tasks.js";

const TYPES = [
  "created",
  "claimed",
  "progress",
  "completed",
  "failed",
  "requeued",
  "dead",
  "cancelled",
  "promoted",
  "released",
  "paused",
  "resumed",
  "ticked",
  "tick_skipped",
];
const KINDS = {
  completed: "good",
  failed: "bad",
  dead: "bad",
  cancelled: "warn",
  requeued: "warn",
  paused: "warn",
  tick_skipped: "warn",
  lagged: "bad",
};
/** Events on display; older ones go. */
const SHOWN = 500;

function row(event) {
  if (event.type === "lagged") {
    const missed = event.missed === undefined ? "Some events" : plural(event.missed, "event");
    return h(
      "li",
      { class: "lagged" },
      badge("lagged", "bad"),
      h("span", {}, `${missed} missed: this page was too slow, or away for too long.`),
    );
  }
  const queue = session.isAdmin ? link(`#/queues/${segment(event.command)}`, event.command) : event.command;
  const tick = event.schedule && `${event.schedule}, ${event.outcome}`;
  const told = event.progress !== undefined && JSON.stringify(event.progress);
  const attempt = event.attempt && `attempt ${event.attempt}`;
  const more = [tick, attempt, event.workerId, told].filter(Boolean).join(" · ");
  return h(
    "li",
    {},
    h("time", { datetime: event.at, class: "mono" }, precise(event.at)),
    badge(event.type, KINDS[event.type]),
    h("span", { class: "event-queue" }, queue),
    event.taskId ? taskLink(event.taskId) : h("span"),
    h("span", { class: "muted cut" }, more),
    event.error ? h("span", { class: "bad-text cut" }, event.error) : null,
  );
}

function typeChoice(chosen, onChange) {
  const one = (type) => {
    const input = h("input", {
      type: "checkbox",
      name: "type",
      value: type,
      checked: chosen.has(type),
      onchange: onChange,
    });
    return h("label", { class: "chip" }, input, type);
  };
  return h("fieldset", { class: "chips" }, h("legend", { class: "unseen" }, "Types"), TYPES.map(one));
}

export function tail({ root, search, signal }) {
  const chosen = new Set((search.get("types") ?? "").split(",").filter(Boolean));
  const command = h("input", {
    type: "search",
    value: search.get("command") ?? "",
    placeholder: "any",
    autocomplete: "off",
    spellcheck: "false",
  });
  const apply = () => {
    const types = [...form.querySelectorAll("input[name=type]:checked")]
      .map((input) => input.value)
      .join(",");
    const given = Object.entries({ command: command.value.trim(), types }).filter(([, value]) => value);
    const text = new URLSearchParams(given).toString();
    location.hash = text ? `#/live?${text}` : "#/live";
  };
  const form = h(
    "form",
    { class: "filter-row tail-filter", "aria-label": "Events" },
    field("Queue", command),
    typeChoice(chosen, apply),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
  const list = h("ol", { class: "events", tabindex: "0", "aria-label": "Events, newest first" });
  const state = h("span", { class: "muted", role: "status" }, "Connecting…");
  const screen = feed(list, state, signal);
  const pause = button("Pause", () => setText(pause, screen.toggle() ? "Resume" : "Pause"), {
    class: "primary",
  });
  const clear = button("Clear", () => screen.clear());
  const tools = h("div", { class: "panel-tools" }, state, pause, clear);
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Live events")),
    panel("Filter", { class: "filter-panel" }, form),
    panel("Events", { tools }, list),
  );
  const filter = { command: command.value.trim(), types: [...chosen].join(",") };
  follow({ filter, on: screen.add, onState: screen.state, signal });
}

/** Gathers events and paints them at most once per frame. */
function feed(list, state, signal) {
  let waiting = [];
  let total = 0;
  let isPaused = false;
  let line = "away";
  let isDue = false;
  const tell = () => {
    const words = { open: "Listening", away: "Reconnecting…", missing: "This server has no event stream" };
    const paused = isPaused
      ? `Paused, ${count(waiting.length)}${waiting.length === SHOWN ? "+" : ""} waiting`
      : words[line];
    setText(state, `${paused} · ${count(total)} seen`);
  };
  const paint = () => {
    isDue = false;
    if (signal.aborted) return;
    if (!isPaused) {
      list.prepend(...waiting.splice(0).reverse().map(row));
      while (list.childElementCount > SHOWN) list.lastChild.remove();
    }
    tell();
  };
  const soon = () => {
    if (isDue) return;
    isDue = true;
    setTimeout(paint, 150);
  };
  return {
    add(event) {
      total += 1;
      waiting.push(event);
      if (waiting.length > SHOWN) waiting.shift();
      soon();
    },
    state(next) {
      line = next;
      soon();
    },
    toggle() {
      isPaused = !isPaused;
      soon();
      return isPaused;
    },
    clear() {
      waiting = [];
      total = 0;
      replace(list);
      tell();
    },
  };
}
