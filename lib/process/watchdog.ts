/** A time limit that can be restarted. */
export interface Watchdog {
  /** Aborted when the time is over, on `end`, or when the signal above is aborted. */
  readonly signal: AbortSignal;
  /**
   * Restarts the time limit, with another length if one is given (milliseconds). No effect once the
   * time is over.
   */
  restart(milliseconds?: number): void;
  isOver(): boolean;
  /** Aborts before the time is over. */
  end(): void;
  /** Stops the timer and stops following the signal above. */
  clear(): void;
}

/** Starts a time limit (milliseconds) that also ends when the signal `above` is aborted. */
export function watchdog(milliseconds: number, above: AbortSignal): Watchdog {
  const controller = new AbortController();
  let over = false;
  const abort = (): void => controller.abort();
  const expire = (): void => {
    over = true;
    abort();
  };
  let timer = setTimeout(expire, milliseconds);
  above.addEventListener('abort', abort, { once: true });
  if (above.aborted) abort();
  return {
    signal: controller.signal,
    restart(other) {
      if (over) return;
      if (other === undefined) {
        timer.refresh();
        return;
      }
      clearTimeout(timer);
      timer = setTimeout(expire, other);
    },
    isOver: () => over,
    end: abort,
    clear() {
      clearTimeout(timer);
      above.removeEventListener('abort', abort);
    },
  };
}
