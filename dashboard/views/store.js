// How the store is doing: its room from the API, the rest from the metrics. A server that keeps its metrics
// elsewhere shows less here.

import { get } from "../api.js";
import { h, panel, setText } from "../dom.js";
import { bytes, count, millis } from "../format.js";
import { poll } from "../poll.js";

const EVERY_MS = 5000;

/** Samples of the text format: name → sum over its labels. */
export function parse(text) {
  const sums = new Map();
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(\{[^}]*\})? (\S+)/.exec(line);
    if (!match || match[2]?.includes('le="') || match[2]?.includes('quantile="')) continue;
    sums.set(match[1], (sums.get(match[1]) ?? 0) + Number(match[3]));
  }
  return sums;
}

/** Averages of a histogram since the last look, or since the start when nothing happened in between. */
function average(now, before, name) {
  const of = (sums, part) => sums?.get(`${name}_${part}`) ?? 0;
  const fresh = of(now, "count") - of(before, "count");
  if (fresh > 0) return (of(now, "sum") - of(before, "sum")) / fresh;
  return of(now, "count") > 0 ? of(now, "sum") / of(now, "count") : undefined;
}

/** Of a store on several servers: how many are up, which shards are away, and the least of what they have. */
function servers(shards) {
  const known = [...new Map(shards.filter((shard) => shard.address).map((shard) => [shard.address, shard])).values()];
  if (known.length === 0) return [];
  const up = known.filter((shard) => shard.up && shard.server);
  const away = shards.filter((shard) => !shard.up).map((shard) => shard.name);
  const most = Math.max(...up.map((shard) => shard.server.tasks), 0);
  return [
    ["Servers up", `${known.filter((shard) => shard.up).length} of ${known.length}`],
    ["Shards away", away.length > 0 ? away.join(", ") : undefined],
    ["Fewest replicas", up.length > 0 ? count(Math.min(...up.map((shard) => shard.server.replicas))) : undefined],
    ["Slowest round trip", up.length > 0 ? millis(Math.max(...up.map((shard) => shard.server.roundTripMs))) : undefined],
    ["Most tasks on one", up.length > 1 ? count(most) : undefined],
  ];
}

function tiles(now, before, store) {
  const synced = average(now, before, "codeq_store_sync_seconds");
  const grouped = average(now, before, "codeq_store_group_size");
  const { provider, dataBytes, diskFreeBytes: free, diskTotalBytes: total } = store;
  return [
    ["Store", provider],
    ...servers(store.shards ?? []),
    ["Sync time", synced === undefined ? undefined : millis(synced * 1000)],
    ["Changes per sync", grouped === undefined ? undefined : count(Math.round(grouped * 10) / 10)],
    ["Disk used (journal preallocated)", dataBytes === undefined ? undefined : bytes(dataBytes)],
    ["Disk free", total ? `${bytes(free)} (${Math.round((free / total) * 100)}%)` : undefined],
    ["Claims waiting", now.has("codeq_claims_waiting") ? count(now.get("codeq_claims_waiting")) : undefined],
    [
      "Memory",
      now.has("process_resident_memory_bytes") ? bytes(now.get("process_resident_memory_bytes")) : undefined,
    ],
    ["Open files", now.has("process_open_fds") ? count(now.get("process_open_fds")) : undefined],
  ].filter(([, value]) => value !== undefined);
}

/** Empty if they are served elsewhere. */
async function metrics(signal) {
  const response = await fetch("/metrics", { signal, cache: "no-store", credentials: "omit" }).catch(
    () => null,
  );
  return response?.ok ? response.text() : "";
}

export function storeHealth(signal) {
  const list = h("dl", { class: "facts-row" });
  const node = panel("Server and store", { hidden: true, class: "store" }, list);
  const shown = new Map();
  let before;
  poll(
    async () => {
      const [store, text] = await Promise.all([get("/admin/store", { signal }), metrics(signal)]);
      const now = parse(text);
      const facts = tiles(now, before, store);
      before = now;
      node.hidden = facts.length === 0;
      for (const [name, value] of facts) {
        if (!shown.has(name)) {
          const text = h("dd");
          shown.set(name, text);
          list.append(h("div", {}, h("dt", {}, name), text));
        }
        setText(shown.get(name), value);
      }
    },
    EVERY_MS,
    signal,
  );
  return node;
}
