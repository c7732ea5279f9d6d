import type { Clock } from '../../lib/process/clock.ts';

export interface OwnTokenOptions {
  readonly clock: Pick<Clock, 'now'>;
  /** Called when the token begins to be refused for long, and again while it is. */
  readonly refused: (why: string) => void;
  /** Called when it is accepted again. */
  readonly accepted: () => void;
}

/** Milliseconds: a token that has just expired is replaced within seconds. */
const PATIENCE = 30_000;
const SAID_AGAIN = 300_000;
const UNAUTHORIZED = 401;

/**
 * Whether the API server accepts this process's own credentials, by the status of each answer. Of a
 * ServiceAccount that was deleted and made again the tokens of running pods are worth nothing,
 * until the kubelet mounts another one: each request is answered 401 then.
 */
export class OwnToken {
  readonly #options: OwnTokenOptions;
  /** Since when every answer is 401; null: the last one was not. */
  #since: number | null = null;
  #said: number | null = null;

  constructor(options: OwnTokenOptions) {
    this.#options = options;
  }

  answered(status: number): void {
    const { clock, refused, accepted } = this.#options;
    if (status !== UNAUTHORIZED) {
      // A server that fails has not looked at the token.
      if (status >= 500) return;
      if (this.#said !== null) accepted();
      this.#since = null;
      this.#said = null;
      return;
    }
    const now = clock.now();
    this.#since ??= now;
    const why = this.refusal();
    if (why === null || (this.#said !== null && now - this.#said < SAID_AGAIN)) return;
    this.#said = now;
    refused(why);
  }

  /** Why this process can do nothing at the API server, and what to do; null: it can. */
  refusal(): string | null {
    if (this.#since === null || this.#options.clock.now() - this.#since < PATIENCE) return null;
    return 'the API server does not accept the token (401): was the ServiceAccount made again? Restart the pods: kubectl rollout restart -n nodewall-system deployment/nodewall-controller';
  }
}
