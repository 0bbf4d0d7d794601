// Asking again and again, without ever having two questions open.

const AWAY_MS = 1500;

/**
 * Calls `ask` now and `every` milliseconds after each answer, until `signal` aborts. Rests while the page is
 * hidden. While the server is away it tries often, so that the page comes back by itself.
 * Returns a function that asks at once.
 */
export function poll(ask, every, signal) {
  let timer = 0;
  let isAsking = false;
  let isWanted = false;
  const round = async () => {
    clearTimeout(timer);
    if (signal.aborted) return;
    if (isAsking) {
      isWanted = true;
      return;
    }
    isAsking = true;
    let wait = every;
    try {
      await ask();
    } catch (error) {
      if (signal.aborted) return;
      if (error.isAway) wait = AWAY_MS;
      else if (error.status === undefined) console.error(error);
    }
    isAsking = false;
    if (signal.aborted) return;
    if (isWanted) {
      isWanted = false;
      round();
    } else if (!document.hidden) {
      timer = setTimeout(round, wait);
    }
  };
  const onShow = () => !document.hidden && round();
  document.addEventListener("visibilitychange", onShow, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  round();
  return round;
}
