/** Something that must happen in time, again and again. */
export interface Deadline {
  /** Aborted when the time is over, or when whoever is above ends it. */
  readonly signal: AbortSignal;
  /** It happened: the time begins anew; with another length where one is given (milliseconds). */
  restart(milliseconds?: number): void;
  isOver(): boolean;
  /** Aborts, though the time isn't over. */
  end(): void;
  /** Nothing is waited for any more. */
  clear(): void;
}

export function deadline(milliseconds: number, above: AbortSignal): Deadline {
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
