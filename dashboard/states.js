// The state of a task in one word, as explain calls it.

import { badge } from "./dom.js";

const PLACES = {
  PENDING_LIST: "ready",
  DELAYED_ZSET: "delayed",
  HELD_SET: "held",
  INPROG_SET: "running",
  DLQ_SET: "dead",
};

export function stateOf(task) {
  return PLACES[task.lastKnownLocation] ?? (task.status === "COMPLETED" ? "completed" : "failed");
}

export function stateBadge(state) {
  return badge(state, `state-${state}`);
}

/** Attempts that count. Refunded ones do not, and a replay refunds all that went before. */
export function countedAttempts(task) {
  return Math.max(0, (task.attempts ?? 0) - (task.refunds ?? 0));
}
