// Searches with names. A view is its address; the names are kept in this browser.

import { button, field, h, link, replace } from "../dom.js";
import { ask, attempt } from "../dialog.js";

const KEY = "codeq-views";
const VIEWS = 30;

function read() {
  try {
    const list = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    const isView = (view) => typeof view?.name === "string" && /^#\/search(\?|$)/.test(view.hash);
    return Array.isArray(list) ? list.filter(isView).slice(0, VIEWS) : [];
  } catch {
    return [];
  }
}

const write = (list) => localStorage.setItem(KEY, JSON.stringify(list.slice(0, VIEWS)));

async function save(hash, drawn) {
  const name = h("input", { name: "name", required: true, maxlength: 60, autocomplete: "off" });
  await ask({
    title: "Save this view",
    describe: async () => "The name is kept in this browser. Share the view by its address.",
    fields: [field("Name", name)],
    confirm: "Save",
    act: async (values) => {
      const title = String(values.get("name")).trim();
      if (!title) throw new Error("A view needs a name.");
      write([{ name: title, hash }, ...read().filter((view) => view.name !== title)]);
    },
  });
  drawn();
}

/** Links to saved views, and buttons for the present one. */
export function views(filter, hashOf) {
  const node = h("div", { class: "views" });
  const hash = hashOf(filter);
  const draw = () => {
    const list = read();
    const entry = (view) =>
      h(
        "li",
        {},
        link(view.hash, view.name, { "aria-current": view.hash === hash ? "page" : null }),
        button("×", () => drop(view.name), { class: "chip-remove", "aria-label": `Forget view ${view.name}` }),
      );
    const isNew = Object.keys(filter).length > 0 && !list.some((view) => view.hash === hash);
    const address = () => navigator.clipboard.writeText(location.href);
    replace(
      node,
      list.length ? h("ul", { class: "chips", "aria-label": "Saved views" }, list.map(entry)) : null,
      isNew ? button("Save view…", () => save(hash, draw), { class: "small" }) : null,
      button("Copy link", () => attempt(address, "Address of this view copied."), { class: "small" }),
    );
  };
  const drop = (name) => {
    write(read().filter((view) => view.name !== name));
    draw();
  };
  draw();
  return node;
}
