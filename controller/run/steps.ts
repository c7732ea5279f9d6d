/** A part of a process that is started and stopped. */
export interface NamedStep {
  readonly name: string;
  start?(): Promise<void> | void;
  /** Also called if the step was not started, or its start failed or has not finished. */
  stop?(): Promise<void> | void;
}

/** Starts steps in their order, and stops them in the reverse order, one after the other. */
export class Steps {
  readonly #steps: readonly NamedStep[];
  #isStopped = false;

  constructor(steps: readonly NamedStep[]) {
    this.#steps = steps;
  }

  /** Rejects with the error of the first step that fails. Starts no more steps after `stop`. */
  async start(): Promise<void> {
    for (const step of this.#steps) {
      if (this.#isStopped) return;
      await step.start?.();
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const step of this.#steps.toReversed()) await step.stop?.();
  }
}
