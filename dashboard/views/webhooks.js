// Result callbacks that wait or were given up.

import { get, post, query, segment } from "../api.js";
import { badge, button, h, panel, replace, setText } from "../dom.js";
import { ask, attempt, toast } from "../dialog.js";
import { ago, plural, time } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { taskLink } from "../tasks.js";

const PAGE = 100;

function columns(hasTask, refresh) {
  const again = (delivery) =>
    button(
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
  const all = [
    hasTask && { label: "Task", isHead: true, make: (delivery) => taskLink(delivery.taskId) },
    { label: "State", make: (delivery) => badge(delivery.state, delivery.state === "failed" ? "bad" : "") },
    { label: "To", kind: "mono cut", text: (delivery) => delivery.url },
    { label: "Attempts", kind: "num", text: (delivery) => delivery.attempts },
    {
      label: "Next attempt",
      kind: "when",
      text: (delivery) => (delivery.nextAttemptAt ? ago(delivery.nextAttemptAt) : "–"),
    },
    { label: "Last error", kind: "error cut", text: (delivery) => delivery.lastError || "–" },
    { label: "Created", kind: "when", text: (delivery) => time(delivery.createdAt) },
    { label: "Action", isSilent: true, kind: "right", make: again },
  ];
  return all.filter(Boolean);
}

/** The deliveries of one task, pending and failed. */
export function deliveryList({ taskId }, signal) {
  let refresh = () => {};
  const grid = table({
    caption: "Callbacks",
    columns: columns(false, () => refresh()),
    key: ({ id, state }) => `${id} ${state}`,
    empty: "No callback is waiting or failed: none is due yet, or it was delivered.",
  });
  refresh = poll(
    async () => {
      const of = (state) => get(`/admin/webhooks${query({ state, taskId })}`, { signal });
      const [pending, failed] = await Promise.all([of("pending"), of("failed")]);
      grid.update([...pending.items, ...failed.items]);
    },
    3000,
    signal,
  );
  return grid.node;
}

async function redeliverAll(deliveries, refresh) {
  const hosts = new Set(deliveries.map(({ url }) => new URL(url).host));
  const done = await ask({
    title: `Redeliver ${plural(deliveries.length, "failed callback")}?`,
    describe: async () =>
      `${plural(deliveries.length, "callback")} to ${plural(hosts.size, "host")} will be sent again: ${[...hosts].slice(0, 5).join(", ")}.`,
    confirm: "Redeliver",
    act: async () => {
      for (const { id } of deliveries) {
        // One that was redelivered or has expired in the meantime does not stop the others.
        await post(`/admin/webhooks/${segment(id)}/redeliver`).catch((error) =>
          error.status === 404 || error.status === 409 ? undefined : Promise.reject(error),
        );
      }
    },
  });
  if (done) toast("The callbacks are being delivered.");
  refresh();
}

export function webhooks({ root, search, signal }) {
  const state = search.get("state") === "failed" ? "failed" : "pending";
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
  const all = button("Redeliver all shown…", () => redeliverAll(shown, () => refresh()), {
    class: "small primary",
    hidden: true,
  });
  const empty = state === "failed" ? "No callback has failed." : "No callback is waiting.";
  const grid = table({
    caption: `Callbacks, ${state}`,
    columns: columns(true, () => refresh()),
    key: ({ id }) => id,
    empty,
  });
  let pages = 1;
  let refresh = () => {};
  const tab = (word, label) =>
    h("a", { href: `#/webhooks?state=${word}`, "aria-current": word === state ? "page" : null }, label);
  replace(
    root,
    h("div", { class: "page-head" }, h("h1", {}, "Webhooks")),
    panel(
      "Result callbacks",
      { tools: h("div", { class: "panel-tools" }, all) },
      h("nav", { class: "tabs", "aria-label": "State" }, tab("pending", "Pending"), tab("failed", "Failed")),
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
