// The form for a token.

import { hasOwnToken, setToken } from "../api.js";
import { field, h, replace } from "../dom.js";

function reason(refusal) {
  if (!refusal) return null;
  const text = hasOwnToken()
    ? `The server does not accept this token: ${refusal.message}.`
    : `The server asks for a token: ${refusal.message}.`;
  return h("p", { class: "failed", role: "alert" }, text);
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
    field("Token", input),
    h("button", { type: "submit", class: "primary" }, "Sign in"),
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
  input.focus();
}
