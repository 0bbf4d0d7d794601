// Tables whose rows stay the same elements while their numbers move.

import { button, h, replace, setAttribute, setText } from "./dom.js";

/**
 * columns: [{label, kind, text(row)} or {label, kind, make(row) → {node, update(row)}}, and `sort(row)` for
 * columns that can be sorted by]. `key(row)` names a row for good.
 */
export function table({ caption, columns, key, empty, rowClass, sorted }) {
  // Narrow screens lay rows out as cards; the roles keep it a table for those who listen.
  const body = h("tbody", { role: "rowgroup" });
  const head = h("tr", { role: "row" });
  const order = { column: sorted ?? -1, isDown: false };
  const rows = new Map();
  let shown = [];
  const heads = columns.map((column, index) => {
    const cell = h("th", { scope: "col", role: "columnheader", class: column.kind });
    if (column.sort) {
      cell.append(
        button(
          column.label,
          () => {
            order.isDown = order.column === index ? !order.isDown : Boolean(column.isDownFirst);
            order.column = index;
            update(shown);
          },
          { class: "sort" },
        ),
      );
    } else if (column.isSilent) {
      cell.append(h("span", { class: "unseen" }, column.label));
    } else {
      cell.append(column.label);
    }
    head.append(cell);
    return cell;
  });
  const none = h("div", { class: "empty", hidden: true });
  const grid = h(
    "table",
    { role: "table" },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, head),
    body,
  );
  const scroll = h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "region", "aria-label": caption, hidden: true },
    grid,
  );
  const node = h("div", { class: "table-box" }, scroll, none);

  function place(list) {
    if (order.column < 0) return list;
    const by = columns[order.column].sort;
    const sign = order.isDown ? -1 : 1;
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    return [...list].sort((a, b) => sign * compare(by(a), by(b)) || compare(key(a), key(b)));
  }

  function update(list) {
    shown = list;
    heads.forEach((cell, index) => {
      const direction = order.isDown ? "descending" : "ascending";
      setAttribute(cell, "aria-sort", index === order.column ? direction : null);
    });
    const seen = new Set();
    let previous = null;
    for (const row of place(list)) {
      const name = key(row);
      seen.add(name);
      let line = rows.get(name);
      if (!line) {
        line = makeRow(columns, row);
        rows.set(name, line);
      }
      line.update(row);
      if (rowClass) setAttribute(line.node, "class", rowClass(row) || null);
      const next = previous ? previous.nextSibling : body.firstChild;
      if (next !== line.node) body.insertBefore(line.node, next);
      previous = line.node;
    }
    for (const [name, line] of rows) {
      if (!seen.has(name)) {
        line.node.remove();
        rows.delete(name);
      }
    }
    none.hidden = list.length > 0;
    scroll.hidden = list.length === 0;
    if (!none.hidden && none.childNodes.length === 0)
      replace(none, typeof empty === "function" ? empty() : empty);
  }

  return { node, update };
}

function makeRow(columns, row) {
  const cells = columns.map((column) => {
    const [tag, role, scope] = column.isHead ? ["th", "rowheader", "row"] : ["td", "cell", null];
    const cell = h(tag, { class: column.kind, role, scope });
    cell.dataset.label = column.label;
    if (!column.make) return { cell, update: (next) => setCell(cell, column.text(next)) };
    const made = column.make(row);
    if (made instanceof Node) {
      cell.append(made);
      return { cell, update() {} };
    }
    cell.append(made.node);
    return { cell, update: made.update };
  });
  const node = h(
    "tr",
    { role: "row" },
    cells.map(({ cell }) => cell),
  );
  return { node, update: (next) => cells.forEach((cell) => cell.update(next)) };
}

function setCell(cell, text) {
  setText(cell, text);
  setAttribute(cell, "data-empty", text === "–" ? "yes" : null);
}
