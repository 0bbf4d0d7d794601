// A server made of canned answers, for what a real one does not say on request.
import { Client, type TaskFields } from "../src/index.js";

type Body = { count: number; results: Array<{ taskId: string; status: string }> };
export type Say = (body: Body) => Response;

/** Lends its tasks once, keeps every lease, and answers results with what `results` says, the last for ever. */
export class Fake {
  readonly claims: Response[] = [];
  readonly reported: Body[] = [];
  readonly #awaited = new Map<string, () => void>();
  readonly #results: Say[];
  readonly #tasks: TaskFields[] = [];
  #told: () => void = () => undefined;

  constructor(...results: Say[]) {
    this.#results = results;
  }

  client(options: ConstructorParameters<typeof Client>[0] = {}): Client {
    return new Client({ url: "http://fake", token: "token", fetch: this.fetch, ...options });
  }

  lend(command: string): void {
    this.#tasks.push({ id: `task-${this.#tasks.length}`, command, attempts: 1, payload: "null" } as TaskFields);
  }

  async heard(reports: number): Promise<void> {
    while (this.reported.length < reports) {
      await new Promise<void>((resolve) => {
        this.#told = resolve;
      });
    }
  }

  /** Resolves when a path that ends so is asked for. */
  asked(path: string): Promise<void> {
    return new Promise((resolve) => {
      this.#awaited.set(path, resolve);
    });
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const body = JSON.parse(String(init?.body)) as Body;
    const path = new URL(String(input)).pathname.split("/").at(-1) as string;
    this.#awaited.get(path)?.();
    if (path === "batch") return this.claims.shift() ?? this.#lent(body.count);
    if (path === "claim") {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return new Response(null, { status: 204 });
    }
    if (path === "heartbeat") return Response.json({ ok: true });
    const say = this.#results.length > 1 ? this.#results.shift() : this.#results[0];
    this.reported.push(body);
    this.#told();
    return (say ?? taken)(body);
  };

  #lent(count: number): Response {
    const tasks = this.#tasks.splice(0, count);
    return tasks.length ? Response.json({ tasks }) : new Response(null, { status: 204 });
  }
}

export const taken: Say = ({ results }) =>
  Response.json({ results: results.map(({ taskId }) => ({ taskId, result: {} })) });

/** Refuses every item. */
export const items =
  (code: string): Say =>
  ({ results }) =>
    Response.json({ results: results.map(({ taskId }) => ({ taskId, error: code, code })) });

/** Refuses the request. */
export const whole =
  (status: number, code: string): Say =>
  () =>
    Response.json({ error: code, code }, { status });
