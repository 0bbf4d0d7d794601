// How a handler can end besides returning and throwing, and what is reported for it.

import { ERROR_CHARACTERS } from "./limits.js";
import { type Duration, objectText, RawJson, stringify, wholeSeconds } from "./wire.js";

/** Throw it to end the task as FAILED: there is no further attempt. */
export class Fail extends Error {
  override name = "Fail";
}

/**
 * Throw it to have the task delivered again, after `delay` or after the backoff of the server. `hold` also keeps
 * everything else of the lane or the queue back until then, and the attempt does not count: for a service that asks to be
 * left alone for a while.
 */
export class Retry extends Error {
  override name = "Retry";
  readonly delay: Duration | undefined;
  readonly hold: "lane" | "queue" | undefined;
  constructor(reason = "retry", options: { delay?: Duration; hold?: "lane" | "queue" } = {}) {
    super(reason);
    this.delay = options.delay;
    this.hold = options.hold;
  }
}

export interface ArtifactIn {
  name: string;
  url?: string;
  contentBase64?: string;
  contentType?: string;
}

/** What is told to the server about one attempt. */
export interface Report {
  taskId: string;
  attempt: number;
  verb: "result" | "nack" | "abandon";
  /** Texts of the fields. */
  fields: Record<string, string>;
  outcome: "completed" | "failed" | "retried" | "given back";
}

export function reportText(report: Report, isItem: boolean): string {
  const taskId = isItem ? JSON.stringify(report.taskId) : undefined;
  return objectText({ taskId, ...report.fields, attempt: String(report.attempt) });
}

export function completed(taskId: string, attempt: number, value: unknown, artifacts: ArtifactIn[]): Report {
  let result: string;
  try {
    result = resultText(value);
  } catch (error) {
    return failed(taskId, attempt, `the result was not taken: ${(error as Error).message}`);
  }
  const fields = { status: '"COMPLETED"', result, ...withArtifacts(artifacts) };
  return { taskId, attempt, verb: "result", fields, outcome: "completed" };
}

export function failed(taskId: string, attempt: number, error: string, artifacts: ArtifactIn[] = []): Report {
  const fields = { status: '"FAILED"', error: words(error || "failed"), ...withArtifacts(artifacts) };
  return { taskId, attempt, verb: "result", fields, outcome: "failed" };
}

/** What an error of a handler means. */
export function thrown(taskId: string, attempt: number, error: unknown, artifacts: ArtifactIn[]): Report {
  if (error instanceof Fail) return failed(taskId, attempt, error.message, artifacts);
  const fields: Record<string, string> = { reason: words(textOf(error)) };
  if (error instanceof Retry) {
    fields.reason = words(error.message);
    if (error.delay !== undefined) fields.delaySeconds = String(wholeSeconds(error.delay, 1));
    if (error.hold !== undefined) fields.hold = JSON.stringify(error.hold);
  }
  return { taskId, attempt, verb: "nack", fields, outcome: "retried" };
}

export function givenBack(taskId: string, attempt: number): Report {
  return { taskId, attempt, verb: "abandon", fields: { refund: "true" }, outcome: "given back" };
}

/** Results are JSON objects: nothing becomes `{}`, any other value `{"value": ...}`. */
export function resultText(value: unknown): string {
  if (value === undefined || value === null) return "{}";
  const text = value instanceof RawJson ? value.text.trim() : stringify(value);
  return text.startsWith("{") ? text : `{"value":${text}}`;
}

function withArtifacts(artifacts: ArtifactIn[]): Record<string, string> {
  return artifacts.length ? { artifacts: JSON.stringify(artifacts) } : {};
}

function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message ? `${error.name}: ${error.message}` : error.name;
}

function words(text: string): string {
  const cut = text.slice(0, ERROR_CHARACTERS);
  // Half a character, which a cut can leave, would be sent as an escape that the server refuses.
  return JSON.stringify(cut.isWellFormed() ? cut : cut.toWellFormed());
}
