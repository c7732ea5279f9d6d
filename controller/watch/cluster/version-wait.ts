import { setTimeout as sleep } from 'node:timers/promises';

/** Callers that wait until a watch has reached a resource version. */
export class VersionWait {
  readonly #reached: () => number;
  /** Called whenever the version may have advanced. */
  readonly #waiting = new Set<() => void>();

  /** @param reached returns the version up to which no event is missing; 0: none */
  constructor(reached: () => number) {
    this.#reached = reached;
  }

  /** The version may have advanced. */
  advanced(): void {
    for (const look of this.#waiting) look();
  }

  /**
   * Resolves when the version is reached, with false if it has not in this time (milliseconds).
   * Rejects when the signal is aborted.
   */
  async reaches(version: number, milliseconds: number, closed: AbortSignal): Promise<boolean> {
    const wait = new AbortController();
    const hasReached = (): boolean => this.#reached() >= version;
    const look = (): void => {
      if (hasReached()) wait.abort();
    };
    this.#waiting.add(look);
    look();
    const signal = AbortSignal.any([wait.signal, closed]);
    await sleep(milliseconds, undefined, { signal }).catch(() => undefined);
    this.#waiting.delete(look);
    closed.throwIfAborted();
    return hasReached();
  }
}
