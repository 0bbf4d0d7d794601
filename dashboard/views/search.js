// Finding tasks. The address holds the filter, so that a search can be shared.

import { button, deed, field, h, panel, replace, select } from "../dom.js";
import { cancelMatching, deleteDead, operations, replay } from "../operations.js";
import { poll } from "../poll.js";
import { taskList } from "../tasks.js";
import { adder, chips, suggest } from "./chips.js";
import { views } from "./saved.js";

const PLACES = [
  ["", "Any"],
  ["ready", "Ready"],
  ["delayed", "Delayed"],
  ["running", "In progress"],
  ["held", "Held"],
  ["dead", "Dead"],
  ["failed", "Failed"],
  ["cancelled", "Cancelled"],
  ["done", "Done"],
];
const STATUSES = [
  ["", "Any"],
  ["PENDING", "Pending"],
  ["IN_PROGRESS", "In progress"],
  ["COMPLETED", "Completed"],
  ["FAILED", "Failed"],
];
const EVERY_MS = 4000;
const ORDERS = [
  ["", "Newest first"],
  ["oldest", "Oldest first"],
];
const TIMES = ["createdAfter", "createdBefore", "updatedAfter", "updatedBefore"];
const TEXTS = ["command", "place", "status", "error", "payloadContains", "tag", "lane", "schedule"];
const NAMES = [...TEXTS, "workerId", "idempotencyKey", "group", ...TIMES];

const text = (name, placeholder = "") =>
  h("input", { name, type: "search", placeholder, autocomplete: "off", spellcheck: "false" });

const pad = (number) => String(number).padStart(2, "0");

/** An instant as the field for it wants it: local, to the second. */
function toLocal(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  const day = [date.getFullYear(), pad(date.getMonth() + 1), pad(date.getDate())].join("-");
  return `${day}T${[date.getHours(), date.getMinutes(), date.getSeconds()].map(pad).join(":")}`;
}

function inputs(search) {
  const moment = (name) => h("input", { name, type: "datetime-local", step: 1 });
  const all = {
    command: ["Queue", text("command", "any")],
    place: ["State", select("place", PLACES)],
    status: ["Status", select("status", STATUSES)],
    error: ["Error contains", text("error")],
    payloadContains: ["Payload contains", text("payloadContains")],
    tag: ["Tag", text("tag")],
    lane: ["Lane", text("lane")],
    schedule: ["Schedule", text("schedule")],
    workerId: ["Worker", text("workerId")],
    idempotencyKey: ["Idempotency key", text("idempotencyKey")],
    createdAfter: ["Created after", moment("createdAfter")],
    createdBefore: ["Created before", moment("createdBefore")],
    updatedAfter: ["Changed after", moment("updatedAfter")],
    updatedBefore: ["Changed before", moment("updatedBefore")],
    headerName: ["Header", text("headerName", "name")],
    headerValue: ["Header value", text("headerValue")],
    group: ["Cause (group)", text("group")],
    order: ["Order", select("order", ORDERS)],
  };
  for (const [name, [, input]] of Object.entries(all)) {
    const value = search.get(name) ?? "";
    input.value = TIMES.includes(name) && value ? toLocal(value) : value;
  }
  const header = [...search.keys()].find((name) => name.startsWith("header."));
  if (header) {
    all.headerName[1].value = header.slice("header.".length);
    all.headerValue[1].value = search.get(header);
  }
  return all;
}

/** What the form says, in the API's words. */
function filterOf(form) {
  const data = new FormData(form);
  const filter = {};
  for (const name of NAMES) {
    const value = String(data.get(name) ?? "").trim();
    if (value) filter[name] = TIMES.includes(name) ? new Date(value).toISOString() : value;
  }
  const header = String(data.get("headerName") ?? "").trim();
  if (header) filter[`header.${header}`] = String(data.get("headerValue") ?? "");
  return filter;
}

function filterOfAddress(search) {
  const known = ([name, value]) =>
    value !== "" && (NAMES.includes(name) || name.startsWith("header.") || name === "order");
  return Object.fromEntries([...search].filter(known));
}

function hashOf(filter) {
  const next = new URLSearchParams(filter).toString();
  return next ? `#/search?${next}` : "#/search";
}

function makeForm(fields) {
  const shown = (names) => names.map((name) => field(...fields[name]));
  const more = ["status", "tag", "lane", "schedule", "workerId", "idempotencyKey", ...TIMES];
  const rest = [...more, "headerName", "headerValue", "group"];
  const isOpen = rest.some((name) => fields[name][1].value !== "");
  return h(
    "form",
    { class: "filters", role: "search", "aria-label": "Tasks" },
    h(
      "div",
      { class: "filter-row" },
      shown(["command", "place", "error", "payloadContains", "order"]),
      h(
        "div",
        { class: "filter-go" },
        h("button", { type: "submit", class: "primary" }, "Search"),
        button("Clear", () => (location.hash = "#/search")),
      ),
    ),
    h(
      "details",
      { open: isOpen },
      h("summary", {}, "More filters"),
      h("div", { class: "filter-grid" }, shown(rest)),
    ),
  );
}

export function search({ root, search: address, signal }) {
  const fields = inputs(address);
  const form = makeForm(fields);
  const wanted = filterOfAddress(address);
  const go = (filter) => {
    const hash = hashOf(filter);
    if (location.hash === hash) run();
    else location.hash = hash;
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const order = new FormData(form).get("order");
    go({ ...filterOf(form), ...(order ? { order } : {}) });
  });
  const work = operations(signal, () => run());
  const empty = wanted.payloadContains ? "No task found among those looked at." : "No task matches.";
  const list = taskList({ caption: "Tasks found", empty, signal });
  const run = () => list.show("/admin/tasks", wanted);
  const { order: _, ...filter } = wanted;
  const tools = matchingTools(filter, () => work.refresh());
  const add = adder((name, value) => go({ ...wanted, [name]: value }));
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Search"), views(wanted, hashOf)),
    panel("Filter", { class: "filter-panel" }, chips(wanted, hashOf), add.node, form),
    work.node,
    panel("Tasks", { tools: h("div", { class: "panel-tools" }, tools) }, list.node),
  );
  suggest({ form, fields, add, signal });
  run().then(() => poll(() => list.refresh(), EVERY_MS, signal));
}

/** What can be done to everything that matches: dead letters are replayed or deleted, live tasks cancelled. */
function matchingTools(filter, started) {
  // Bulk operations are kept, and search no payloads: rows that were found can be selected.
  if (Object.keys(filter).length === 0 || filter.payloadContains) return [];
  const tool = (label, act, kind) =>
    deed(label, async () => ((await act()) ? started() : undefined), { class: `small ${kind}` });
  if (filter.place === "failed" || filter.place === "cancelled") {
    const { command = "*", group, status: _status, ...others } = filter;
    const what = { command, group, filter: others, title: `all matching ${filter.place} tasks` };
    return [tool("Replay matching…", () => replay(what), "primary")];
  }
  if (filter.place === "dead" || filter.group) {
    const { command = "*", group, place: _place, status: _status, ...others } = filter;
    const what = { command, group, filter: others, title: "all matching dead letters" };
    return [
      tool("Replay matching…", () => replay(what), "primary"),
      tool("Delete matching…", () => deleteDead(what), "danger"),
    ];
  }
  const isOver = filter.place === "done" || ["COMPLETED", "FAILED"].includes(filter.status);
  return isOver ? [] : [tool("Cancel matching…", () => cancelMatching(filter), "danger")];
}
