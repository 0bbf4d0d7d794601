// A pipeline: one task makes a picture and keeps it as an artifact, the next one takes it from there.
import { Client, defineTask, Worker } from "codeq-client";

interface Source {
  task: string;
  artifact: string;
}

const render = defineTask<{ width: number; height: number }, Source>("image.render");
const invert = defineTask<Source, Source>("image.invert");

const client = new Client();
const worker = new Worker(client);
worker.handle(render, ({ id, payload: { width, height }, artifact }) => {
  const pixels = Array.from({ length: width * height }, (_, n) => ((n % width) * 255) / Math.max(1, width - 1));
  artifact("image.pgm", Buffer.concat([Buffer.from(`P5 ${width} ${height} 255\n`), Buffer.from(pixels)]));
  return { task: id, artifact: "image.pgm" };
});
worker.handle(invert, async ({ id, payload, artifact }) => {
  const data = await client.artifact(payload.task, payload.artifact);
  const body = data.indexOf(10) + 1;
  artifact(
    "negative.pgm",
    data.map((byte, at) => (at < body ? byte : 255 - byte)),
  );
  return { task: id, artifact: "negative.pgm" };
});
const running = worker.run();

const rendered = await (await client.create(render, { width: 64, height: 64 })).result();
const inverted = await (await client.create(invert, rendered)).result();
console.log((await client.artifact(inverted.task, inverted.artifact)).length, "bytes");
worker.stop();
await running;
