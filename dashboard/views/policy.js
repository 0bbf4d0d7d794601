// What restricts a queue: its policy, to be read and changed, and its lanes as they are now.

import { get, put, query, remove, segment } from "../api.js";
import { deed, field, h, panel, setText } from "../dom.js";
import { ask, toast } from "../dialog.js";
import { clock, count } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";

/** Lanes that are shown. */
const LANES = 50;
const NONE = "No policy: nothing restricts this queue.";
const WORDS = {
  lane_at_concurrency: "its limit of running tasks",
  rate_limited: "its rate",
  held_until: "a worker's hold",
};

const path = (command) => `/admin/queues/${segment(command)}/policy`;

/** The policy of a text, or an error that says where it is wrong. */
function read(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${error.message}`);
  }
}

async function edit(command, policy) {
  const text = h("textarea", {
    name: "policy",
    rows: 14,
    cols: 60,
    class: "mono",
    spellcheck: "false",
    autocomplete: "off",
  });
  text.value = JSON.stringify(policy ?? { concurrency: 10 }, null, 2);
  const done = await ask({
    title: `Policy of ${command}`,
    describe: async () => "It takes effect for the next claim. Running tasks are not touched.",
    fields: [field("Policy as JSON", text)],
    confirm: "Save",
    act: (values) => put(path(command), read(values.get("policy"))),
  });
  if (done) toast("The policy is saved.");
}

async function drop(command) {
  const done = await ask({
    title: `Delete the policy of ${command}?`,
    describe: async () => "Nothing restricts the queue any more. Tasks that were held back can start.",
    confirm: "Delete",
    isDangerous: true,
    act: () => remove(path(command)).then(() => true),
  });
  if (done) toast("The policy is deleted.");
}

function laneTable() {
  return table({
    caption: "Lanes of this queue",
    key: ({ lane }) => lane,
    empty: "No task waits or runs.",
    columns: [
      { label: "Lane", kind: "mono cut", isHead: true, text: ({ lane }) => lane || "(none)" },
      { label: "Ready", kind: "num", text: ({ ready }) => count(ready) },
      { label: "Running", kind: "num", text: ({ running }) => count(running) },
      { label: "Weight", kind: "num", text: ({ weight }) => String(weight) },
      {
        label: "Held back by",
        text: ({ blockedBy, until: at }) =>
          blockedBy ? `${WORDS[blockedBy] ?? blockedBy}${at ? `, until ${clock(at)}` : ""}` : "–",
      },
    ],
  });
}

/** A panel, and `update`, which takes the policy as the list of queues tells it. */
export function limits(command, signal, refresh) {
  let policy = null;
  const shown = h("pre", { class: "policy", tabindex: "0", "aria-label": "Policy" }, NONE);
  const change = deed("Edit", () => edit(command, policy).then(refresh));
  const clear = deed("Delete", () => drop(command).then(refresh), { class: "danger" });
  clear.hidden = true;
  const grid = laneTable();
  const tools = h("div", { class: "panel-tools" }, change, clear);
  const node = panel("Limits and lanes", { tools }, shown, grid.node);
  const update = (next) => {
    policy = next ?? null;
    clear.hidden = policy === null;
    setText(shown, policy === null ? NONE : JSON.stringify(policy, null, 2));
  };
  poll(
    async () => {
      if (node.hidden) return;
      try {
        const found = await get(`/admin/queues/${segment(command)}/lanes${query({ limit: LANES })}`, { signal });
        grid.update(found.items);
      } catch (error) {
        // The store of this server keeps no policies.
        if (error.status !== 501) throw error;
        node.hidden = true;
      }
    },
    3000,
    signal,
  );
  return { node, update };
}
