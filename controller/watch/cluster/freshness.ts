import { setTimeout as sleep } from 'node:timers/promises';

/** Watches that can prove that they are not behind. */
export interface Provable {
  /**
   * Resolves when everything that the API server had stored at the time of the call has been
   * received, and delivered. Rejects only when the watch is closed.
   */
  prove(): Promise<void>;
}

/**
 * Whether all watches have proven, since `begin`, that they are not behind. A replica of the API
 * server whose watch cache is behind shows an old state without any error: a new leader that acted
 * on it would undo what the leader before it has published.
 */
export class Freshness {
  readonly #watches: () => readonly Provable[];
  readonly #proven: (milliseconds: number) => void;
  /** The proof in progress, or done. */
  #proof: object | null = null;
  isProven = false;

  constructor(watches: () => readonly Provable[], proven: (milliseconds: number) => void) {
    this.#watches = watches;
    this.#proven = proven;
  }

  /** Starts a proof, unless one was started since `end`. */
  begin(): void {
    if (this.#proof !== null) return;
    const proof = {};
    this.#proof = proof;
    const started = performance.now();
    const end = (): void => {
      if (this.#proof !== proof) return;
      this.isProven = true;
      this.#proven(performance.now() - started);
    };
    // Watches reject only when they are closed: then nothing is proven any more.
    void Promise.all(this.#watches().map((one) => one.prove())).then(end, () => {});
  }

  /** The next `begin` needs another proof. */
  end(): void {
    this.#proof = null;
    this.isProven = false;
  }
}

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
