import { BACKOFF_MS, RETRY_AFTER_MS } from "./limits.js";

/** Growing pauses with jitter, between repetitions of one thing. */
export class Backoff {
  #next: number = BACKOFF_MS[0];

  reset(): void {
    this.#next = BACKOFF_MS[0];
  }

  /** Half of the pause and a random part of the other half, or what the server asks for. */
  pause(retryAfter?: number): number {
    const span = this.#next;
    this.#next = Math.min(span * 2, BACKOFF_MS[1]);
    const pause = span / 2 + (Math.random() * span) / 2;
    return retryAfter === undefined ? pause : Math.max(pause, Math.min(retryAfter, RETRY_AFTER_MS));
  }
}
