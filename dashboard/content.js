// Payloads and results: printed neatly, cut when large, copied whole.

import { button, h, replace } from "./dom.js";
import { attempt } from "./dialog.js";
import { bytes } from "./format.js";

/** Characters that are shown before someone asks for all. */
const SHOWN = 16_000;
/** Characters of one block: the browser lays out only the blocks in sight. */
const BLOCK = 16_000;

/** Parses JSON so that numbers beyond a double's precision are printed as they came. */
export function parseExactly(text) {
  if (!JSON.rawJSON) return JSON.parse(text);
  const keep = (_, value, context) =>
    typeof value === "number" && context && String(value) !== context.source
      ? JSON.rawJSON(context.source)
      : value;
  return JSON.parse(text, keep);
}

function neat(text) {
  try {
    return JSON.stringify(parseExactly(text), null, 2);
  } catch {
    return text;
  }
}

/** `text` is JSON as it is on the wire. */
export function content(title, text) {
  const printed = neat(text);
  const place = h("div", { class: "code", tabindex: "0", role: "region", "aria-label": `${title} text` });
  const size = h("span", { class: "muted" }, bytes(new Blob([text]).size));
  const copy = button(
    "Copy",
    () => attempt(() => navigator.clipboard.writeText(printed), `${title} copied.`),
    {
      class: "small",
      "aria-label": `Copy ${title.toLowerCase()}`,
    },
  );
  const tools = h("div", { class: "content-tools" }, size, copy);
  if (printed.length > SHOWN) {
    const all = button(
      `Show all`,
      () => {
        show(place, printed);
        all.remove();
      },
      { class: "small", "aria-label": `Show all of ${title.toLowerCase()}` },
    );
    tools.prepend(all);
    show(place, `${printed.slice(0, SHOWN)}\n… cut here: this is the beginning of ${bytes(printed.length)}`);
  } else {
    show(place, printed);
  }
  return h(
    "div",
    { class: "content" },
    h("div", { class: "content-head" }, h("h2", {}, title), tools),
    place,
  );
}

function show(place, text) {
  const blocks = [];
  for (let from = 0; from < text.length;) {
    let to = Math.min(from + BLOCK, text.length);
    const line = text.lastIndexOf("\n", to);
    if (to < text.length && line > from) to = line + 1;
    blocks.push(h("pre", {}, text.slice(from, to)));
    from = to;
  }
  replace(place, blocks);
}
