// Requests to one server: tokens, timeouts, and what is tried again. Nothing here knows what a task is.

import { Backoff } from "./backoff.js";
import { CodeqError, type Refused, refusal, Unavailable } from "./errors.js";
import { GIVE_UP_MS, REQUEST_MS } from "./limits.js";
import { pause } from "./wire.js";

/** A token, or something that is asked for one: at first, and again whenever the server no longer takes it. */
export type Token = string | (() => string | Promise<string>);

export interface Answer {
  status: number;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what the server sends is read where its shape is known
  body: any;
  bytes: Uint8Array | undefined;
  headers: Headers;
  /** The call had been sent before without an answer: what it asks for may have been done by that. */
  isRepeat: boolean;
}

export interface Call {
  method?: string;
  body?: string | undefined;
  /** How long the server may wait before it answers. */
  waitMs?: number;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** False for what must not be done twice: repeated only when it cannot have been done. */
  isSafe?: boolean;
  /** From a worker: any 5xx says to come back, so that work that is done is not thrown away for a fault of the server. */
  isWork?: boolean;
  /** How long it is repeated, if not as long as the transport says. */
  giveUpMs?: number;
  /** Keep the answer as bytes. */
  isBinary?: boolean;
}

/** No answer to one request. */
export class Absent extends CodeqError {
  readonly retryAfterMs: number | undefined;
  readonly wasSent: boolean;
  readonly refusal: Refused | undefined;
  constructor(text: string, known: { retryAfterMs?: number | undefined; wasSent: boolean; refusal?: Refused }) {
    super(text);
    this.retryAfterMs = known.retryAfterMs;
    this.wasSent = known.wasSent;
    this.refusal = known.refusal;
  }
}

const COME_BACK = new Set([429, 502, 503, 504]);
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT", "EHOSTUNREACH"]);

export class Transport {
  readonly url: string;
  readonly giveUpMs: number;
  /** What to use instead of the global `fetch`. */
  readonly ownFetch: typeof fetch | undefined;
  readonly #source: Token;
  readonly #fetch: typeof fetch;
  #token: string | undefined;
  #renewal: Promise<string> | undefined;

  constructor(url: string, token: Token, giveUpMs = GIVE_UP_MS, ownFetch?: typeof fetch) {
    this.url = url.replace(/\/+$/, "");
    this.giveUpMs = giveUpMs;
    this.#source = token;
    this.#token = typeof token === "string" ? token : undefined;
    this.ownFetch = ownFetch;
    this.#fetch = ownFetch ?? fetch;
  }

  /** Calls until there is an answer. Throws `Refused` for 4xx, and for 500 unless it is `isWork`; `Unavailable` at the end. */
  async call(path: string, call: Call = {}): Promise<Answer> {
    const backoff = new Backoff();
    const end = Date.now() + (call.giveUpMs ?? this.giveUpMs);
    let wasSent = false;
    for (;;) {
      try {
        return { ...(await this.once(path, call)), isRepeat: wasSent };
      } catch (error) {
        if (!(error instanceof Absent)) throw error;
        wasSent ||= error.wasSent;
        const ms = backoff.pause(error.retryAfterMs);
        if ((error.wasSent && call.isSafe === false) || Date.now() + ms > end) {
          throw new Unavailable(`${call.method ?? "POST"} ${path}: ${error.message}`, error.refusal, { cause: error });
        }
        await pause(ms, call.signal);
        call.signal?.throwIfAborted();
      }
    }
  }

  /** One request, and a second one with a new token if the first was refused for its token. */
  async once(path: string, call: Call = {}): Promise<Answer> {
    const token = await this.token();
    let response = await this.#send(path, call, token);
    if (response.status === 401 && typeof this.#source !== "string") {
      await response.arrayBuffer().catch(() => undefined);
      response = await this.#send(path, call, await this.token(token));
    }
    return this.#read(response, call);
  }

  /** The token; a new one if nobody has renewed the refused one yet. */
  async token(refused?: string): Promise<string> {
    if (this.#token !== undefined && (this.#token !== refused || typeof this.#source === "string")) return this.#token;
    const source = this.#source as () => string | Promise<string>;
    this.#renewal ??= (async () => source())()
      .then((token) => {
        this.#token = token;
        return token;
      })
      .catch((error: unknown) => {
        throw new Absent(`no token: ${String(error)}`, { wasSent: false });
      })
      .finally(() => {
        this.#renewal = undefined;
      });
    return this.#renewal;
  }

  async #send(path: string, call: Call, token: string): Promise<Response> {
    const headers = { "Content-Type": "application/json", ...call.headers, Authorization: `Bearer ${token}` };
    const { method = "POST", body = null } = call;
    try {
      return await this.#fetch(this.url + path, { method, headers, body, signal: deadline(call), redirect: "error" });
    } catch (error) {
      throw absent(error, call.signal);
    }
  }

  async #read(response: Response, call: Call): Promise<Answer> {
    let bytes: Uint8Array | undefined;
    let text = "";
    try {
      if (call.isBinary && response.ok) bytes = new Uint8Array(await response.arrayBuffer());
      else text = await response.text();
    } catch (error) {
      throw absent(error, call.signal);
    }
    const { status, headers } = response;
    const body = parsed(text);
    if (status < 300 && text.trim() && body === undefined) {
      throw new Absent("an answer that is not JSON", { wasSent: true });
    }
    if (status < 300) return { status, text, body, bytes, headers, isRepeat: false };
    const refused = refusal(status, body, headers.get("x-request-id") ?? undefined);
    if (!COME_BACK.has(status) && !(call.isWork && status >= 500)) throw refused;
    const seconds = Number(headers.get("retry-after") ?? Number.NaN);
    const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : undefined;
    throw new Absent(`${status} ${refused.message}`, { retryAfterMs, wasSent: status !== 429, refusal: refused });
  }
}

/** Aborts when the request takes too long, or with the signal of the caller. Leaves nothing behind on either. */
function deadline(call: Call): AbortSignal {
  const timeout = AbortSignal.timeout((call.waitMs ?? 0) + REQUEST_MS);
  const outer = call.signal;
  if (!outer) return timeout;
  const both = new AbortController();
  const abort = () => both.abort(outer.aborted ? outer.reason : timeout.reason);
  if (outer.aborted) abort();
  outer.addEventListener("abort", abort, { once: true });
  timeout.addEventListener("abort", () => {
    outer.removeEventListener("abort", abort);
    abort();
  });
  return both.signal;
}

function absent(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason;
  const cause = (error as { cause?: { code?: string; message?: string } }).cause;
  const text = cause?.message || (error as Error).message || String(error);
  return new Absent(text, { wasSent: !(cause?.code && NOT_SENT.has(cause.code)) });
}

function parsed(text: string): unknown {
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
