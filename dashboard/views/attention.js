// What needs attention: queues in which something goes wrong, the most urgent first.

import { h, link, panel, replace } from "../dom.js";
import { segment } from "../api.js";
import { age, count, plural, rate } from "../format.js";

/** A ready task that nobody runs for this long has no worker. */
const STARVING_SECONDS = 30;
/** A ready task that waits this long is late, as the shipped alert has it at a quarter of an hour. */
const LATE_SECONDS = 300;
/** A backlog this large is worth a word when it grows. */
const BACKLOG_TASKS = 100;
/** How much more has to come than go. */
const GROWTH = 1.2;
/** Entries that are shown. */
const SHOWN = 8;

/** The first thing that is wrong with a queue, as [urgency, text, address], or nothing. */
export function problemOf(queue) {
  const { command, ready, inProgress, dlq, paused, oldestReadyAgeSeconds: oldest = 0, history } = queue;
  const address = `#/queues/${segment(command)}`;
  if (paused && ready > 0) return [2, `is paused; ${plural(ready, "task")} waiting`, address];
  if (ready > 0 && inProgress === 0 && oldest >= STARVING_SECONDS)
    return [5, `has no worker: ${plural(ready, "task")} ready, the oldest for ${age(oldest)}`, address];
  if (ready > 0 && oldest >= LATE_SECONDS)
    return [4, `is behind: the oldest of ${plural(ready, "task")} has waited ${age(oldest)}`, address];
  const [created, ended] = [history?.createdPerSecond ?? 0, history?.endedPerSecond ?? 0];
  if (ready >= BACKLOG_TASKS && created > GROWTH * ended)
    return [3, `grows: ${rate(created)} in, ${rate(ended)} out, ${count(ready)} ready`, address];
  if (dlq > 0) return [1, `has ${plural(dlq, "dead letter")}`, `#/dead?command=${segment(command)}`];
  return null;
}

export function attention() {
  const list = h("ul", { class: "attention" });
  const node = panel("Needs attention", { hidden: true, class: "attention-panel" }, list);
  let drawn = "";
  const update = (queues) => {
    const found = queues
      .map((queue) => [queue, problemOf(queue)])
      .filter(([, problem]) => problem)
      .sort(([a, one], [b, other]) => other[0] - one[0] || (a.command < b.command ? -1 : 1));
    const rows = found.slice(0, SHOWN).map(([{ command }, [urgency, text, address]]) => ({ command, urgency, text, address }));
    const more = found.length - rows.length;
    const next = JSON.stringify([rows, more]);
    if (next === drawn) return;
    drawn = next;
    node.hidden = rows.length === 0;
    replace(
      list,
      rows.map(({ command, urgency, text, address }) =>
        h("li", { class: urgency >= 4 ? "bad" : "" }, link(address, command), " ", text),
      ),
      more > 0 ? h("li", { class: "muted" }, `and ${plural(more, "more queue")}`) : null,
    );
  };
  return { node, update };
}
