// Asking before something is done that cannot be undone, and telling what became of it.

import { button, h, replace } from "./dom.js";

/**
 * Asks. `describe` is awaited for the question's text (how many tasks it touches), so that the dialog is
 * there at once; `act` gets the form's values and its errors are shown in place.
 * Resolves to what `act` returned, or to undefined when the person stepped back.
 */
export function ask({ title, describe, fields = [], confirm, isDangerous = false, act }) {
  const text = h("p", { class: "wait", role: "status" }, "Counting…");
  const failed = h("p", { class: "failed", role: "alert" });
  const go = h(
    "button",
    { type: "submit", class: isDangerous ? "danger" : "primary", disabled: true },
    confirm,
  );
  const heading = h("h2", { id: "dialog-title" }, title);
  const form = h("form", { method: "dialog" });
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  return new Promise((resolve) => {
    let outcome;
    const back = button("Cancel", () => dialog.close());
    replace(form, heading, text, fields, failed, h("div", { class: "dialog-actions" }, back, go));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      failed.textContent = "";
      try {
        outcome = (await act(new FormData(form))) ?? true;
        dialog.close();
      } catch (error) {
        failed.textContent = error.message;
        go.disabled = false;
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(outcome);
    });
    document.body.append(dialog);
    dialog.showModal();
    settle(describe, text, failed, go);
  });
}

async function settle(describe, text, failed, go) {
  try {
    const told = await describe();
    text.className = "";
    replace(text, told.text ?? told);
    go.disabled = told.isPossible === false;
    if (!go.disabled) go.focus();
  } catch (error) {
    replace(text, "");
    failed.textContent = error.message;
  }
}

let timer = 0;

/** A short message that goes away by itself. */
export function toast(message, kind = "") {
  document.querySelector(".toast")?.remove();
  clearTimeout(timer);
  const node = h("div", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : "status" }, message);
  document.body.append(node);
  timer = setTimeout(() => node.remove(), 6000);
}

/** Runs what a button does; errors become a message. */
export async function attempt(action, done) {
  try {
    const result = await action();
    if (done) toast(done);
    return result;
  } catch (error) {
    toast(error.message, "bad");
    return undefined;
  }
}
