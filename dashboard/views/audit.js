// What operators did.

import { get, query, segment } from "../api.js";
import { button, field, h, link, panel, replace, select, setText } from "../dom.js";
import { count, plural } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { whenCell } from "../tasks.js";

const PAGE = 100;
const VERBS = ["pause", "resume", "put", "delete", "cancel", "requeue", "run-now", "redeliver", "backfill", "cleanup", "import"];

const columns = [
  { label: "When", kind: "when", isHead: true, make: whenCell("at") },
  { label: "Who", kind: "cut", make: whoCell },
  { label: "Did", text: (record) => record.verb },
  { label: "To", kind: "mono cut", text: (record) => record.target },
  { label: "How many", kind: "num", text: (record) => count(record.count) },
  { label: "Request", kind: "mono cut", text: (record) => record.requestId },
];

/** Whoever acted, as a link to everything else that they did. */
function whoCell({ who }) {
  return h("span", {}, who ? link(addressOf({ who }), who) : "–");
}

function addressOf(wanted) {
  const pairs = Object.entries(wanted).filter(([, value]) => value);
  return `#/audit${pairs.length ? "?" : ""}${pairs.map(([name, value]) => `${name}=${segment(value)}`).join("&")}`;
}

/** The filter is in the address, so that it can be shared. */
function filters(wanted) {
  const verb = select("verb", [["", "Any"], ...VERBS.map((word) => [word, word])], wanted.verb);
  const who = h("input", { name: "who", type: "search", value: wanted.who, placeholder: "anyone", autocomplete: "off" });
  const go = () => (location.hash = addressOf({ verb: verb.value, who: who.value.trim() }));
  verb.addEventListener("change", go);
  who.addEventListener("change", go);
  return h(
    "div",
    { class: "actions" },
    field("Verb", verb, { class: "field inline" }),
    field("Who", who, { class: "field inline" }),
  );
}

export function audit({ root, search, signal }) {
  const wanted = { verb: search.get("verb") ?? "", who: search.get("who") ?? "" };
  const status = h("span", { class: "muted", role: "status" }, "Loading…");
  let pages = 1;
  let refresh = () => {};
  const more = button(
    "Load more",
    () => {
      pages += 1;
      refresh();
    },
    { hidden: true },
  );
  const grid = table({
    caption: "What operators did",
    columns,
    key: ({ at, requestId, verb, target }) => JSON.stringify([at, requestId, verb, target]),
    empty: wanted.verb || wanted.who ? "No record matches." : "Nothing was changed by an operator yet.",
  });
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Audit"), filters(wanted)),
    panel("What operators did, the newest first", {}, grid.node, h("div", { class: "list-foot" }, status, more)),
  );
  refresh = poll(
    async () => {
      const items = [];
      let cursor = "";
      for (let page = 0; page < pages; page += 1) {
        const found = await get(`/admin/audit${query({ ...wanted, limit: PAGE, cursor })}`, { signal });
        items.push(...found.items);
        cursor = found.next ?? "";
        if (!cursor) break;
      }
      grid.update(items);
      more.hidden = !cursor;
      setText(status, `${plural(items.length, "record")}${cursor ? " so far" : ""}`);
    },
    4000,
    signal,
  );
}
