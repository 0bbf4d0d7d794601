// Line charts and sparklines, drawn as SVG.

import { h, replace, setAttribute, setText, svg } from "./dom.js";
import { clock, time } from "./format.js";

const HEIGHT = 168;
const MARGIN = { top: 10, right: 10, bottom: 22, left: 48 };
/** Width of one character of a label, and what is kept free beside it. */
const LABEL = { character: 6.6, space: 12 };
const MINUTE = 60_000;
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360].map((minutes) => minutes * MINUTE);

/** The smallest of 1, 2, 5, 10, … that is at least `number`. */
function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= number * 0.999999);
}

/**
 * A chart of several lines over time.
 * `series`: [{name, kind}], `kind` being its colour's class. `format` prints a value.
 * `update({from, to, start, step, lines})`: milliseconds, and one list of numbers or nulls per series; the
 * first value is at `start`.
 */
export function chart({ title, series, format, hint }) {
  const surface = svg("svg", { class: "chart", role: "img", "aria-label": title });
  const legend = h("ul", { class: "legend" });
  const values = series.map(({ name, kind }) => {
    const value = h("span", { class: "value" }, "–");
    legend.append(h("li", {}, h("span", { class: `swatch ${kind}` }), name, " ", value));
    return value;
  });
  const tip = h("div", { class: "tip", hidden: true });
  const empty = h("p", { class: "chart-empty", hidden: true }, "No activity in this period.");
  const node = h(
    "div",
    { class: "chart-box" },
    h(
      "div",
      { class: "chart-head" },
      h("h3", {}, title),
      hint ? h("span", { class: "muted" }, hint) : null,
      legend,
    ),
    h("div", { class: "chart-body" }, surface, tip, empty),
  );
  let data = null;
  const draw = () => data && render(surface, series, format, data);
  const watch = new ResizeObserver(draw);
  watch.observe(surface);
  follow(surface, tip, () => data, series, format);
  const update = (next) => {
    data = next;
    const last = next.lines.map((line) => lastOf(line));
    values.forEach((value, index) => setText(value, last[index] === null ? "–" : format(last[index])));
    const told = series.map(
      ({ name }, index) => `${name} ${last[index] === null ? "none" : format(last[index])}`,
    );
    setAttribute(surface, "aria-label", `${title}, now: ${told.join(", ")}`);
    empty.hidden = next.lines.some((line) => line.some((value) => value !== null && value !== 0));
    draw();
  };
  return { node, update };
}

function lastOf(line) {
  return line.length ? line[line.length - 1] : null;
}

/** Room for the longest label of the axis: one that is cut reads as another number. */
function leftMargin(ticks, format) {
  const longest = Math.max(...ticks.map((value) => format(value).length));
  return Math.max(MARGIN.left, Math.ceil(longest * LABEL.character) + LABEL.space);
}

function scales(surface, { from, to, lines }, format) {
  const width = Math.max(surface.clientWidth, 120);
  const most = Math.max(0, ...lines.flat().filter((value) => value !== null));
  const tick = roundUp(Math.max(most, 1e-9) / 3);
  const top = most === 0 ? 1 : Math.ceil(most / tick - 1e-9) * tick;
  const right = width - MARGIN.right;
  const bottom = HEIGHT - MARGIN.bottom;
  const ticks =
    most === 0 ? [0, 1] : Array.from({ length: Math.round(top / tick) + 1 }, (_, index) => index * tick);
  const left = leftMargin(ticks, format);
  return {
    width,
    left,
    right,
    bottom,
    ticks,
    x: (at) => left + ((at - from) / (to - from)) * (right - left),
    y: (value) => bottom - (value / top) * (bottom - MARGIN.top),
  };
}

function render(surface, series, format, data) {
  const { width, left, right, bottom, ticks, x, y } = scales(surface, data, format);
  setAttribute(surface, "viewBox", `0 0 ${width} ${HEIGHT}`);
  const parts = [];
  for (const value of ticks) {
    const at = Math.round(y(value)) + 0.5;
    parts.push(
      svg("line", { class: value === 0 ? "axis" : "grid", x1: left, x2: right, y1: at, y2: at }),
    );
    parts.push(
      svg("text", { class: "label", x: left - 6, y: at + 3.5, "text-anchor": "end" }, format(value)),
    );
  }
  parts.push(...hours(data, { width, left, bottom, x }));
  data.lines.forEach((line, index) => {
    const { kind, isFilled } = series[index];
    const point = (number) => [x(data.start + number * data.step), y(line[number])];
    if (isFilled) parts.push(svg("path", { class: `area ${kind}`, d: areaOf(line, point, bottom) }));
    parts.push(svg("path", { class: `line ${kind}`, d: lineOf(line, point) }));
  });
  parts.push(svg("line", { class: "cursor", y1: MARGIN.top, y2: bottom, x1: -9, x2: -9 }));
  replace(surface, parts);
}

function hours({ from, to }, { width, left, bottom, x }) {
  const wanted = Math.max(2, Math.floor(width / 90));
  const step = TIME_STEPS.find((size) => (to - from) / size <= wanted) ?? TIME_STEPS.at(-1);
  const shift = new Date(from).getTimezoneOffset() * MINUTE;
  const labels = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) {
    const place = x(at);
    if (place > left + 12 && place < width - 20) {
      labels.push(
        svg("text", { class: "label", x: place, y: bottom + 15, "text-anchor": "middle" }, clock(at)),
      );
    }
  }
  return labels;
}

const fixed = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function runs(line) {
  const found = [];
  let run = [];
  line.forEach((value, index) => {
    if (value !== null) run.push(index);
    else if (run.length) {
      found.push(run);
      run = [];
    }
  });
  if (run.length) found.push(run);
  return found;
}

function lineOf(line, point) {
  const one = (run) =>
    `M${run.map((index) => fixed(point(index))).join("L")}${run.length === 1 ? "h.1" : ""}`;
  return runs(line).map(one).join("");
}

function areaOf(line, point, bottom) {
  const one = (run) => {
    const points = run.map(point);
    return `M${fixed([points[0][0], bottom])}L${points.map(fixed).join("L")}L${fixed([points.at(-1)[0], bottom])}Z`;
  };
  return runs(line).map(one).join("");
}

/** Shows the values under the pointer. */
function follow(surface, tip, read, series, format) {
  const leave = () => {
    tip.hidden = true;
    surface.querySelector(".cursor")?.setAttribute("transform", "translate(-99 0)");
  };
  surface.addEventListener("pointerleave", leave);
  surface.addEventListener("pointermove", (event) => {
    const data = read();
    if (!data || data.lines[0].length === 0) return;
    const { x, width } = scales(surface, data, format);
    const box = surface.getBoundingClientRect();
    const at = event.clientX - box.left;
    const span = x(data.start + data.step) - x(data.start);
    const number = Math.round((at - x(data.start)) / span);
    if (number < 0 || number >= data.lines[0].length) return leave();
    const place = x(data.start + number * data.step);
    const cursor = surface.querySelector(".cursor");
    cursor?.setAttribute("transform", `translate(${place + 9} 0)`);
    const rows = series.map(({ name, kind }, index) => {
      const value = data.lines[index][number];
      return h(
        "div",
        {},
        h("span", { class: `swatch ${kind}` }),
        name,
        h("b", {}, value === null ? "–" : format(value)),
      );
    });
    replace(tip, h("div", { class: "muted" }, time(data.start + number * data.step)), rows);
    tip.hidden = false;
    tip.classList.toggle("left", place > width / 2);
    tip.style.setProperty("--at", `${place}px`);
  });
}

/** Two small lines without axes; `update(in, out)`. */
export function sparkline(label) {
  const width = 112;
  const height = 24;
  const area = svg("path", { class: "area in" });
  const incoming = svg("path", { class: "line in" });
  const outgoing = svg("path", { class: "line out" });
  const node = svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    area,
    incoming,
    outgoing,
  );
  const update = (created, ended) => {
    const most = Math.max(1, ...created, ...ended);
    const slots = Math.max(created.length - 1, 1);
    const of = (line) => (index) => [
      (index / slots) * width,
      height - 2 - (line[index] / most) * (height - 4),
    ];
    setAttribute(area, "d", created.length ? areaOf(created, of(created), height - 1) : "");
    setAttribute(incoming, "d", created.length ? lineOf(created, of(created)) : "");
    setAttribute(outgoing, "d", ended.length ? lineOf(ended, of(ended)) : "");
  };
  return { node, update };
}
