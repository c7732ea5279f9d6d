import type { Clock } from '../../lib/process/clock.ts';
import { holdsCertificate, readAuthorities } from './https-call.ts';

/** The certificates (PEM) that the controller's may be signed by. */
export interface Authorities {
  /** For messages: where they are kept. */
  readonly origin: string;
  /** As they are now. Throws where there are none. */
  read(): Promise<string>;
  /** The controller's certificate is signed by none of them. */
  refused(): void;
}

/** Read anew for each request: the file is replaced while the agent runs. */
export function fileAuthorities(path: string): Authorities {
  return { origin: path, read: () => readAuthorities(path, '--ca-file'), refused() {} };
}

export interface FetchedAuthoritiesParts {
  readonly origin: string;
  /** Of an earlier run; null: none. */
  readonly remembered: string | null;
  readonly fetch: () => Promise<string>;
  readonly clock: Clock;
  /** They are others than before: to be remembered. */
  readonly learned: (certificates: string) => void;
}

/**
 * Milliseconds after which they are fetched again: an authority that was taken off must not be
 * trusted for ever.
 */
const FRESH = 24 * 3_600_000;

/**
 * Of the API server: fetched at first, after a certificate that they did not sign, and for the
 * first request of a day. Those of before serve where that fails, so that a start without API
 * server follows its controller.
 */
export class FetchedAuthorities implements Authorities {
  readonly origin: string;
  readonly #parts: FetchedAuthoritiesParts;
  #known: string | null;
  #freshUntil = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | null = null;

  constructor(parts: FetchedAuthoritiesParts) {
    this.origin = parts.origin;
    this.#parts = parts;
    this.#known = parts.remembered;
  }

  async read(): Promise<string> {
    if (this.#parts.clock.now() >= this.#freshUntil) {
      const fetching = this.#fetch();
      // With what is remembered nobody waits; a refusal brings the next turn.
      if (this.#known === null) await fetching;
      else fetching.catch(() => {});
    }
    if (this.#known === null) throw new Error(`${this.origin} holds no certificate (PEM)`);
    return this.#known;
  }

  refused(): void {
    this.#freshUntil = Number.NEGATIVE_INFINITY;
  }

  /** One at a time. */
  #fetch(): Promise<void> {
    this.#fetching ??= this.#take().finally(() => {
      this.#fetching = null;
    });
    return this.#fetching;
  }

  async #take(): Promise<void> {
    const text = await this.#parts.fetch();
    if (!holdsCertificate(text)) throw new Error(`${this.origin} holds no certificate (PEM)`);
    this.#freshUntil = this.#parts.clock.now() + FRESH;
    if (text === this.#known) return;
    this.#known = text;
    this.#parts.learned(text);
  }
}
