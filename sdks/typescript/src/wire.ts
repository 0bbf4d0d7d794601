// JSON as the server reads it, spans of time, and exact texts of numbers that JavaScript cannot hold.

/** Seconds as a number, or a text such as `"500ms"`, `"30s"`, `"5m"`, `"2h"`, `"1d"`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function milliseconds(span: Duration): number {
  if (typeof span === "number") return span * 1000;
  const parts = /^(-?\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(span);
  const unit = parts && UNITS[parts[2] as string];
  if (!unit) throw new TypeError(`${span} is no span of time`);
  return Number(parts[1]) * unit;
}

/** Whole seconds, rounded up: never earlier than asked for. */
export function wholeSeconds(span: Duration, least = 0): number {
  return Math.max(least, Math.ceil(milliseconds(span) / 1000));
}

/**
 * JSON text that is sent as it is, as a payload or as a result: `new RawJson('{"id": 9007199254740993}')`.
 * For integers above 2^53, which JavaScript cannot hold.
 */
export class RawJson {
  readonly text: string;
  constructor(text: string) {
    JSON.parse(text);
    this.text = text;
  }
}

/** JSON text of a value. Throws for what JSON cannot say. */
export function stringify(value: unknown): string {
  if (value instanceof RawJson) return value.text;
  const text = JSON.stringify(value, (_, part) => {
    if (typeof part === "number" && !Number.isFinite(part)) throw new TypeError(`${part} cannot be written as JSON`);
    return part;
  });
  if (text === undefined) throw new TypeError(`${typeof value} cannot be written as JSON`);
  return text;
}

/** An object's text from the texts of its fields; those that are undefined are left out. */
export function objectText(fields: Record<string, string | undefined>): string {
  const known = Object.entries(fields).filter(([, text]) => text !== undefined);
  return `{${known.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`;
}

/** The exact text of `object[path[0]][path[1]]...` in a JSON text, or undefined. The text must be sound JSON. */
export function rawField(text: string, ...path: string[]): string | undefined {
  let at = 0;
  for (const name of path) {
    const found = fieldAt(text, at, name);
    if (found === undefined) return undefined;
    at = found;
  }
  return text.slice(at, endOf(text, at));
}

function fieldAt(text: string, start: number, name: string): number | undefined {
  let at = skipSpace(text, start);
  if (text[at] !== "{") return undefined;
  at = skipSpace(text, at + 1);
  while (text[at] === '"') {
    const end = endOf(text, at);
    const key: unknown = JSON.parse(text.slice(at, end));
    const value = skipSpace(text, skipSpace(text, end) + 1);
    if (key === name) return value;
    at = skipSpace(text, endOf(text, value));
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return undefined;
}

/** Where the value that begins at `start` ends. */
function endOf(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const letter = text[at];
    if (letter === '"') {
      at = endOfString(text, at) - 1;
      if (depth === 0) return at + 1;
    } else if (letter === "{" || letter === "[") depth++;
    else if (letter === "}" || letter === "]") {
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (letter === "," || letter === " " || letter === "\n")) return at;
  }
  return text.length;
}

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (text[at] === " " || text[at] === "\n" || text[at] === "\t" || text[at] === "\r") at++;
  return at;
}

const encoder = new TextEncoder();

export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** A promise that resolves after that time, or as soon as the signal aborts. Never rejects. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}
