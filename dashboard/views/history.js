// Charts over the history that the server keeps, for one queue or for all.

import { get, query } from "../api.js";
import { chart } from "../chart.js";
import { h, select, setText } from "../dom.js";
import { millis, rate, short, time } from "../format.js";
import { poll } from "../poll.js";

const RANGES = [
  ["15", "15 minutes"],
  ["60", "1 hour"],
  ["360", "6 hours"],
  ["1440", "24 hours"],
];
const EVERY_MS = 5000;
const POINTS = 180;

const THROUGHPUT = {
  title: "Throughput",
  format: rate,
  series: [
    { name: "created", kind: "in", isFilled: true, of: "created" },
    { name: "completed", kind: "out", of: "completed" },
    { name: "failed", kind: "bad", of: "failed" },
  ],
  isRate: true,
};
const TOOK = {
  title: "Time to finish",
  hint: "create to end",
  format: millis,
  series: [
    { name: "p50", kind: "out", of: "p50Ms" },
    { name: "p95", kind: "warn", of: "p95Ms" },
  ],
};
const DEPTH = {
  title: "Depth",
  format: short,
  series: [
    { name: "ready", kind: "in", isFilled: true, of: "ready" },
    { name: "delayed", kind: "warn", of: "delayed" },
    { name: "in progress", kind: "out", of: "inProgress" },
    { name: "dead", kind: "bad", of: "dlq" },
  ],
};
const RETRIES = {
  title: "Attempts",
  format: rate,
  series: [
    { name: "claimed", kind: "in", isFilled: true, of: "claimed" },
    { name: "returned", kind: "warn", of: "returned" },
  ],
  isRate: true,
};

/** `onHistory` hears every answer; `command` is one queue or undefined. */
export function charts({ command, signal, onHistory = () => {} }) {
  const kinds = command ? [DEPTH, THROUGHPUT, TOOK, RETRIES] : [THROUGHPUT, TOOK];
  const made = kinds.map((kind) => ({ kind, ...chart(kind) }));
  const note = h("span", { class: "muted since" });
  const range = select("range", RANGES, sessionStorage.getItem("codeq-range") ?? "15");
  range.setAttribute("aria-label", "Time range of the charts");
  const ask = async () => {
    const minutes = Number(range.value);
    const history = await get(`/admin/history${query({ command, minutes, points: POINTS })}`, { signal });
    for (const { kind, update } of made) update(dataOf(kind, history, minutes));
    setText(note, `Since ${time(history.since)}.`);
    onHistory(history);
  };
  const again = poll(ask, EVERY_MS, signal);
  range.addEventListener("change", () => {
    sessionStorage.setItem("codeq-range", range.value);
    again();
  });
  const node = h(
    "div",
    { class: "charts-box" },
    h("div", { class: "charts-tools" }, note, range),
    h(
      "div",
      { class: "charts" },
      made.map((one) => one.node),
    ),
  );
  return node;
}

/** The chart begins where the history does, if that is later than what is asked for. */
function dataOf({ series, isRate }, { total, stepSeconds, until, since }, minutes) {
  const to = new Date(until).getTime();
  const step = stepSeconds * 1000;
  const lines = series.map(({ of }) => total[of].map((value) => (isRate ? value / stepSeconds : value)));
  // A point stands at the end of its step.
  const start = to - (lines[0].length - 1) * step;
  const from = Math.min(Math.max(to - minutes * 60_000, new Date(since).getTime()), to - 60_000);
  return { from, to, start, step, lines };
}
