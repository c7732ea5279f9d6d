import type { Clock } from '../../lib/process/clock.ts';

/** Where a connection to a controller goes. */
export interface Destination {
  /** A name or an address, without brackets. */
  readonly host: string;
  readonly port: number;
}

export interface DestinationsOptions {
  /** The host of the controllers' URL: that of their Service in a cluster. */
  readonly service: Destination;
  /** The controllers themselves, as far as they are known. */
  readonly replicas: () => readonly Destination[];
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
}

/**
 * Time for which a destination that did not answer is tried after all others (milliseconds). A
 * cluster sends connections to a node that lost its power for 40 s by default.
 */
const AVOIDED = 60_000;
/** The most destinations of one request. */
const MOST = 16;

/** The order in which a client tries the Service of the controllers, and each controller itself. */
export class Destinations {
  readonly #options: DestinationsOptions;
  /** Since when a destination does not answer. */
  readonly #failed = new Map<string, number>();
  #lastAnswered = '';

  constructor(options: DestinationsOptions) {
    this.#options = options;
  }

  /**
   * The Service first, which knows the controllers that are ready; then the controller that
   * answered last, then the others in random order. A destination that did not answer within the
   * last minute comes after those that did, the latest failure last.
   */
  inOrder(): readonly Destination[] {
    const { service, replicas, clock, random } = this.#options;
    for (const [key, since] of this.#failed) if (clock.now() - since >= AVOIDED) this.#failed.delete(key);
    const known = new Map([service, ...replicas()].map((one) => [toText(one), one]));
    return [...known]
      .map(([key, one]) => ({ one, rank: [this.#failed.get(key) ?? -1, this.#preference(key), random()] }))
      .sort((a, b) => compare(a.rank, b.rank))
      .slice(0, MOST)
      .map(({ one }) => one);
  }

  answered(destination: Destination): void {
    this.#lastAnswered = toText(destination);
    this.#failed.delete(this.#lastAnswered);
  }

  failed(destination: Destination): void {
    this.#failed.set(toText(destination), this.#options.clock.now());
  }

  #preference(key: string): number {
    if (key === toText(this.#options.service)) return 0;
    return key === this.#lastAnswered ? 1 : 2;
  }
}

/** The host and the port of https://HOST:PORT. */
export function destinationOf(url: URL): Destination {
  const port = url.port === '' ? 443 : Number(url.port);
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port };
}

/** HOST:PORT. */
export function toText({ host, port }: Destination): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (const [i, value] of a.entries()) {
    const difference = value - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
