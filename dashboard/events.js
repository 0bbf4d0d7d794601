// The stream of events, read with fetch because an EventSource cannot carry the token.

import { query, send } from "./api.js";

const AGAIN_MS = 1500;
/** The server sends at least a comment every 15 s; silence beyond this means that the line is dead. */
const SILENCE_MS = 40_000;

/**
 * Calls `on({type, …})` for every event until `signal` aborts, and goes on behind the last one after a
 * break. `onState` hears `open`, `away`, `missing` (a server without the stream).
 */
export async function follow({ filter = {}, on, onState = () => {}, signal }) {
  let last = "";
  while (!signal.aborted) {
    const round = new AbortController();
    const end = AbortSignal.any([signal, round.signal]);
    try {
      const headers = last ? { "Last-Event-ID": last } : {};
      const response = await send("GET", `/events${query(filter)}`, { headers, signal: end, patience: 0 });
      onState("open");
      await read(response.body, round, (id, event) => {
        last = id || last;
        on(event);
      });
      onState("away");
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 404) return onState("missing");
      onState("away");
    }
    await rest(AGAIN_MS, signal);
  }
}

async function read(body, round, on) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const watch = setTimeout(() => round.abort(), SILENCE_MS);
    const { value, done } = await reader.read();
    clearTimeout(watch);
    if (done) return;
    const blocks = (left + value).split("\n\n");
    left = blocks.pop();
    for (const block of blocks) one(block, on);
  }
}

function one(block, on) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    fields[name] = name in fields ? `${fields[name]}\n${value}` : value;
  }
  if (fields.data === undefined) return;
  const data = JSON.parse(fields.data);
  on(fields.id, { type: fields.event, ...data });
}

function rest(time, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, time);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
