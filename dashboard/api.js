// The public API, with the token of this tab.

const TOKEN = "codeq-token";
const BASE = "/v1/codeq";
/** A request that takes longer is given up; the next round asks again. */
const PATIENCE_MS = 20_000;

export class ApiError extends Error {
  constructor(status, code, text, requestId) {
    super(text);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
  }

  /** The server is not there, not yet, or not well. Asking again may help. */
  get isAway() {
    // 501 is what this server's store cannot do.
    return this.status === 0 || (this.status >= 500 && this.status !== 501);
  }
}

export const session = {
  /** Given by `codeq dev`; empty anywhere else. */
  devToken: "",
  version: "",
  /** Where people sign in, if the server says so: issuer, clientId, scopes. */
  oidc: null,
  /** Whether the token has admin rights. */
  isAdmin: false,
  /** Whether the token may look at everything and change nothing. */
  isReadOnly: false,
  tenant: "",
};

/** From an issuer, in memory only: token, endsAt, renew. */
let signedIn = null;

export function token() {
  return signedIn?.token ?? sessionStorage.getItem(TOKEN) ?? session.devToken;
}

export function setSignedIn(given) {
  signedIn = given;
}

/** Pasted by hand; an empty one signs out, however somebody came in. */
export function setToken(text) {
  signedIn = null;
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

export function hasOwnToken() {
  return signedIn !== null || sessionStorage.getItem(TOKEN) !== null;
}

let renewing = null;

/** One renewal for all requests that wait for it; one that fails is left to the server's refusal. */
async function renewInTime() {
  if (!signedIn?.renew || Date.now() < signedIn.endsAt) return;
  renewing ??= signedIn
    .renew()
    .catch(() => undefined)
    .finally(() => (renewing = null));
  await renewing;
}

/** Tells who listens: `away`, `back`, `refused`. */
export const connection = new EventTarget();
/** What did not answer when it was last asked: path → error. */
const failing = new Map();

function tell(name, detail) {
  connection.dispatchEvent(new CustomEvent(name, { detail }));
}

const withoutQuery = (path) => path.split("?")[0];

function reached(path) {
  const before = failing.size;
  failing.delete(withoutQuery(path));
  for (const [other, { status }] of failing) if (status === 0) failing.delete(other);
  if (before > 0 && failing.size === 0) tell("back");
}

function lost(path, error) {
  failing.set(withoutQuery(path), error);
  tell("away", error);
}

/** A page that is left takes its failures along. */
export function forgetFailures() {
  if (failing.size > 0) tell("back");
  failing.clear();
}

export function query(parameters) {
  const given = Object.entries(parameters).filter(
    ([, value]) => value !== "" && value !== undefined && value !== null,
  );
  const text = new URLSearchParams(given).toString();
  return text ? `?${text}` : "";
}

/** Who the token says it is; empty for a token that does not say. */
export function subject() {
  try {
    const [, claims] = token().split(".");
    const text = atob(claims.replace(/-/g, "+").replace(/_/g, "/"));
    return String(JSON.parse(text).sub ?? "");
  } catch {
    return "";
  }
}

export const segment = encodeURIComponent;

/** Sends a request under /v1/codeq; the answer is not read. Throws an `ApiError` for anything but success. */
export async function send(method, path, { body, signal, headers = {}, patience = PATIENCE_MS } = {}) {
  await renewInTime();
  const signals = [signal, patience && AbortSignal.timeout(patience)].filter(Boolean);
  let response;
  try {
    response = await fetch(BASE + path, {
      method,
      headers: { Authorization: `Bearer ${token()}`, ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.any(signals),
      cache: "no-store",
      credentials: "omit",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const failed = new ApiError(0, "unreachable", "The server cannot be reached.");
    lost(path, failed);
    throw failed;
  }
  if (response.ok) {
    reached(path);
    session.isReadOnly = response.headers.get("Codeq-Access") === "read";
    return response;
  }
  throw await refusal(path, response);
}

async function refusal(path, response) {
  const text = await response.text().catch(() => "");
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    // Not ours: a proxy, perhaps.
  }
  const error = new ApiError(
    response.status,
    body.code ?? "",
    body.error ?? `HTTP ${response.status}`,
    body.requestId,
  );
  if (error.isAway) lost(path, error);
  else reached(path);
  if (error.status === 401) tell("refused", error);
  return error;
}

async function readJson(response) {
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export async function get(path, options) {
  return readJson(await send("GET", path, options));
}

export async function getText(path, options) {
  return (await send("GET", path, options)).text();
}

export async function post(path, body, options) {
  return readJson(await send("POST", path, { ...options, body }));
}

export async function put(path, body, options) {
  return readJson(await send("PUT", path, { ...options, body }));
}

export async function remove(path, options) {
  return readJson(await send("DELETE", path, options));
}
