// What someone sees who has no task yet.

import { session } from "../api.js";
import { button, h } from "../dom.js";
import { attempt } from "../dialog.js";

export function welcome() {
  const token = session.devToken || "$TOKEN";
  const create = `curl -s -X POST ${location.origin}/v1/codeq/tasks -H 'Authorization: Bearer ${token}' -d '{"command":"demo","payload":{"n":1}}'`;
  const claim = `curl -s -X POST ${location.origin}/v1/codeq/tasks/claim -H 'Authorization: Bearer ${token}' -d '{"commands":["demo"]}'`;
  return h(
    "section",
    { class: "panel welcome", "aria-labelledby": "welcome" },
    h("h2", { id: "welcome" }, "No tasks yet"),
    h("p", {}, "A queue appears here with its first task. Paste this into a terminal:"),
    line("Create a task", create),
    h("p", {}, "and take it as a worker would:"),
    line("Claim it", claim),
    session.devToken ? null : h("p", { class: "muted" }, "$TOKEN stands for a producer's token."),
  );
}

function line(label, text) {
  return h(
    "div",
    { class: "paste" },
    h("code", { tabindex: "0", "aria-label": label }, text),
    button("Copy", () => attempt(() => navigator.clipboard.writeText(text), "Copied."), {
      class: "small",
      "aria-label": `Copy: ${label}`,
    }),
  );
}
