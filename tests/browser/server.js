// A real server in a process of its own, and the API as a script uses it.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const TOKEN = "dev-token";

export class Server {
  constructor(child, base, directory) {
    Object.assign(this, { child, base, directory });
  }

  /** `codeq dev` that keeps nothing. */
  static dev(...more) {
    return Server.start(["dev", "--memory", "--port", "0", ...more]);
  }

  /** `codeq serve` with this configuration, which YAML reads as it is. */
  static serve(config) {
    const directory = mkdtempSync(join(tmpdir(), "codeq-browser-"));
    const file = join(directory, "config.yaml");
    writeFileSync(
      file,
      JSON.stringify({ port: 0, bindAddress: "127.0.0.1", persistenceProvider: "memory", ...config }),
    );
    return Server.start(["serve", "--config", file], directory);
  }

  static async start(args, directory = mkdtempSync(join(tmpdir(), "codeq-browser-"))) {
    const child = spawn(process.env.CODEQ, args, {
      cwd: directory,
      env: { PATH: process.env.PATH },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let told = "";
    const base = await new Promise((resolve, reject) => {
      const hear = (data) => {
        told += data;
        const address =
          /dashboard: (http:\/\/\S+)\/ui/.exec(told)?.[1] ??
          /"addr":"([^"]+)".*"listening"|"listening".*"addr":"([^"]+)"/.exec(told)?.slice(1).find(Boolean);
        if (address) resolve(address.startsWith("http") ? address : `http://${address}`);
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${told}`)));
    });
    return new Server(child, base, directory);
  }

  get port() {
    return new URL(this.base).port;
  }

  async stop() {
    const ended = once(this.child, "exit");
    this.child.kill("SIGTERM");
    await ended;
    rmSync(this.directory, { recursive: true, force: true });
  }

  async call(method, path, body, token = TOKEN) {
    const response = await fetch(`${this.base}/v1/codeq${path}`, {
      method,
      headers: { Authorization: `Bearer ${token}` },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  create(command, payload = {}, more = {}) {
    return this.call("POST", "/tasks", { command, payload, ...more });
  }

  async createMany(command, number, more = () => ({})) {
    for (let from = 0; from < number; from += 100) {
      const indexes = Array.from({ length: Math.min(100, number - from) }, (_, index) => from + index);
      const tasks = indexes.map((index) => ({ command, payload: { index }, ...more(index) }));
      await this.call("POST", "/tasks/batch", { tasks });
    }
  }

  async claim(command, number = 1) {
    const claimed = await this.call("POST", "/tasks/claim/batch", { commands: [command], count: number });
    return claimed?.tasks ?? [];
  }

  complete(task, result = { ok: true }) {
    return this.call("POST", `/tasks/${task.id}/result`, { status: "COMPLETED", result });
  }

  /** Works a queue off until nothing comes any more; `act` decides about each task. */
  async work(command, act) {
    for (;;) {
      const tasks = await this.claim(command, 100);
      if (tasks.length === 0) return;
      const results = tasks.map((task) => act(task)).filter(Boolean);
      if (results.length) await this.submit(results);
    }
  }

  async submit(results) {
    const answer = await this.call("POST", "/tasks/batch/results", { results });
    const refused = answer.results.find(({ error }) => error);
    if (refused) throw new Error(`a result was refused: ${JSON.stringify(refused)}`);
  }

  async queue(command) {
    const { queues } = await this.call("GET", "/admin/queues?view=stats");
    return queues.find((queue) => queue.command === command);
  }
}
