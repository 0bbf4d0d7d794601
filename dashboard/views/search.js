// Finding tasks. The address holds the filter, so that a search can be shared.

import { button, field, h, panel, replace, select } from "../dom.js";
import { cancelMatching, operations } from "../operations.js";
import { taskList } from "../tasks.js";

const PLACES = [
  ["", "Any"],
  ["ready", "Ready"],
  ["delayed", "Delayed"],
  ["running", "In progress"],
  ["dead", "Dead"],
  ["done", "Done"],
];
const STATUSES = [
  ["", "Any"],
  ["PENDING", "Pending"],
  ["IN_PROGRESS", "In progress"],
  ["COMPLETED", "Completed"],
  ["FAILED", "Failed"],
];
const ORDERS = [
  ["", "Newest first"],
  ["oldest", "Oldest first"],
];
const TIMES = ["createdAfter", "createdBefore", "updatedAfter", "updatedBefore"];
const NAMES = ["command", "place", "status", "error", "workerId", "idempotencyKey", "group", ...TIMES];

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

export function search({ root, search: address, signal }) {
  const fields = inputs(address);
  const shown = (names) => names.map((name) => field(...fields[name]));
  const more = ["status", "workerId", "idempotencyKey", ...TIMES, "headerName", "headerValue", "group"];
  const isOpen = more.some((name) => fields[name][1].value !== "");
  const form = h(
    "form",
    { class: "filters", role: "search", "aria-label": "Tasks" },
    h(
      "div",
      { class: "filter-row" },
      shown(["command", "place", "error", "order"]),
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
      h("div", { class: "filter-grid" }, shown(more)),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const order = new FormData(form).get("order");
    const next = new URLSearchParams({ ...filterOf(form), ...(order ? { order } : {}) }).toString();
    const hash = next ? `#/search?${next}` : "#/search";
    if (location.hash === hash) run();
    else location.hash = hash;
  });
  const work = operations(signal, () => run());
  const list = taskList({ caption: "Tasks found", empty: "No task matches.", signal });
  const wanted = filterOfAddress(address);
  const run = () => list.show("/admin/tasks", wanted);
  const { order: _, ...filter } = wanted;
  const cancel = button(
    "Cancel matching…",
    async () => {
      if (await cancelMatching(filter)) work.refresh();
    },
    { class: "small danger", hidden: Object.keys(filter).length === 0 },
  );
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Search")),
    panel("Filter", { class: "filter-panel" }, form),
    work.node,
    panel("Tasks", { tools: h("div", { class: "panel-tools" }, cancel) }, list.node),
  );
  run();
}
