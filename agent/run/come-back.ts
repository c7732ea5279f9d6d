import type { Clock } from '../../lib/process/clock.ts';

/** Several tries to reach a controller, each of which may take 15 s and wait 10 s for the next (milliseconds). */
export const PATIENCE = 60_000;

/**
 * After `nodewall on` while no controller answers: what was enforced last may be what locked this node out, and what the cluster wants now can be heard again since
 * those rules are gone. So that is waited for, for a while; until then the node stays without rules.
 */
export class ComeBack {
  readonly #clock: Clock;
  readonly #over: () => void;
  #cancel: (() => void) | null = null;

  /** `over` is told when the wait has ended without `heard`. */
  constructor(clock: Clock, over: () => void) {
    this.#clock = clock;
    this.#over = over;
  }

  get isWaiting(): boolean {
    return this.#cancel !== null;
  }

  begin(): void {
    this.end();
    this.#cancel = this.#clock.after(PATIENCE, () => {
      this.#cancel = null;
      this.#over();
    });
  }

  /** The controller has said what is wanted, or the node is off again. True where that was waited for. */
  end(): boolean {
    const wasWaiting = this.isWaiting;
    this.#cancel?.();
    this.#cancel = null;
    return wasWaiting;
  }
}
