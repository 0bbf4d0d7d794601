// The documentation page: reads /openapi.json and shows it.
//
// Text of the document only ever becomes text nodes. The token stays in this tab (sessionStorage);
// it goes into the curl lines and into requests that the reader sends, nowhere else.
"use strict";

const byId = (id) => document.getElementById(id);
const TOKEN_KEY = "codeq.docs.token";
const METHODS = ["get", "put", "post", "delete", "patch"];
const SHOWN_HEADERS = ["x-request-id", "content-type", "retry-after", "idempotent-replayed", "allow", "content-disposition"];
const JSON_TYPE = "application/json";
const INT64_MAX = 9223372036854775807; // rounded by JavaScript, and so is the limit it is compared with
const STREAM_SHOWN = 64 * 1024; // characters of a stream that stay on the page
const tokenListeners = [];
let api;

// ---- building nodes ----

/** An element with properties (`on…` are listeners, names with a dash attributes) and children. */
function el(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "for") node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** `code` and **bold** of one line. */
function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).filter(Boolean).map((part) => {
    if (/^`.+`$/.test(part)) return el("code", null, part.slice(1, -1));
    if (/^\*\*.+\*\*$/.test(part)) return el("strong", null, part.slice(2, -2));
    return document.createTextNode(part);
  });
}

/** Paragraphs and lists: all the markdown that the document uses. */
function markdown(text) {
  return (text || "").split(/\n{2,}/).filter(Boolean).map((block) => {
    const lines = block.split("\n");
    if (!lines.every((line) => line.startsWith("- "))) return el("p", null, inline(block));
    return el("ul", null, lines.map((line) => el("li", null, inline(line.slice(2)))));
  });
}

/** A fold that builds its content when it is first opened. */
function fold(summary, build, open) {
  const node = el("details", null, el("summary", null, summary));
  const fill = () => {
    if (node.open && node.childElementCount === 1) node.append(el("div", { className: "body" }, build()));
  };
  node.addEventListener("toggle", fill);
  node.open = Boolean(open);
  fill();
  return node;
}

function copyButton(text) {
  const button = el("button", { type: "button", "aria-live": "polite" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy failed";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}

// ---- reading the document ----

/** Follows references; what stands beside a reference wins. */
function follow(node) {
  if (!node || !node.$ref) return node;
  const { $ref, ...beside } = node;
  const target = $ref.slice(2).split("/").reduce((at, key) => at[key.replace(/~1/g, "/").replace(/~0/g, "~")], api);
  return { ...follow(target), ...beside };
}

const nameOf = (schema) => (schema && schema.$ref ? schema.$ref.split("/").pop() : "");
const json = (value) => JSON.stringify(value, null, 2);

function operations() {
  const found = [];
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of Object.keys(item).filter((key) => METHODS.includes(key))) {
      const op = item[method];
      found.push({ path, method, ...op, requestBody: op.requestBody && follow(op.requestBody) });
    }
  }
  return found;
}

/** What the token of an operation must have, in words. */
function rights(op) {
  const security = op.security || api.security || [];
  if (!security.length) return ["no token"];
  const names = Object.values(security[0]).flat();
  return names.length ? names : ["any token"];
}

/** The named examples of a body or parameter, as [title, value]. */
function examples(holder) {
  const named = Object.entries(holder.examples || {}).map(([name, ref]) => {
    const example = follow(ref);
    return [example.summary || name, example.value];
  });
  if (!named.length && holder.example !== undefined) return [["Example", holder.example]];
  return named;
}

// ---- schemas ----

function typeLabel(schema) {
  const s = follow(schema);
  if (s.const !== undefined) return JSON.stringify(s.const);
  const types = [s.type || []].flat();
  if (types.length > 4) return "any JSON value";
  const words = types.filter((type) => type !== "null").map((type) => {
    if (type === "array") return s.items ? `array of ${typeLabel(s.items)}` : "array";
    return s.format ? `${type} (${s.format})` : type;
  });
  if (s.anyOf && !words.length) return s.anyOf.map(typeLabel).join(" or ");
  if (s.oneOf && !words.length) return s.oneOf.map(typeLabel).join(" or ");
  if (s.allOf && !words.length) return "object";
  if (!words.length) return s.title ? s.title.toLowerCase() : "any value";
  return words.join(" or ") + (types.includes("null") ? ", optional" : "");
}

/** The limits of a schema that is not an object, as short phrases. */
function rules(schema) {
  const s = follow(schema);
  const said = [];
  const range = (least, most, what) => {
    if (least !== undefined && most !== undefined) said.push(`${least} to ${most}${what}`);
    else if (least !== undefined) said.push(`at least ${least}${what}`);
    else if (most !== undefined) said.push(`at most ${most}${what}`);
  };
  if (s.enum) said.push(s.enum.filter((word) => word !== null).map((word) => JSON.stringify(word)).join(" · "));
  range(s.minimum > -INT64_MAX ? s.minimum : undefined, s.maximum < INT64_MAX ? s.maximum : undefined, "");
  range(s.minLength, s.maxLength, " characters");
  range(s.minItems, s.maxItems, " items");
  range(undefined, s.maxProperties, " entries");
  if (s.pattern && s.pattern.length < 80) said.push(`matches ${s.pattern}`);
  if (s.propertyNames && s.propertyNames.pattern) said.push(`names match ${s.propertyNames.pattern}`);
  if (s.default !== undefined) said.push(`default ${JSON.stringify(s.default)}`);
  if (s.uniqueItems) said.push("unique");
  if (s.deprecated) said.push("deprecated");
  return said;
}

function field(name, schema, required) {
  const s = follow(schema);
  const said = rules(schema);
  return el("li", null,
    el("code", { className: "name" }, name), " ",
    el("span", { className: "type" }, typeLabel(schema)), " ",
    required ? el("span", { className: "required" }, "required") : null,
    markdown(s.description),
    said.length ? el("div", { className: "rule" }, said.join(", ")) : null,
    inside(s));
}

/** What is nested in a field: properties, items, alternatives. Nothing for plain values. */
function inside(s) {
  const items = s.items && follow(s.items);
  if (items) return hasParts(items) ? schemaView(items) : rulesOfItems(items);
  return hasParts(s) ? schemaView({ ...s, description: undefined }) : null;
}

function rulesOfItems(items) {
  const said = rules(items);
  return said.length ? el("div", { className: "rule" }, `each: ${said.join(", ")}`) : null;
}

const hasParts = (s) => Boolean(s.properties || s.anyOf || s.oneOf || s.allOf);

/** The fields of a schema, expanded all the way down. */
function schemaView(schema) {
  const s = merged(schema);
  const required = new Set(s.required || []);
  const parts = markdown(s.description);
  if (s.properties) {
    parts.push(el("ul", { className: "fields" },
      Object.entries(s.properties).map(([name, inner]) => field(name, inner, required.has(name)))));
  } else if (s.items || s.additionalProperties || !hasParts(s)) {
    const said = rules(s);
    const each = s.additionalProperties ? `object of ${typeLabel(s.additionalProperties)}` : typeLabel(s);
    parts.push(el("div", { className: "rule" }, [each, ...said].join(", ")), inside(s));
  }
  for (const variant of s.oneOf || s.anyOf || []) parts.push(variantView(variant, s));
  return el("div", null, parts);
}

/** One alternative. One that only narrows its parent is a single line: what it requires. */
function variantView(variant, parent) {
  const v = merged(variant);
  const title = v.title || nameOf(variant) || "Either";
  if (parent.properties) {
    return el("p", { className: "rule" }, `${title}: needs `, (v.required || []).flatMap((name) => [el("code", null, name), " "]));
  }
  return el("div", { className: "variant" }, el("b", null, title), v.properties || v.items || v.additionalProperties ? schemaView(v) : markdown(v.description));
}

/** A schema with its `allOf` folded into it. */
function merged(schema) {
  const { allOf, ...s } = follow(schema);
  for (const part of (allOf || []).map(merged)) {
    s.properties = { ...part.properties, ...s.properties };
    s.required = [...(s.required || []), ...(part.required || [])];
    if (part.anyOf) s.anyOf = part.anyOf;
  }
  return s;
}

// ---- one operation ----

function parametersView(params) {
  if (!params.length) return [];
  const row = (p) => el("tr", null,
    el("td", null, el("code", null, p.name), el("br"), el("span", { className: "type" }, p.in), " ",
      p.required ? el("span", { className: "required" }, "required") : null),
    el("td", null, markdown(p.description),
      el("div", { className: "rule" }, [typeLabel(p.schema), ...rules(p.schema)].join(", "))));
  return [el("h4", null, "Parameters"), el("div", { className: "table" }, el("table", null,
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "Name"), el("th", { scope: "col" }, "Meaning"))),
    el("tbody", null, params.map(row))))];
}

function exampleViews(content) {
  return examples(content).map(([title, value]) => el("div", null,
    el("span", { className: "rule" }, title), el("pre", { tabIndex: 0 }, typeof value === "string" ? value : json(value))));
}

/** The media type of a body and what the document says about it. JSON where there is a choice. */
function contentOf(body) {
  const types = Object.keys(body.content || {});
  const type = types.find((name) => name === JSON_TYPE) || types[0] || "";
  return [type, (body.content || {})[type] || {}];
}

function bodyView(body) {
  if (!body) return [];
  const [type, content] = contentOf(body);
  const note = body.required ? el("span", { className: "required" }, "required") : null;
  return [el("h4", null, "Request body ", note),
    type === JSON_TYPE ? null : el("p", { className: "rule" }, type),
    markdown(body.description), content.schema ? schemaView(content.schema) : null,
    examples(content).length ? fold("Examples", () => exampleViews(content)) : null];
}

/** Refusals are read by their code, so they are listed by it. */
function errorTable(content) {
  const row = ([, value]) => el("tr", null, el("td", null, el("code", null, value.code)), el("td", null, value.error));
  return el("div", { className: "table" }, el("table", null,
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "code"), el("th", { scope: "col" }, "error"))),
    el("tbody", null, examples(content).map(row))));
}

function responseView(status, ref) {
  const response = follow(ref);
  const title = [el("span", { className: `status s${status[0]}` }, status), inline(response.description)];
  return fold(title, () => {
    const parts = [];
    for (const [type, content] of Object.entries(response.content || {})) {
      if (type !== "application/json") parts.push(el("span", { className: "rule" }, type));
      const shape = () => [content.schema ? schemaView(content.schema) : null, exampleViews(content)].flat();
      if (nameOf(content.schema) === "Error") parts.push(errorTable(content), fold("Schema and examples", shape));
      else parts.push(...shape());
    }
    const headers = Object.entries(response.headers || {});
    if (headers.length) {
      parts.push(el("ul", { className: "fields" }, headers.map(([name, header]) => {
        const h = follow(header);
        return field(name, { ...follow(h.schema), description: h.description }, false);
      })));
    }
    return parts;
  }, status.startsWith("2") && status !== "204");
}

/** An operation that cannot be shown says so in its own place; the others are not its business. */
function operationPlace(op) {
  try {
    return operationView(op);
  } catch (problem) {
    return el("section", { className: "op", id: op.operationId },
      el("h3", null, op.summary), el("p", { className: "error", role: "alert" }, `This operation cannot be shown: ${problem.message}.`));
  }
}

function operationView(op) {
  const params = (op.parameters || []).map(follow);
  return el("section", { className: "op", id: op.operationId, "aria-label": `${op.summary}, ${op.method.toUpperCase()} ${op.path}` },
    el("header", null,
      el("h3", { id: `${op.operationId}-title` }, el("a", { href: `#${op.operationId}` }, op.summary)),
      el("p", { className: "route" },
        el("span", { className: `method ${op.method}` }, op.method), el("span", { className: "path" }, op.path),
        rights(op).map((right) => el("span", { className: "right" }, right)))),
    el("div", null, markdown(op.description), parametersView(params), bodyView(op.requestBody),
      el("h4", null, "Responses"), Object.entries(op.responses).map(([status, ref]) => responseView(status, ref))),
    tryView(op, params));
}

// ---- try it ----

const token = () => byId("token").value.trim();
const quote = (text) => `'${text.replace(/'/g, "'\\''")}'`;

function requestOf(op, inputs, body) {
  let path = op.path;
  const query = new URLSearchParams();
  const headers = {};
  for (const [param, input] of inputs) {
    const value = input.value;
    if (param.in === "path") path = path.replace(`{${param.name}}`, encodeURIComponent(value));
    else if (value === "") continue;
    else if (param.in === "query") query.set(param.name, value);
    else headers[param.name] = value;
  }
  if (body && body.value.trim()) headers["Content-Type"] = contentOf(op.requestBody)[0] || JSON_TYPE;
  const search = query.size ? `?${query}` : "";
  return { url: location.origin + path + search, headers, body: body && body.value.trim() ? body.value : undefined };
}

function curlOf(op, request) {
  const parts = [`curl${op.method === "get" ? "" : ` -X ${op.method.toUpperCase()}`} ${quote(request.url)}`];
  if (rights(op)[0] !== "no token") {
    parts.push(token() ? `-H ${quote(`Authorization: Bearer ${token()}`)}` : '-H "Authorization: Bearer $CODEQ_TOKEN"');
  }
  for (const [name, value] of Object.entries(request.headers)) parts.push(`-H ${quote(`${name}: ${value}`)}`);
  if (request.body) parts.push(`-d ${quote(request.body)}`);
  return parts.join(" \\\n  ");
}

function paramInput(param, changed) {
  const value = param.required && param.example !== undefined ? String(param.example) : "";
  const hint = param.example === undefined ? "" : String(param.example);
  const input = el("input", { value, placeholder: hint, required: Boolean(param.required), autocomplete: "off", spellcheck: false, oninput: changed });
  return [param, input];
}

function bodyInput(op, changed) {
  if (!op.requestBody) return [null, []];
  const written = (value) => (typeof value === "string" ? value : json(value));
  const choices = examples(contentOf(op.requestBody)[1]);
  const area = el("textarea", { value: choices.length ? written(choices[0][1]) : "", spellcheck: false, oninput: changed });
  const parts = [el("label", null, "Body", area)];
  if (choices.length > 1) {
    const pick = el("select", { onchange: () => { area.value = written(choices[pick.selectedIndex][1]); changed(); } },
      choices.map(([title]) => el("option", null, title)));
    parts.unshift(el("label", null, "Example", pick));
  }
  return [area, parts];
}

function tryView(op, params) {
  const curl = el("pre", { className: "wrap", tabIndex: 0 });
  const answer = el("div", { "aria-live": "polite" });
  const send = el("button", { type: "submit", className: "primary" }, "Try it");
  const stop = el("button", { type: "button", hidden: true }, "Stop");
  const request = () => requestOf(op, inputs, body);
  const changed = () => { curl.textContent = curlOf(op, request()); };
  const inputs = params.map((param) => paramInput(param, changed));
  const [body, bodyParts] = bodyInput(op, changed);
  const form = el("form", {
    onsubmit: (event) => { event.preventDefault(); perform(op, request(), send, stop, answer); },
    onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(); },
  },
    inputs.map(([param, input]) => el("label", null, param.name + (param.required ? " *" : ""), input)), bodyParts,
    el("div", { className: "bar" }, send, stop));
  tokenListeners.push(changed);
  changed();
  return el("div", { className: "side-panel" },
    el("div", { className: "bar" }, el("h4", null, "curl"), copyButton(() => curl.textContent)), curl, form, answer);
}

async function perform(op, request, send, stop, answer) {
  const aborter = new AbortController();
  const began = performance.now();
  const headers = { ...request.headers };
  if (token() && rights(op)[0] !== "no token") headers.Authorization = `Bearer ${token()}`;
  stop.onclick = () => aborter.abort();
  send.disabled = true;
  stop.hidden = false;
  answer.replaceChildren(el("p", { className: "muted" }, "Waiting for the answer…"));
  try {
    const response = await fetch(request.url, { method: op.method.toUpperCase(), headers, body: request.body, signal: aborter.signal, credentials: "omit", cache: "no-store" });
    const isStream = (response.headers.get("content-type") || "").startsWith("text/event-stream");
    if (isStream) return await showStream(response, answer);
    const bytes = await response.arrayBuffer();
    answer.replaceChildren(...answerView(response, bytes, performance.now() - began));
  } catch (problem) {
    const wasStopped = problem.name === "AbortError";
    const text = wasStopped ? "Stopped." : `No answer: ${problem.message}`;
    const note = el("p", { className: wasStopped ? "muted" : "error" }, text);
    if (wasStopped && answer.querySelector("pre")) answer.append(note);
    else answer.replaceChildren(note);
  } finally {
    send.disabled = false;
    stop.hidden = true;
  }
}

/** A stream has no end to wait for: what has arrived is shown until the reader stops it. */
async function showStream(response, answer) {
  const text = el("pre", { className: "wrap", tabIndex: 0 });
  answer.replaceChildren(el("p", null, el("span", { className: "status s2" }, `${response.status} ${response.statusText}`)), text);
  const decoder = new TextDecoder();
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return;
    text.textContent = (text.textContent + decoder.decode(value, { stream: true })).slice(-STREAM_SHOWN);
  }
}

function answerView(response, bytes, millis) {
  const type = response.headers.get("content-type") || "";
  const status = String(response.status);
  const shown = SHOWN_HEADERS.filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`);
  const parts = [
    el("p", null, el("span", { className: `status s${status[0]}` }, `${status} ${response.statusText}`),
      el("span", { className: "rule" }, `${Math.round(millis)} ms, ${bytes.byteLength} bytes`)),
    el("pre", { className: "wrap" }, shown.join("\n"))];
  if (!bytes.byteLength) return parts;
  const readable = /^text\/|json/.test(type) && bytes.byteLength <= 1 << 20;
  const text = readable ? new TextDecoder().decode(bytes) : `${bytes.byteLength} bytes, not shown`;
  const shownText = type.includes("json") ? indent(text) : text;
  return [...parts, el("div", { className: "bar" }, el("h4", null, "Body"), copyButton(() => text)), el("pre", { tabIndex: 0 }, shownText)];
}

/** Lays JSON text out without parsing it: numbers keep every digit. */
function indent(text) {
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[{}[\],:]|\s+/g, (part) => {
    if (/^\s/.test(part)) return "";
    if (part === "{" || part === "[") { depth += 1; return part + line(); }
    if (part === "}" || part === "]") { depth -= 1; return line() + part; }
    if (part === ",") return part + line();
    return part === ":" ? ": " : part;
  });
}

// ---- the page ----

function linkView(op) {
  const words = `${op.summary} ${op.method} ${op.path} ${op.operationId} ${(op.tags || []).join(" ")}`.toLowerCase();
  const link = el("a", { href: `#${op.operationId}` }, el("span", { className: `method ${op.method}` }, op.method), el("span", null, op.summary));
  return el("li", { "data-words": words }, link);
}

function show() {
  const all = operations();
  document.title = `${api.info.title} API`;
  byId("version").textContent = api.info.version;
  const groups = api.tags.map((tag) => [tag, all.filter((op) => (op.tags || []).includes(tag.name))]);
  byId("links").replaceChildren(...groups.map(([tag, ops]) =>
    el("section", null, el("h2", null, tag.name), el("ul", null, ops.map(linkView)))));
  byId("content").replaceChildren(
    el("h1", null, api.info.title), ...markdown(api.info.description),
    ...groups.map(([tag, ops]) => el("section", { className: "group" },
      el("h2", null, tag.name), markdown(tag.description), ops.map(operationPlace))));
  followReader();
  const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
  if (target) target.scrollIntoView();
}

/** Marks the operation in view. */
function followReader() {
  const mark = (id) => {
    for (const link of document.querySelectorAll("#links a")) {
      const here = link.hash === `#${id}`;
      if (here && !link.hasAttribute("aria-current")) link.scrollIntoView({ block: "nearest" });
      if (here) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const watcher = new IntersectionObserver((entries) => {
    const seen = entries.find((entry) => entry.isIntersecting);
    if (seen) mark(seen.target.id);
  }, { rootMargin: "-20% 0px -75% 0px" });
  for (const section of document.querySelectorAll(".op")) watcher.observe(section);
}

function search() {
  const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const item of document.querySelectorAll("#links li")) {
    item.hidden = !wanted.every((word) => item.dataset.words.includes(word));
    if (!item.hidden) found += 1;
  }
  for (const group of document.querySelectorAll("#links section")) group.hidden = !group.querySelector("li:not([hidden])");
  byId("none").hidden = found > 0;
}

function openMenu(open) {
  byId("side").classList.toggle("open", open);
  byId("menu").setAttribute("aria-expanded", String(open));
}

async function load() {
  try {
    const response = await fetch("/openapi.json", { credentials: "omit" });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    api = await response.json();
    show();
  } catch (problem) {
    byId("content").replaceChildren(el("div", { className: "error", role: "alert" },
      el("p", null, `The API description could not be shown: ${problem.message}.`),
      el("button", { type: "button", onclick: load }, "Try again")));
  }
}

function start() {
  byId("token").value = sessionStorage.getItem(TOKEN_KEY) || "";
  byId("token").addEventListener("input", () => {
    sessionStorage.setItem(TOKEN_KEY, token());
    tokenListeners.forEach((changed) => changed());
  });
  byId("search").addEventListener("input", search);
  byId("menu").addEventListener("click", () => openMenu(!byId("side").classList.contains("open")));
  byId("links").addEventListener("click", () => openMenu(false));
  byId("content").addEventListener("click", () => openMenu(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") openMenu(false);
    if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    event.preventDefault();
    byId("search").focus();
  });
  load();
}

start();
