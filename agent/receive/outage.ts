import type { GateValue } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { ApiServer, PolicyId } from './api-server.ts';

/** State read from the API server while no controller answers; a null field is not known yet. */
export interface OutageState {
  /** Addresses of the controllers' pods, sorted. */
  readonly controllers: readonly string[] | null;
  /** The feature gate. */
  readonly gate: GateValue | null;
  /** Policies in force here that exist no more; null: nothing is known of it. */
  readonly deleted: readonly PolicyId[] | null;
}

export const UNSEEN: OutageState = { controllers: null, gate: null, deleted: null };

/** Fields that are null keep their previous value. Returns the same object if nothing changed. */
export function mergedSeen(before: OutageState, now: OutageState): OutageState {
  const controllers = now.controllers ?? before.controllers;
  const gate = now.gate ?? before.gate;
  const deleted = now.deleted === null ? before.deleted : union(before.deleted ?? [], now.deleted);
  const isSame = gate === before.gate && controllers?.join() === before.controllers?.join();
  return isSame && deleted === before.deleted ? before : { controllers, gate, deleted };
}

/** As API_GROUP/NAME. */
export function newlyDeleted(before: OutageState, { deleted }: OutageState): readonly string[] {
  const known = before.deleted?.length ?? 0;
  return (deleted ?? []).slice(known).map(({ apiGroup, policy }) => `${apiGroup}/${policy}`);
}

/** A deleted policy stays deleted: another one of its name has another uid. */
function union(before: readonly PolicyId[], now: readonly PolicyId[]): readonly PolicyId[] {
  const fresh = now.filter(({ uid }) => !before.some((one) => one.uid === uid));
  return fresh.length === 0 ? before : [...before, ...fresh];
}

interface OutageEvents {
  /** Called after each request round that returned something. */
  seen(seen: OutageState): void;
  /** Called for the first failed request of an outage; requests continue all the same. */
  failed(error: Error): void;
  /** The aggregated API was unavailable, and has been unregistered. */
  unregistered(): void;
}

export interface OutageOptions {
  readonly api: Pick<ApiServer, 'controllerAddresses' | 'gate' | 'deletedPolicies' | 'removeApiService'>;
  /** The policies whose rules this node has, or wants. */
  readonly policies: () => readonly PolicyId[];
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly events: OutageEvents;
}

/**
 * Milliseconds, each varied at random by up to a quarter, so that 5,000 nodes don't send their
 * requests at the same time.
 */
const FIRST_LOOK = 5_000;
const BETWEEN_LOOKS = 10_000;
/** Every so many looks it asks for the policies, which is the largest answer. */
const LOOKS_FOR_POLICIES = 2;
/**
 * Without any controller for this time, plus up to a third at random, the aggregated API is
 * considered unavailable for good (milliseconds).
 */
const UNREGISTER_AFTER = 45_000;

/**
 * Polls the API server while no controller answers: for the controllers' addresses, so that the
 * failsafe list lets them reach it, for changes of the gate, and for policies that were deleted:
 * one may be what keeps the controllers away. Once in an outage it unregisters
 * the aggregated API, because Kubernetes can't delete namespaces while an aggregated API is
 * unavailable. While a controller answers it sends no requests.
 */
export class Outage {
  readonly #options: OutageOptions;
  #ending: AbortController | null = null;
  #cancel: () => void = () => {};
  #unregisterAt = Number.POSITIVE_INFINITY;
  #hasFailed = false;
  #looks = 0;
  #polling: Promise<void> = Promise.resolve();

  constructor(options: OutageOptions) {
    this.#options = options;
  }

  /** Starts polling, unless it runs already: no controller answers. */
  begin(): void {
    if (this.#ending !== null) return;
    const { clock, random } = this.#options;
    this.#ending = new AbortController();
    this.#hasFailed = false;
    this.#looks = 0;
    this.#unregisterAt = clock.now() + UNREGISTER_AFTER * (1 + random() / 3);
    this.#pollAfter(FIRST_LOOK, this.#ending.signal);
  }

  /** Stops polling: a controller answers. No event is emitted after this. */
  end(): void {
    this.#cancel();
    this.#ending?.abort();
    this.#ending = null;
  }

  async close(): Promise<void> {
    this.end();
    await this.#polling;
  }

  #pollAfter(milliseconds: number, signal: AbortSignal): void {
    const { clock, random } = this.#options;
    this.#cancel = clock.after(milliseconds * (0.75 + random() / 2), () => {
      this.#polling = this.#poll(signal).then(() => {
        if (!signal.aborted) this.#pollAfter(BETWEEN_LOOKS, signal);
      });
    });
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const { api, events } = this.#options;
    const failed = (error: unknown): null => {
      if (!signal.aborted && !this.#hasFailed) events.failed(error as Error);
      this.#hasFailed = true;
      return null;
    };
    const isForPolicies = this.#looks++ % LOOKS_FOR_POLICIES === 0;
    const policies = isForPolicies ? this.#options.policies() : [];
    const [controllers, gate, deleted] = await Promise.all([
      api.controllerAddresses(signal).catch(failed),
      api.gate(signal).catch(failed),
      policies.length === 0 ? null : api.deletedPolicies(policies, signal).catch(failed),
    ]);
    if (signal.aborted) return;
    if (controllers !== null || gate !== null || deleted !== null)
      events.seen({ controllers, gate, deleted });
    if (this.#options.clock.now() < this.#unregisterAt) return;
    const outcome = await api.removeApiService(signal).catch(failed);
    if (signal.aborted || outcome === null || outcome === 'available') return;
    this.#unregisterAt = Number.POSITIVE_INFINITY;
    if (outcome === 'removed') events.unregistered();
  }
}
