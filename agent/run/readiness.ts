/** Seconds: a token that has just expired is replaced sooner. */
const TOKEN_PATIENCE = 30;
const TOKEN_REFUSED =
  'the token is not accepted (401): was the ServiceAccount made again? Restart the pods: kubectl rollout restart -n nodewall-system daemonset/nodewall-agent; the rules in force stay';

/** Why an agent is not ready. */
export class Readiness {
  /** Rules are in force, or none is the wanted state. */
  isReady = false;
  /** Why the controller's view can't be applied; null: it can. */
  viewError: string | null = null;
  readonly #seconds: () => number;
  #refusedSince: number | null = null;

  /** @param seconds since 1970 */
  constructor(seconds: () => number) {
    this.#seconds = seconds;
  }

  tokenRefused(isRefused: boolean): void {
    this.#refusedSince = isRefused ? (this.#refusedSince ?? this.#seconds()) : null;
  }

  /** Null: it is ready. */
  why(): string | null {
    if (this.viewError !== null) return `${this.viewError}; the rules in force stay`;
    const isRefused = this.#refusedSince !== null && this.#seconds() - this.#refusedSince >= TOKEN_PATIENCE;
    if (isRefused) return TOKEN_REFUSED;
    return this.isReady ? null : 'no rules are applied yet';
  }
}
