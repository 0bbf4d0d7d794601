// Signing in at an OpenID Connect issuer: authorization code with PKCE. Tokens stay in memory; a reload forgets them.

import { session, setSignedIn } from "./api.js";

/** What has to outlive the way to the issuer and back: no token, and gone at the first look. */
const PENDING = "codeq-signin";
/** An answer of the issuer that takes longer is given up. */
const PATIENCE_MS = 15_000;
/** A token is renewed so long before it ends. */
const EARLY_MS = 30_000;

export class SignInError extends Error {}

const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");

const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

async function challengeOf(verifier) {
  if (!crypto.subtle) throw new SignInError("Signing in needs https (or localhost): the browser offers no cryptography here.");
  return base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

async function json(url, options = {}) {
  let response;
  try {
    response = await fetch(url, {
      ...options,
      credentials: "omit",
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
  } catch {
    throw new SignInError(`${new URL(url).host} cannot be reached, or does not allow this page (CORS).`);
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok)
    throw new SignInError(body.error_description ?? body.error ?? `${new URL(url).host} answered ${response.status}.`);
  return body;
}

async function endpoints() {
  const { issuer, tokenUrl } = session.oidc;
  const found = await json(`${issuer}/.well-known/openid-configuration`);
  if (String(found.issuer ?? "").replace(/\/$/, "") !== issuer)
    throw new SignInError(`${issuer} says that it is ${found.issuer}: correct dashboard.oidc.issuer.`);
  return { authorization: found.authorization_endpoint, token: tokenUrl ?? found.token_endpoint };
}

const redirectUri = () => `${location.origin}/ui`;

/** Leaves for the issuer; comes back to `/ui?code=…`. */
export async function leave() {
  const { clientId, scopes } = session.oidc;
  const { authorization, token } = await endpoints();
  const pending = { verifier: random(), state: random(), nonce: random(), token, hash: location.hash };
  const challenge = await challengeOf(pending.verifier);
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  const url = new URL(authorization);
  const parameters = {
    response_type: "code",
    client_id: clientId,
    redirect_uri: redirectUri(),
    scope: scopes,
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: challenge,
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  location.assign(url);
}

/** Whether this page was opened by an issuer's answer. */
export function isAnswer() {
  const answer = new URLSearchParams(location.search);
  return answer.has("state") && (answer.has("code") || answer.has("error"));
}

/** Takes the issuer's answer out of the address and makes it a session. Throws a `SignInError`. */
export async function arrive() {
  const answer = new URLSearchParams(location.search);
  const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "null");
  sessionStorage.removeItem(PENDING);
  history.replaceState(null, "", `/ui${pending?.hash ?? ""}`);
  if (!session.oidc || !pending || pending.state !== answer.get("state"))
    throw new SignInError("This answer of the issuer belongs to another sign-in. Please sign in again.");
  if (answer.has("error"))
    throw new SignInError(`The issuer refused: ${answer.get("error_description") ?? answer.get("error")}.`);
  const given = await ask(pending.token, {
    grant_type: "authorization_code",
    code: answer.get("code"),
    redirect_uri: redirectUri(),
    code_verifier: pending.verifier,
  });
  if (given.id_token && claimsOf(given.id_token).nonce !== pending.nonce)
    throw new SignInError("The issuer's token belongs to another sign-in. Please sign in again.");
  keep(given, pending.token);
}

function ask(tokenUrl, parameters) {
  const body = new URLSearchParams({ ...parameters, client_id: session.oidc.clientId });
  return json(tokenUrl, { method: "POST", body });
}

function claimsOf(token) {
  try {
    return JSON.parse(atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")));
  } catch {
    return {};
  }
}

/** The server checks signatures, so it needs a token that carries one; opaque access tokens do not. */
function usable({ access_token: access, id_token: id }) {
  return [access, id].find((token) => typeof token === "string" && token.split(".").length === 3);
}

function keep(given, tokenUrl) {
  const token = usable(given);
  if (!token) throw new SignInError("The issuer gave no token that this server could check.");
  const lasts = Number(given.expires_in);
  const endsAt = lasts > 0 ? Date.now() + lasts * 1000 - EARLY_MS : Infinity;
  const again = given.refresh_token;
  const renew = again
    ? async () => {
        const next = await ask(tokenUrl, { grant_type: "refresh_token", refresh_token: again });
        keep({ refresh_token: again, ...next }, tokenUrl);
      }
    : null;
  setSignedIn({ token, endsAt, renew });
}
