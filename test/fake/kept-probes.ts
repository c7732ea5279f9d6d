/** Results of probes to a node, kept as InwardProbes keeps them. */
export class KeptProbes {
  /** By name, whether it passed under the confirmed rules. */
  readonly #confirmed = new Map<string, boolean>();
  /** Under those that are tried. */
  readonly #tried = new Map<string, boolean>();

  isKnown(name: string): boolean {
    return this.#confirmed.has(name);
  }

  isPassing(name: string): boolean {
    return this.#confirmed.get(name) === true;
  }

  made(name: string, isPassed: boolean, isTrial: boolean): void {
    (isTrial ? this.#tried : this.#confirmed).set(name, isPassed);
  }

  /** Made again while nothing is tried, unless it passed. */
  learn(name: string, isPassed: boolean): void {
    if (!this.isPassing(name)) this.#confirmed.set(name, isPassed);
  }

  /** A trial ended: what passed before and was not made in it is not known under its rules. */
  ended(isConfirmed: boolean): void {
    if (isConfirmed) {
      for (const [name, isPassed] of this.#confirmed) if (isPassed) this.#confirmed.delete(name);
      for (const [name, isPassed] of this.#tried) this.#confirmed.set(name, isPassed);
    }
    this.#tried.clear();
  }

  clear(): void {
    this.#confirmed.clear();
    this.#tried.clear();
  }
}
