// Signing in: at the issuer that the server names, or with a token.

import { hasOwnToken, session, setToken } from "../api.js";
import { button, field, h, replace } from "../dom.js";
import { leave } from "../oidc.js";

function reason(refusal) {
  if (!refusal) return null;
  if (refusal.status === undefined) return h("p", { class: "failed", role: "alert" }, refusal.message);
  const text = hasOwnToken()
    ? `The server does not accept this token: ${refusal.message}.`
    : `The server asks for a token: ${refusal.message}.`;
  return h("p", { class: "failed", role: "alert" }, text);
}

/** The way to the issuer, if there is one. */
function issuer() {
  if (!session.oidc) return null;
  const failed = h("p", { class: "failed", role: "alert" });
  const go = button(
    `Sign in with ${new URL(session.oidc.issuer).host}`,
    async () => {
      go.disabled = true;
      failed.textContent = "";
      await leave().catch((error) => {
        failed.textContent = error.message;
        go.disabled = false;
      });
    },
    { class: "primary" },
  );
  return h("div", { class: "issuer" }, go, failed, h("p", { class: "muted" }, "or paste a token:"));
}

export function signin({ root, refusal, onToken }) {
  const input = h("input", {
    type: "password",
    name: "token",
    required: true,
    pattern: "\\s*[!-~]+\\s*",
    title: "A token has no spaces and only plain characters.",
    autocomplete: "off",
    spellcheck: "false",
  });
  const form = h(
    "form",
    { class: "signin panel" },
    h("h1", {}, "Sign in"),
    reason(refusal),
    issuer(),
    field("Token", input),
    h("button", { type: "submit", class: session.oidc ? "" : "primary" }, "Sign in"),
    h(
      "p",
      { class: "muted" },
      "A producer token with the scope codeq:admin or the role ADMIN. It stays in this tab until you close it and is sent to this server only.",
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    onToken();
  });
  replace(root, form);
  if (!session.oidc) input.focus();
}
