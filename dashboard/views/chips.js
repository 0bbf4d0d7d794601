// The filter of a search as chips: one for each condition, and a field that adds one by its name.

import { get } from "../api.js";
import { button, h, link } from "../dom.js";

/** What people type before the colon, and what the API calls it. */
const WORDS = {
  queue: "command",
  state: "place",
  status: "status",
  error: "error",
  payload: "payloadContains",
  tag: "tag",
  lane: "lane",
  schedule: "schedule",
  worker: "workerId",
  key: "idempotencyKey",
  cause: "group",
};
const TIMES = {
  createdAfter: "created after",
  createdBefore: "created before",
  updatedAfter: "changed after",
  updatedBefore: "changed before",
};
const PLACES = ["ready", "delayed", "running", "dead", "failed", "cancelled", "done"];
/** Tasks that are looked at for tags, lanes and workers to suggest. */
const SAMPLE = 500;
/** Suggestions of one kind. */
const SUGGESTED = 100;

const wordOf = (name) =>
  TIMES[name] ?? Object.entries(WORDS).find(([, known]) => known === name)?.[0] ?? name;

function textOf(name, value) {
  return `${wordOf(name)}: ${name in TIMES ? new Date(value).toLocaleString() : value}`;
}

/** One chip for each condition; each is a way to the search without it. */
export function chips(filter, hashOf) {
  const names = Object.keys(filter).filter((name) => name !== "order");
  if (names.length === 0) return null;
  const chip = (name) => {
    const { [name]: value, ...others } = filter;
    const text = textOf(name, value);
    return h(
      "li",
      {},
      h("span", { class: "chip-text" }, text),
      link(hashOf(others), "×", { class: "chip-remove", "aria-label": `Remove filter ${text}` }),
    );
  };
  return h("ul", { class: "chips", "aria-label": "Filters in use" }, names.map(chip));
}

/** `tag:invoice` as a name of the API and a value; null if it is not one. */
export function parse(text) {
  const [, word, value] = /^\s*([\w.-]+)\s*:\s*(.+?)\s*$/.exec(text) ?? [];
  if (!word) return null;
  const isHeader = word.startsWith("header.") && word.length > "header.".length;
  const name = isHeader ? word : WORDS[word.toLowerCase()];
  return name ? [name, value] : null;
}

/** A field that takes `word:value` and suggests both. */
export function adder(added) {
  const options = h("datalist", { id: "filter-suggestions" });
  const input = h("input", {
    type: "text",
    list: options.id,
    placeholder: "Add a filter, such as tag:invoice",
    "aria-label": "Add a filter",
    "aria-describedby": "filter-words",
    autocomplete: "off",
    spellcheck: "false",
  });
  const fault = h("span", { class: "failed", role: "alert" });
  const words = h("span", { id: "filter-words", class: "muted" }, `${Object.keys(WORDS).join(", ")} or header.NAME`);
  const node = h("form", { class: "chip-adder" }, input, button("Add", () => submit()), options, fault, words);
  function submit() {
    const found = parse(input.value);
    if (found) return added(...found);
    fault.textContent = input.value.trim() ? "Write it as word:value." : "";
    return input.focus();
  }
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  const offer = (list) => options.replaceChildren(...list.map((value) => h("option", { value })));
  offer(PLACES.map((place) => `state:${place}`));
  return { node, offer };
}

const distinct = (list) => [...new Set(list.filter(Boolean))].sort().slice(0, SUGGESTED);

/** Names of queues, and the tags, lanes, workers and schedules of the newest tasks, to choose from. */
export async function suggest({ form, fields, add, signal }) {
  const none = () => ({ queues: [], items: [] });
  const [{ queues }, { items }] = await Promise.all([
    get("/admin/queues?view=stats", { signal }).catch(none),
    get(`/admin/tasks?limit=${SAMPLE}`, { signal }).catch(none),
  ]);
  const known = {
    command: distinct(queues.map(({ command }) => command)),
    tag: distinct(items.flatMap(({ tags }) => tags ?? [])),
    lane: distinct(items.map(({ lane }) => lane)),
    workerId: distinct(items.map(({ workerId }) => workerId)),
    schedule: distinct(items.map(({ headers }) => headers?.["codeq-schedule"])),
  };
  for (const [name, values] of Object.entries(known)) {
    const id = `known-${name}`;
    form.append(h("datalist", { id }, values.map((value) => h("option", { value }))));
    fields[name][1].setAttribute("list", id);
  }
  const offered = Object.entries(known).flatMap(([name, values]) => values.map((value) => `${wordOf(name)}:${value}`));
  add.offer([...PLACES.map((place) => `state:${place}`), ...offered]);
}
