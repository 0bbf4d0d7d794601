// Numbers, times and ages as people read them.

const WHOLE = new Intl.NumberFormat("en-US");

export function count(number) {
  return number === undefined || number === null ? "–" : WHOLE.format(number);
}

/** Short: 1.2k, 3.4M. */
export function short(number) {
  if (number < 10_000) return Number.isInteger(number) ? WHOLE.format(number) : String(round(number));
  const [unit, letter] = number < 1e6 ? [1e3, "k"] : number < 1e9 ? [1e6, "M"] : [1e9, "G"];
  return `${round(number / unit)}${letter}`;
}

function round(number) {
  if (number >= 100) return Math.round(number);
  return number >= 10 ? Math.round(number * 10) / 10 : Math.round(number * 100) / 100;
}

export function rate(perSecond) {
  if (perSecond === undefined || perSecond === null) return "–";
  return `${short(round(perSecond))}/s`;
}

const UNITS = [
  [86_400, "d"],
  [3600, "h"],
  [60, "m"],
  [1, "s"],
];

/** 45s, 3m 20s, 2h 5m, 4d 1h. */
export function age(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds < 1) return "0s";
  const first = UNITS.findIndex(([size]) => seconds >= size);
  const [size, letter] = UNITS[first];
  const whole = Math.floor(seconds / size);
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((seconds - whole * size) / next[0]) : 0;
  return rest > 0 ? `${whole}${letter} ${rest}${next[1]}` : `${whole}${letter}`;
}

export function millis(number) {
  if (number === undefined || number === null) return "–";
  if (number < 1000) return `${round(number)} ms`;
  if (number < 60_000) return `${round(number / 1000)} s`;
  return age(number / 1000);
}

export function bytes(number) {
  if (number === undefined || number === null) return "–";
  const unit = ["B", "KB", "MB", "GB", "TB"];
  let step = 0;
  let left = number;
  while (left >= 1000 && step < unit.length - 1) {
    left /= 1000;
    step += 1;
  }
  return `${round(left)} ${unit[step]}`;
}

const pad = (number, width = 2) => String(number).padStart(width, "0");

/** The time of day here, and the day if it is another one. */
export function time(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "–";
  const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return date.toDateString() === new Date().toDateString() ? clock : `${day(date)} ${clock}`;
}

export function clock(at) {
  const date = new Date(at);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

export function precise(at) {
  const date = new Date(at);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
}

function day(date) {
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

export function ago(at, now = Date.now()) {
  const seconds = (now - new Date(at).getTime()) / 1000;
  return seconds < 0 ? `in ${age(-seconds)}` : `${age(seconds)} ago`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function shortId(id, length = 13) {
  return id.length > length ? `${id.slice(0, length)}…` : id;
}
