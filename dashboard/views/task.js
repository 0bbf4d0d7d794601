// One task: why it is where it is, what happened to it, what it carries.

import { get, getText, post, remove, segment, send, session } from "../api.js";
import { button, deed, field, h, link, panel, replace } from "../dom.js";
import { ask, attempt } from "../dialog.js";
import { content, parseExactly } from "../content.js";
import { poll } from "../poll.js";
import { stateBadge, stateOf } from "../states.js";
import { about, ageAll, redraw, timeline, why } from "./telling.js";
import { runAgain } from "./again.js";
import { graph } from "./graph.js";
import { deliveryList } from "./webhooks.js";

async function download(artifact) {
  const path = new URL(artifact.url, location.href).pathname;
  const response = await send("GET", path.replace(/^\/v1\/codeq/, ""));
  const address = URL.createObjectURL(await response.blob());
  h("a", { href: address, download: artifact.name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function artifacts(list) {
  const one = (artifact) =>
    h(
      "li",
      {},
      button(artifact.name, () => attempt(() => download(artifact)), { class: "small" }),
    );
  return panel("Artifacts", {}, h("ul", { class: "artifacts" }, list.map(one)));
}

async function resultOf(id, signal) {
  const text = await getText(`/tasks/${segment(id)}/result`, { signal });
  return parseExactly(text).result;
}

function outcome(record) {
  const parts = [];
  if (record.result !== undefined) parts.push(content("Result", JSON.stringify(record.result)));
  return parts;
}

function runNow(path, refresh) {
  const run = async () => {
    await attempt(() => post(`/admin/tasks/${path}/run-now`), "The task is ready.");
    refresh();
  };
  return deed("Run now", run, { class: "primary" });
}

/** The longest grace that a cancel may give. */
const GRACE_SECONDS = 3600;

/** A running task may be given time to end by itself. */
function cancelling(path, state) {
  const grace = h("input", { name: "grace", type: "number", min: 0, max: GRACE_SECONDS, value: 0, required: true });
  const reason = h("input", { name: "reason", maxlength: 512, autocomplete: "off" });
  const isRunning = state === "running";
  const text = isRunning
    ? "1 task will be cancelled. With a grace its worker is told and may end it until then; without one its result will be refused."
    : "1 task will be cancelled. It will not run.";
  return {
    title: "Cancel this task?",
    describe: async () => text,
    fields: [isRunning ? field("Grace in seconds", grace) : null, field("Reason", reason)].filter(Boolean),
    confirm: "Cancel task",
    isDangerous: true,
    act: (values) => {
      const why = values.get("reason").trim();
      const body = { graceSeconds: Number(values.get("grace") ?? 0), ...(why && { reason: why }) };
      return post(`/admin/tasks/${path}/cancel`, body);
    },
  };
}

function actions(task, refresh) {
  if (!session.isAdmin) return [];
  const path = segment(task.id);
  const dead = `/admin/dlq/${segment(task.command)}/${path}`;
  const act = (settings) => async () => {
    if (await ask(settings)) refresh();
  };
  const state = stateOf(task);
  const list = [];
  if (state === "delayed") list.push(runNow(path, refresh));
  if (["ready", "delayed", "held", "running"].includes(state)) {
    list.push(deed("Cancel task", act(cancelling(path, state)), { class: "danger" }));
  }
  if (task.status === "FAILED") {
    list.push(
      deed(
        "Replay",
        act({
          title: "Replay this task?",
          describe: async () => `1 task will be put back into the queue ${task.command}, with a full set of attempts.`,
          confirm: "Replay",
          act: () => post(`${dead}/requeue`, {}),
        }),
        { class: "primary" },
      ),
    );
  }
  if (state === "dead") {
    list.push(
      deed(
        "Delete",
        act({
          title: "Delete this dead letter?",
          describe: async () => "1 task will be deleted permanently, with its payload.",
          confirm: "Delete",
          isDangerous: true,
          act: () => remove(dead),
        }),
        { class: "danger" },
      ),
    );
  }
  return list;
}

function crumbs({ command }) {
  if (!session.isAdmin) return ["Tasks"];
  return [link("#/", "Queues"), " / ", link(`#/queues/${segment(command)}`, command), " / Task"];
}

function copyId(id) {
  return button("Copy id", () => attempt(() => navigator.clipboard.writeText(id), "Id copied."), {
    title: "Copy the id of this task (c)",
  });
}

function again(task) {
  if (!session.isAdmin) return null;
  return deed("Edit and run again…", () => attempt(() => runAgain(task)));
}

/** c copies the id, unless somebody types or copies something else. */
function listenForKeys(id, signal) {
  const copy = (event) => {
    if (event.key !== "c" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, dialog")) return;
    attempt(() => navigator.clipboard.writeText(id), "Id copied.");
  };
  addEventListener("keydown", copy, { signal });
}

const EVERY_MS = 2000;
/** The task itself, with a payload of up to a megabyte, is read when something happened, or after so long. */
const READ_MS = 15_000;

async function readTask(id, signal) {
  try {
    return await get(`/tasks/${segment(id)}`, { signal });
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function unknown(id) {
  return h(
    "div",
    { class: "empty" },
    h("h1", {}, "There is no such task"),
    h("p", { class: "mono" }, id),
    h("p", {}, "It never existed, has expired, was deleted, or belongs to another tenant."),
  );
}

function makePlaces(root) {
  const place = () => h("div");
  const places = {
    head: h("div", { class: "page-head" }),
    reasons: h("div", { "aria-live": "polite" }),
    details: place(),
    attempts: place(),
    graph: place(),
    checkpoint: place(),
    payload: place(),
    result: place(),
    callbacks: place(),
  };
  const columns = h(
    "div",
    { class: "columns" },
    panel("Details", {}, places.details),
    session.isAdmin ? panel("Attempts", {}, places.attempts) : null,
  );
  replace(
    root,
    places.head,
    places.reasons,
    places.graph,
    columns,
    places.checkpoint,
    places.payload,
    places.result,
    places.callbacks,
  );
  return places;
}

async function draw(places, now, refresh, signal) {
  const state = stateOf(now);
  const title = h(
    "div",
    {},
    h("nav", { class: "crumb", "aria-label": "Breadcrumb" }, crumbs(now)),
    h("h1", { class: "mono" }, now.id, " ", stateBadge(state)),
  );
  replace(places.head, title, h("div", { class: "actions" }, copyId(now.id), again(now), actions(now, refresh)));
  const { payload, checkpoint, ...others } = now;
  redraw(places.checkpoint, checkpoint ?? null, (saved) =>
    saved === null ? [] : panel("Checkpoint", { class: "bare" }, content("Checkpoint", JSON.stringify(saved))),
  );
  if (!places.graph.firstChild && session.isAdmin) {
    places.graph.append(graph(now, signal));
  }
  if (!places.payload.firstChild)
    places.payload.append(panel("Payload", { class: "bare" }, content("Payload", payload ?? "null")));
  if (now.webhook && session.isAdmin && !places.callbacks.firstChild) {
    places.callbacks.append(panel("Callbacks", {}, deliveryList({ taskId: now.id }, signal)));
  }
  redraw(places.details, others, about);
  if (!now.resultKey) return replace(places.result);
  const record = await resultOf(now.id, signal);
  redraw(places.details, { ...others, failureReason: record.failureReason }, about);
  const parts = outcome(record);
  return replace(
    places.result,
    parts.length ? panel("Result", { class: "bare" }, parts) : null,
    record.artifacts?.length ? artifacts(record.artifacts) : null,
  );
}

export async function task({ root, rest, signal }) {
  const id = rest[0] ?? "";
  const first = await readTask(id, signal);
  if (!first) return replace(root, unknown(id));
  const places = makePlaces(root);
  listenForKeys(id, signal);
  let seen = "";
  let readAt = 0;
  let version = "";
  let refresh = () => {};

  const readAll = async (next) => {
    const now = next ?? (await readTask(id, signal));
    readAt = Date.now();
    if (!now) return gone(places);
    const { payload: _, ...others } = now;
    if (JSON.stringify(others) !== version) await draw(places, now, () => refresh(), signal);
    version = JSON.stringify(others);
    return undefined;
  };
  await readAll(first);

  const round = async () => {
    let now = seen;
    if (session.isAdmin) {
      const of = (what) => get(`/admin/tasks/${segment(id)}/${what}`, { signal });
      const [explained, list] = await Promise.all([of("explain"), of("attempts")]);
      redraw(places.reasons, explained, why);
      redraw(places.attempts, list.items, timeline);
      now = JSON.stringify([explained.state, explained.reasons.map(({ code }) => code), list.items]);
    }
    if (now !== seen || Date.now() - readAt > READ_MS || !session.isAdmin) await readAll();
    seen = now;
    ageAll(root);
  };
  const isGone = (error) => (error.status === 404 ? gone(places) : Promise.reject(error));
  refresh = poll(() => round().catch(isGone), EVERY_MS, signal);
  return undefined;
}

function gone({ head, reasons }) {
  head.querySelector(".actions")?.replaceChildren();
  replace(reasons, h("p", { class: "why" }, "The task is gone: deleted or expired."));
}
