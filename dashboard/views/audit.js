// What operators did.

import { get, query } from "../api.js";
import { button, h, panel, replace, setText } from "../dom.js";
import { count, plural } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { whenCell } from "../tasks.js";

const PAGE = 100;

const columns = [
  { label: "When", kind: "when", isHead: true, make: whenCell("at") },
  { label: "Who", kind: "cut", text: (record) => record.who || "–" },
  { label: "Did", text: (record) => record.verb },
  { label: "To", kind: "mono cut", text: (record) => record.target },
  { label: "How many", kind: "num", text: (record) => count(record.count) },
  { label: "Request", kind: "mono cut", text: (record) => record.requestId },
];

export function audit({ root, signal }) {
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
    empty: "Nothing was changed by an operator yet.",
  });
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Audit")),
    panel("What operators did, the newest first", {}, grid.node, h("div", { class: "list-foot" }, status, more)),
  );
  refresh = poll(
    async () => {
      const items = [];
      let cursor = "";
      for (let page = 0; page < pages; page += 1) {
        const found = await get(`/admin/audit${query({ limit: PAGE, cursor })}`, { signal });
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
