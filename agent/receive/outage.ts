import type { Clock } from '../../lib/process/clock.ts';
import type { ApiServer } from './api-server.ts';

/**
 * What the API server says while no controller answers; null: it has said nothing yet, or nothing
 * of that.
 */
export interface Seen {
  /** Addresses of the controllers' pods, sorted. */
  readonly controllers: readonly string[] | null;
  /** The feature gate. */
  readonly gate: boolean | null;
}

export const UNSEEN: Seen = { controllers: null, gate: null };

export interface OutageEvents {
  /** After each look that said something. */
  seen(seen: Seen): void;
  /** The first look of an outage that failed; later ones are tried all the same. */
  failed(error: Error): void;
  /** The aggregated API was unavailable, and is unregistered. */
  unregistered(): void;
}

export interface OutageParts {
  readonly api: Pick<ApiServer, 'controllerAddresses' | 'gate' | 'removeApiService'>;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly random: () => number;
  readonly events: OutageEvents;
}

/**
 * Milliseconds, each a random quarter less or more: what concerns 5,000 nodes is not asked by all
 * at once.
 */
const FIRST_LOOK = 5_000;
const BETWEEN_LOOKS = 10_000;
/** So long without any controller, and up to a third more, the aggregated API is taken for dead. */
const UNREGISTER_AFTER = 45_000;

/**
 * Asks the API server while no controller answers: where the controllers are now, so that the
 * failsafe list lets them reach it, and whether the gate was switched. Once in an outage it
 * unregisters the aggregated API, without which Kubernetes deletes no namespace. While a controller
 * answers it asks nothing.
 */
export class Outage {
  readonly #parts: OutageParts;
  #ending: AbortController | null = null;
  #cancel: () => void = () => {};
  #unregisterAt = Number.POSITIVE_INFINITY;
  #hasFailed = false;
  #looking: Promise<void> = Promise.resolve();

  constructor(parts: OutageParts) {
    this.#parts = parts;
  }

  /** No controller answers, now or still. */
  begin(): void {
    if (this.#ending !== null) return;
    const { clock, random } = this.#parts;
    this.#ending = new AbortController();
    this.#hasFailed = false;
    this.#unregisterAt = clock.now() + UNREGISTER_AFTER * (1 + random() / 3);
    this.#lookAfter(FIRST_LOOK, this.#ending.signal);
  }

  /** A controller answers. Nothing is told any more. */
  end(): void {
    this.#cancel();
    this.#ending?.abort();
    this.#ending = null;
  }

  async close(): Promise<void> {
    this.end();
    await this.#looking;
  }

  #lookAfter(milliseconds: number, signal: AbortSignal): void {
    const { clock, random } = this.#parts;
    this.#cancel = clock.after(milliseconds * (0.75 + random() / 2), () => {
      this.#looking = this.#look(signal).then(() => {
        if (!signal.aborted) this.#lookAfter(BETWEEN_LOOKS, signal);
      });
    });
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { api, events } = this.#parts;
    const failed = (error: unknown): null => {
      if (!signal.aborted && !this.#hasFailed) events.failed(error as Error);
      this.#hasFailed = true;
      return null;
    };
    const [controllers, gate] = await Promise.all([
      api.controllerAddresses(signal).catch(failed),
      api.gate(signal).catch(failed),
    ]);
    if (signal.aborted) return;
    if (controllers !== null || gate !== null) events.seen({ controllers, gate });
    if (this.#parts.clock.now() < this.#unregisterAt) return;
    const outcome = await api.removeApiService(signal).catch(failed);
    if (signal.aborted || outcome === null || outcome === 'available') return;
    this.#unregisterAt = Number.POSITIVE_INFINITY;
    if (outcome === 'removed') events.unregistered();
  }
}
