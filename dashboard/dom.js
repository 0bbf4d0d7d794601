// Building pages. Whatever users supplied becomes text, never markup: there is no other way in here.

const SVG = "http://www.w3.org/2000/svg";

/** An element: attributes, `on…` listeners and children, which are nodes or text. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Sets text only where it differs, so that nothing is announced or repainted for nothing. */
export function setText(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

export function setAttribute(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export function link(href, text, attributes = {}) {
  return h("a", { href, ...attributes }, text);
}

export function button(text, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, text);
}

/** A button that changes something: not shown to those who may only look (`.read-only` in app.css). */
export function deed(text, onclick, attributes = {}) {
  return button(text, onclick, { ...attributes, "data-changes": true });
}

let labels = 0;

/** A labelled form field. */
export function field(label, input, attributes = {}) {
  input.id ||= `field-${(labels += 1)}`;
  return h("div", { class: "field", ...attributes }, h("label", { for: input.id }, label), input);
}

export function select(name, options, value) {
  const choice = ([word, text]) => h("option", { value: word, selected: word === value }, text);
  return h("select", { name }, options.map(choice));
}

/** A panel with a heading; the page's outline is made of these. */
export function panel(title, attributes, ...children) {
  const heading = h("h2", { id: `panel-${(labels += 1)}` }, title);
  const { tools, ...others } = attributes;
  const head = h("div", { class: "panel-head" }, heading, tools);
  return h(
    "section",
    { "aria-labelledby": heading.id, ...others, class: `panel ${others.class ?? ""}` },
    head,
    children,
  );
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}
