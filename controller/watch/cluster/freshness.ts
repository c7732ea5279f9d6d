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
