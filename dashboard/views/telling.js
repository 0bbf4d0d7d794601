// What a task page tells: the words, the details, the attempts.

import { segment, session } from "../api.js";
import { badge, button, h, link, replace, setText } from "../dom.js";
import { attempt } from "../dialog.js";
import { ago, millis, time } from "../format.js";
import { countedAttempts } from "../states.js";

const GOOD = new Set(["completed"]);
const NEUTRAL = new Set(["refunded", "abandoned", "cancelled"]);

function facts(rows) {
  const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

function when(at) {
  return at ? h("time", { datetime: at, title: at, "data-ago": "" }, aged(at)) : undefined;
}

const aged = (at) => `${time(at)} (${ago(at)})`;

/** Keeps ages up to date in place, so that a selection next to them stays. */
export function ageAll(root) {
  for (const node of root.querySelectorAll("time[data-ago]")) setText(node, aged(node.dateTime));
}

const drawn = new WeakMap();

/** Draws only what differs from what is there. */
export function redraw(place, value, make) {
  const now = JSON.stringify(value);
  if (drawn.get(place) === now) return;
  drawn.set(place, now);
  replace(place, make(value));
}

function copied(text, what) {
  return h(
    "span",
    { class: "copyable" },
    h("span", { class: "mono" }, text),
    button("Copy", () => attempt(() => navigator.clipboard.writeText(text), `${what} copied.`), {
      class: "small",
      "aria-label": `Copy ${what.toLowerCase()}`,
    }),
  );
}

/** A traceback is shown once, with the attempt; sentences name its last line, which says what was raised. */
function withoutTrace(text, { error }) {
  if (!error?.trim().includes("\n")) return text;
  return text.replace(error, error.trim().split("\n").at(-1).trim());
}

/** An error as it was written: line breaks and indentation matter in a traceback. */
function errorText(error) {
  if (!error.trim().includes("\n")) return h("div", { class: "bad-text" }, error);
  return h("pre", { class: "trace", tabindex: "0", role: "region", "aria-label": "Error text" }, error.trim());
}

/** The words of the explanation, with what each reason adds. */
export function why({ reasons, summary: sentence, ...explained }) {
  const own = reasons.find(({ text }) => text === sentence);
  const summary = own ? withoutTrace(sentence, own) : sentence;
  const others = reasons.filter(({ text }) => text !== sentence);
  return h(
    "div",
    { class: `why state-${explained.state}` },
    h("p", { class: "summary" }, h("span", { id: "summary" }, summary)),
    others.length
      ? h(
          "ul",
          {},
          others.map((reason) => h("li", {}, withoutTrace(reason.text, reason))),
        )
      : null,
    explained.nextChangeAt ? h("p", { class: "muted" }, "Next change: ", when(explained.nextChangeAt)) : null,
  );
}

function traceId(task) {
  return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(task.traceParent ?? "")?.[1];
}

const isPart = (number) => typeof number === "number" && number >= 0;

/** The part that is done, 0 to 1, where what was told says so: 0.4, 40, {percent: 40}, {done: 2, total: 5}. */
export function partOf(progress) {
  if (isPart(progress)) return progress <= 1 ? progress : progress <= 100 ? progress / 100 : undefined;
  if (isPart(progress?.percent) && progress.percent <= 100) return progress.percent / 100;
  const { done, total } = progress ?? {};
  return isPart(done) && total > 0 && done <= total ? done / total : undefined;
}

/** What the running attempt told last. */
function progressText(progress) {
  const text = h("span", { class: "mono" }, typeof progress === "string" ? progress : JSON.stringify(progress));
  const part = partOf(progress);
  if (part === undefined) return text;
  return h("div", { class: "told-progress" }, h("progress", { max: 1, value: part, "aria-label": "Progress" }), text);
}

export function about(task) {
  const headers = Object.entries(task.headers ?? {});
  const trace = traceId(task);
  return facts([
    ["Queue", session.isAdmin ? link(`#/queues/${segment(task.command)}`, task.command) : task.command],
    ["Status", task.status],
    [
      "Attempts",
      `${countedAttempts(task)} of ${task.maxAttempts ?? "unlimited"}${task.refunds ? ` (${task.refunds} refunded)` : ""}`,
    ],
    ["Priority", String(task.priority ?? 0)],
    ["Worker", task.workerId && h("span", { class: "mono" }, task.workerId)],
    ["Lease until", when(task.leaseUntil)],
    ["Created", when(task.createdAt)],
    ["Changed", when(task.updatedAt)],
    ["Tenant", task.tenantId],
    ["Lane", task.lane && link(`#/search?${new URLSearchParams({ lane: task.lane })}`, task.lane)],
    [
      "Tags",
      task.tags?.length
        ? task.tags.map((tag) => [link(`#/search?${new URLSearchParams({ tag })}`, tag), " "])
        : undefined,
    ],
    ["Idempotency key", task.idempotencyKey && copied(task.idempotencyKey, "Idempotency key")],
    ["Unique key", task.uniqueKey && copied(task.uniqueKey, "Unique key")],
    ["Batch", task.batchId && link(`#/batches/${segment(task.batchId)}`, task.batchId, { class: "mono" })],
    ["Waits for", task.waitingFor ? `${task.waitingFor} of ${task.after?.length ?? task.waitingFor}` : undefined],
    ["Expires", when(task.expiresAt)],
    ["Progress", task.progress === undefined ? undefined : progressText(task.progress)],
    ["Callback", task.webhook && h("span", { class: "mono" }, task.webhook)],
    ["Trace id", trace && copied(trace, "Trace id")],
    [
      "Headers",
      headers.length
        ? h(
            "span",
            { class: "mono" },
            headers.map(([name, value]) => h("div", {}, `${name}: ${value}`)),
          )
        : undefined,
    ],
    ["Failure reason", task.failureReason],
    // The attempts, which administrators see beside this, tell the error of each.
    ["Error", session.isAdmin || !task.error ? undefined : errorText(task.error)],
  ]);
}

export function timeline(attempts) {
  if (attempts.length === 0) return h("p", { class: "muted" }, "No worker has claimed it yet.");
  const one = (entry) => {
    const kind = !entry.outcome
      ? "now"
      : GOOD.has(entry.outcome)
        ? "good"
        : NEUTRAL.has(entry.outcome)
          ? ""
          : "bad";
    const took = entry.endedAt ? new Date(entry.endedAt) - new Date(entry.claimedAt) : undefined;
    const lasted = took === undefined ? "still running" : `for ${millis(took)}`;
    return h(
      "li",
      { class: kind },
      h(
        "div",
        {},
        h("b", {}, `Attempt ${entry.attempt}`),
        " ",
        badge((entry.outcome ?? "running").replace("_", " "), kind),
      ),
      h(
        "div",
        { class: "muted" },
        when(entry.claimedAt),
        " · ",
        lasted,
        " · ",
        h("span", { class: "mono" }, entry.workerId),
      ),
      entry.error ? errorText(entry.error) : null,
    );
  };
  return h("ol", { class: "timeline" }, attempts.map(one));
}
