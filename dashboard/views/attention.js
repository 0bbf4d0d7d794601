// What needs attention: queues in which something goes wrong, the most urgent first.

import { h, link, panel, replace } from "../dom.js";
import { segment } from "../api.js";
import { age, count, plural, rate } from "../format.js";

/** The rules of deploy/prometheus/alerts.yaml, by the name of the alert; a test compares the numbers. */
const ALERTS = {
  CodeqNoWorker: { waitSeconds: 60 },
  CodeqOldestTaskWaits: { waitSeconds: 900 },
  CodeqBacklogGrows: { tasks: 100, factor: 1.2 },
  CodeqTasksFail: { part: 0.1 },
  CodeqLimitReached: { tasks: 0 },
  CodeqQueuePaused: { tasks: 0 },
};
/** Tasks that have to fail before their part counts. */
const FAILED_TASKS = 3;
/** Entries that are shown. */
const SHOWN = 8;

const sum = (numbers = []) => numbers.reduce((total, number) => total + number, 0);

/** A queue as the rules see it; failed and ended are those of the history shown, 15 minutes. */
function facts(queue) {
  const { ready, inProgress, dlq, paused, limited = 0, oldestReadyAgeSeconds: oldest = 0, history } = queue;
  return {
    ...{ ready, inProgress, dlq, paused, limited, oldest },
    created: history?.createdPerSecond ?? 0,
    going: history?.endedPerSecond ?? 0,
    ended: sum(history?.ended),
    failed: sum(history?.failed),
  };
}

/** The first that holds is told: its urgency, whether it holds, its text, and its page if that is not the queue's. */
const RULES = [
  [
    2,
    (q) => q.paused && q.ready > ALERTS.CodeqQueuePaused.tasks,
    (q) => `is paused; ${plural(q.ready, "task")} waiting`,
  ],
  [
    3,
    (q) => q.limited > ALERTS.CodeqLimitReached.tasks && q.oldest >= ALERTS.CodeqNoWorker.waitSeconds,
    (q) => `has reached a limit of its policy: ${plural(q.limited, "task")} held back, the oldest for ${age(q.oldest)}`,
  ],
  [
    5,
    (q) => q.ready > 0 && q.inProgress === 0 && q.oldest >= ALERTS.CodeqNoWorker.waitSeconds,
    (q) => `has no worker: ${plural(q.ready, "task")} ready, the oldest for ${age(q.oldest)}`,
  ],
  [
    4,
    (q) => q.ready > 0 && q.oldest >= ALERTS.CodeqOldestTaskWaits.waitSeconds,
    (q) => `is behind: the oldest of ${plural(q.ready, "task")} has waited ${age(q.oldest)}`,
  ],
  [
    3,
    (q) => q.failed >= FAILED_TASKS && q.failed > ALERTS.CodeqTasksFail.part * q.ended,
    (q) => `fails: ${count(q.failed)} of ${plural(q.ended, "task")} in 15 minutes`,
    (command) => `#/failed?command=${command}`,
  ],
  [
    3,
    (q) => q.ready > ALERTS.CodeqBacklogGrows.tasks && q.created > ALERTS.CodeqBacklogGrows.factor * q.going,
    (q) => `grows: ${rate(q.created)} in, ${rate(q.going)} out, ${count(q.ready)} ready`,
  ],
  [
    1,
    (q) => q.dlq > 0,
    (q) => `has ${plural(q.dlq, "dead letter")}`,
    (command) => `#/dead?command=${command}`,
  ],
];

/** The first thing that is wrong with a queue, as [urgency, text, address], or nothing. */
export function problemOf(queue) {
  const known = facts(queue);
  const rule = RULES.find(([, isSo]) => isSo(known));
  if (!rule) return null;
  const [urgency, , text, address = (command) => `#/queues/${command}`] = rule;
  return [urgency, text(known), address(segment(queue.command))];
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
