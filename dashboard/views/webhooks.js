// Result callbacks that wait, were given up or were delivered lately.

import { get, post, query, segment } from "../api.js";
import { badge, button, deed, h, panel, replace, setText } from "../dom.js";
import { ask, attempt, toast } from "../dialog.js";
import { ago, plural, time } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { taskLink } from "../tasks.js";

const PAGE = 100;

/** What the receiver answered last: its status, and the beginning of its text in a dialog. */
function response() {
  const node = h("span");
  const update = ({ responseStatus, responseBody, url }) => {
    const now = responseStatus === undefined ? "–" : String(responseStatus);
    if (node.dataset.shown === now) return;
    node.dataset.shown = now;
    const status = responseStatus === undefined ? "–" : badge(now, responseStatus < 300 ? "good" : "bad");
    const open = button("Body", () => showResponse(url, now, responseBody), {
      class: "small",
      "aria-label": `Response of ${url}`,
    });
    replace(node, status, responseBody ? [" ", open] : null);
  };
  return { node, update };
}

function showResponse(url, status, body) {
  const dialog = h(
    "dialog",
    { "aria-label": "Response" },
    h("h2", {}, `Response ${status}`),
    h("p", { class: "muted mono" }, url),
    h("pre", { class: "response", tabindex: "0", role: "region", "aria-label": "Beginning of the response" }, body),
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

function columns(hasTask, refresh) {
  const again = (delivery) =>
    deed(
      "Redeliver",
      async () => {
        await attempt(
          () => post(`/admin/webhooks/${segment(delivery.id)}/redeliver`),
          "The callback is being delivered.",
        );
        refresh();
      },
      { class: "small", "aria-label": `Redeliver to ${delivery.url}` },
    );
  const kinds = { failed: "bad", delivered: "good" };
  const all = [
    hasTask && { label: "Task", isHead: true, make: (delivery) => taskLink(delivery.taskId) },
    { label: "State", make: (delivery) => badge(delivery.state, kinds[delivery.state] ?? "") },
    { label: "To", kind: "mono cut", text: (delivery) => delivery.url },
    { label: "Attempts", kind: "num", text: (delivery) => delivery.attempts },
    {
      label: "Next attempt",
      kind: "when",
      text: (delivery) => (delivery.nextAttemptAt ? ago(delivery.nextAttemptAt) : "–"),
    },
    { label: "Response", make: response },
    { label: "Last error", kind: "error cut", text: (delivery) => delivery.lastError || "–" },
    { label: "Created", kind: "when", text: (delivery) => time(delivery.createdAt) },
    {
      label: "Action",
      isSilent: true,
      kind: "right",
      make: (delivery) => (delivery.state === "failed" ? again(delivery) : h("span")),
    },
  ];
  return all.filter(Boolean);
}

/** The deliveries of one task. */
export function deliveryList({ taskId }, signal) {
  let refresh = () => {};
  const grid = table({
    caption: "Callbacks",
    columns: columns(false, () => refresh()),
    key: ({ id, state }) => `${id} ${state}`,
    empty: "No callback is waiting, has failed or was delivered lately.",
  });
  refresh = poll(
    async () => {
      const of = (state) => get(`/admin/webhooks${query({ state, taskId })}`, { signal });
      const pages = await Promise.all([of("pending"), of("failed"), of("delivered")]);
      grid.update(pages.flatMap(({ items }) => items));
    },
    3000,
    signal,
  );
  return grid.node;
}

/** Calls that a bulk redelivery makes at most; each is for up to 1,000 callbacks. */
const CALLS = 100;

async function redeliverAll(shown, refresh) {
  const hosts = new Set(shown.map(({ url }) => new URL(url).host));
  let number = 0;
  const done = await ask({
    title: "Redeliver all failed callbacks?",
    describe: async () =>
      `Every callback that has failed will be sent again, also those that are not shown. Shown: ${plural(shown.length, "callback")} to ${[...hosts].slice(0, 5).join(", ")}.`,
    confirm: "Redeliver",
    act: async () => {
      for (let call = 0; call < CALLS; call += 1) {
        const { redelivered, hasMore } = await post("/admin/webhooks/redeliver", {});
        number += redelivered;
        if (!hasMore) break;
      }
    },
  });
  if (done) toast(`${plural(number, "callback")} will be delivered again.`);
  refresh();
}

const TABS = [
  ["pending", "Pending", "No callback is waiting."],
  ["failed", "Failed", "No callback has failed."],
  ["delivered", "Delivered", "No callback was delivered since the server started."],
];

export function webhooks({ root, search, signal }) {
  const [state, , empty] = TABS.find(([word]) => word === search.get("state")) ?? TABS[0];
  const status = h("span", { class: "muted", role: "status" }, "Loading…");
  const more = button(
    "Load more",
    () => {
      pages += 1;
      refresh();
    },
    { hidden: true },
  );
  let shown = [];
  const all = deed("Redeliver all failed…", () => redeliverAll(shown, () => refresh()), {
    class: "small primary",
    hidden: true,
  });
  const grid = table({
    caption: `Callbacks, ${state}`,
    columns: columns(true, () => refresh()),
    key: ({ id }) => id,
    empty,
  });
  let pages = 1;
  let refresh = () => {};
  const tab = ([word, label]) =>
    h("a", { href: `#/webhooks?state=${word}`, "aria-current": word === state ? "page" : null }, label);
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Webhooks")),
    panel(
      "Result callbacks",
      { tools: h("div", { class: "panel-tools" }, all) },
      h("nav", { class: "tabs", "aria-label": "State" }, TABS.map(tab)),
      grid.node,
      h("div", { class: "list-foot" }, status, more),
    ),
  );
  refresh = poll(
    async () => {
      const items = [];
      let cursor = "";
      for (let page = 0; page < pages; page += 1) {
        const found = await get(`/admin/webhooks${query({ state, limit: PAGE, cursor })}`, { signal });
        items.push(...found.items);
        cursor = found.next ?? "";
        if (!cursor) break;
      }
      grid.update(items);
      shown = items;
      all.hidden = state !== "failed" || items.length === 0;
      more.hidden = !cursor;
      setText(status, `${plural(items.length, "callback")}${cursor ? " so far" : ""}`);
    },
    3000,
    signal,
  );
}
