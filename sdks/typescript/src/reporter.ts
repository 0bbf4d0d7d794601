// Reports: what is ready together goes as one batch.

import { Refused, refusal } from "./errors.js";
import { BATCH_ITEMS, RESULT_BATCH_BYTES, RESULT_BATCHES_AT_ONCE } from "./limits.js";
import { type Report, reportText } from "./outcome.js";
import { Absent, type Transport } from "./transport.js";

/**
 * What the server says about a report that it will never take. Anything else may pass: a token is replaced, a scope
 * granted, a proxy mended. 0 are items of a batch that was answered.
 */
const FINAL = new Set([0, 400, 413, 422]);
/** Codes of items that say nothing about the report. */
const COME_BACK = new Set(["internal", "storage_unavailable", "shutting_down"]);

/** Whether sending the same report again is of no use. */
export function isFinal(refused: Refused): boolean {
  return FINAL.has(refused.status);
}

interface Waiting {
  text: string;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** Sends reports. `send` is one try; whoever calls it decides about the next. */
export class Reporter {
  readonly #transport: Transport;
  readonly #headers: Record<string, string>;
  #waiting: Waiting[] = [];
  #underWay = 0;

  constructor(transport: Transport, headers: Record<string, string>) {
    this.#transport = transport;
    this.#headers = headers;
  }

  /** Throws `Absent` when the outcome is unknown and `Refused` when it is not taken. */
  async send(report: Report): Promise<void> {
    if (report.verb !== "result") {
      const path = `/v1/codeq/tasks/${encodeURIComponent(report.taskId)}/${report.verb}`;
      await this.#transport.once(path, { body: reportText(report, false), headers: this.#headers, isWork: true });
      return;
    }
    const text = reportText(report, true);
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ text, resolve, reject });
      if (this.#underWay < RESULT_BATCHES_AT_ONCE) void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    this.#underWay++;
    // Handlers that end in the same turn of the loop are reported together.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length) await this.#sendBatch(this.#nextBatch());
    this.#underWay--;
  }

  #nextBatch(): Waiting[] {
    let count = 0;
    let size = 0;
    for (const { text } of this.#waiting) {
      size += text.length;
      if (count === BATCH_ITEMS || (count && size > RESULT_BATCH_BYTES)) break;
      count++;
    }
    return this.#waiting.splice(0, count);
  }

  async #sendBatch(batch: Waiting[]): Promise<void> {
    const body = `{"results":[${batch.map((one) => one.text).join(",")}]}`;
    try {
      const call = { body, headers: this.#headers, isWork: true };
      const { results } = (await this.#transport.once("/v1/codeq/tasks/batch/results", call)).body;
      if (results.length !== batch.length) throw new Error("an answer of another length");
      for (const [at, one] of batch.entries()) {
        const item: Record<string, unknown> = results[at];
        if (item.result) one.resolve();
        else one.reject(itemError(refusal(0, item)));
      }
    } catch (error) {
      // One of them is to blame, and must not take the others with it.
      if (error instanceof Refused && isFinal(error) && batch.length > 1) {
        for (const one of batch) await this.#sendBatch([one]);
      } else for (const one of batch) one.reject(error instanceof Refused ? error : asAbsent(error));
    }
  }
}

function itemError(refused: Refused): Error {
  return COME_BACK.has(refused.code) ? new Absent(refused.text, { wasSent: true, refusal: refused }) : refused;
}

function asAbsent(error: unknown): Absent {
  return error instanceof Absent ? error : new Absent(String(error), { wasSent: true });
}
