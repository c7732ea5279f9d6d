import type { Clock } from '../../lib/process/clock.ts';
import { holdsCertificate, readAuthorities } from './https-call.ts';

/** The CA certificates (PEM) that the controller's certificate is verified against. */
export interface Authorities {
  /** The source of the certificates, for messages. */
  readonly origin: string;
  /** Returns the current certificates. Throws if there are none. */
  read(): Promise<string>;
  /** Called when none of the certificates has signed the controller's. */
  refused(): void;
}

/** Reads the file for each request, because it is replaced while the agent runs. */
export function fileAuthorities(path: string): Authorities {
  return { origin: path, read: () => readAuthorities(path, '--ca-file'), refused() {} };
}

export interface FetchedAuthoritiesOptions {
  readonly origin: string;
  /** The certificates that an earlier run saved; null: none. */
  readonly remembered: string | null;
  readonly fetch: () => Promise<string>;
  readonly clock: Clock;
  /** Called with new certificates that differ from the previous ones, to save them. */
  readonly learned: (certificates: string) => void;
}

/**
 * Time after which the certificates are fetched again (milliseconds): an authority that was removed
 * must not stay trusted forever.
 */
const FRESH = 24 * 3_600_000;

/**
 * Authorities from the API server: fetched at first, after a certificate that they did not sign,
 * and on the first request after 24 hours. If fetching fails, the previous ones are used, so that
 * an agent that starts without an API server can connect to its controller.
 */
export class FetchedAuthorities implements Authorities {
  readonly origin: string;
  readonly #options: FetchedAuthoritiesOptions;
  #known: string | null;
  #freshUntil = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | null = null;

  constructor(options: FetchedAuthoritiesOptions) {
    this.origin = options.origin;
    this.#options = options;
    this.#known = options.remembered;
  }

  async read(): Promise<string> {
    if (this.#options.clock.now() >= this.#freshUntil) {
      const fetching = this.#fetch();
      // A request doesn't wait if certificates are known already; if they are refused, the next
      // request has the new ones.
      if (this.#known === null) await fetching;
      else fetching.catch(() => {});
    }
    if (this.#known === null) throw new Error(`${this.origin} contains no certificate (PEM)`);
    return this.#known;
  }

  refused(): void {
    this.#freshUntil = Number.NEGATIVE_INFINITY;
  }

  /** One fetch at a time. */
  #fetch(): Promise<void> {
    this.#fetching ??= this.#fetchNew().finally(() => {
      this.#fetching = null;
    });
    return this.#fetching;
  }

  async #fetchNew(): Promise<void> {
    const text = await this.#options.fetch();
    if (!holdsCertificate(text)) throw new Error(`${this.origin} contains no certificate (PEM)`);
    this.#freshUntil = this.#options.clock.now() + FRESH;
    if (text === this.#known) return;
    this.#known = text;
    this.#options.learned(text);
  }
}
