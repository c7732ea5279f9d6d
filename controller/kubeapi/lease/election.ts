import {
  type CancellableSleep,
  cancellableSleep,
  toMicroTime,
  type WallClock,
} from '../../../lib/process/clock.ts';
import { isKubeError, orNull } from '../kube-error.ts';
import type { Lease, LeaseSpec, LeaseStore } from './lease.ts';

/** Milliseconds; defaults as in kube-controller-manager. */
export interface LeaseTimes {
  /**
   * The time for which other replicas don't take a Lease after they saw it change; a whole number
   * of seconds.
   */
  readonly duration: number;
  /** A leader that can't renew stops leading after this time; less than `duration`. */
  readonly renewDeadline: number;
  /** Between attempts. */
  readonly retry: number;
}

export const LEASE_TIMES: LeaseTimes = { duration: 15_000, renewDeadline: 10_000, retry: 2_000 };

export interface ElectionEvents {
  /** @param until nobody else leads until then (monotonic milliseconds) */
  leading(until: number): void;
  /** Called when the Lease was renewed; absent: nobody asks. */
  renewed?(until: number): void;
  /** Called when the leadership was lost, but not after `release`. */
  lost(reason: string): void;
  /** Called when the leader changes; '' if there is none. */
  leader(identity: string): void;
  /** Called after a failed attempt; the election retries. */
  failed(error: unknown): void;
}

interface ElectionOptions {
  readonly store: LeaseStore;
  /** Unique to this run of this process. */
  readonly identity: string;
  readonly clock: WallClock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly events: ElectionEvents;
  readonly times?: LeaseTimes;
}

/** The last version of a Lease that was seen, and when (monotonic milliseconds). */
interface Observed {
  readonly lease: Lease;
  readonly at: number;
}

/** Tries to hold a Lease as long as it runs: takes it when it is free or expired, and renews it. */
export class Election {
  readonly #options: ElectionOptions;
  readonly #times: LeaseTimes;
  #observed: Observed | null = null;
  /** The time until which no other replica can lead; null if this process doesn't lead. */
  #leadsUntil: number | null = null;
  #cancelExpiry = (): void => {};
  readonly #pause: CancellableSleep;
  #isStopped = false;
  /** An attempt was requested since the last one began. */
  #isDue = false;
  #running: Promise<void> = Promise.resolve();
  #announced: string | null = null;

  constructor(options: ElectionOptions) {
    this.#options = options;
    this.#times = options.times ?? LEASE_TIMES;
    this.#pause = cancellableSleep(options.clock.after);
  }

  /** Evaluated at the current time: true only while no other replica can have become leader. */
  isLeader(): boolean {
    return !this.#isStopped && this.#leadsUntil !== null && this.#options.clock.now() < this.#leadsUntil;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Tries at once, not at the next interval: the Lease was released. */
  tryNow(): void {
    this.#isDue = true;
    this.#pause.wake();
  }

  /**
   * Stops taking part, and releases the Lease if this process holds it, so that another replica
   * needn't wait. Never throws.
   */
  async release(): Promise<void> {
    this.#isStopped = true;
    this.#pause.wake();
    this.#leadsUntil = null;
    this.#cancelExpiry();
    await this.#running;
    const held = this.#observed?.lease;
    if (held?.spec?.holderIdentity !== this.#options.identity) return;
    const spec = {
      ...held.spec,
      holderIdentity: '',
      leaseDurationSeconds: 1,
      renewTime: toMicroTime(this.#options.clock.date()),
    };
    try {
      await this.#options.store.replace(held, spec, this.#times.renewDeadline / 2);
    } catch (error) {
      // Not released: the other replicas wait until the Lease expires.
      if (!isKubeError(error, 'Conflict', 'NotFound')) this.#options.events.failed(error);
    }
  }

  #lose(reason: string): void {
    if (this.#leadsUntil === null) return;
    this.#leadsUntil = null;
    this.#cancelExpiry();
    this.#options.events.lost(reason);
  }

  #observe(lease: Lease): void {
    const holder = lease.spec?.holderIdentity ?? '';
    if (lease.metadata.resourceVersion !== this.#observed?.lease.metadata.resourceVersion) {
      this.#observed = { lease, at: this.#options.clock.now() };
    }
    if (holder !== this.#options.identity)
      this.#lose(holder === '' ? 'the Lease was released' : `${holder} took the Lease`);
    if (holder === this.#announced) return;
    this.#announced = holder;
    this.#options.events.leader(holder);
  }

  /** `asked` is the time before the request was sent: no other replica saw the write earlier. */
  #hold(lease: Lease, asked: number): void {
    this.#observe(lease);
    if (this.#isStopped) return;
    // Callers meanwhile were answered that this process does not lead.
    if (this.#leadsUntil !== null && !this.isLeader()) this.#lose('the Lease was renewed too late');
    const wasLeader = this.#leadsUntil !== null;
    this.#leadsUntil = asked + this.#times.renewDeadline;
    this.#cancelExpiry();
    // The response took so long that the renewal has expired already.
    if (this.#options.clock.now() >= this.#leadsUntil) {
      this.#leadsUntil = null;
      if (wasLeader) this.#options.events.lost('the Lease was renewed too late');
      return;
    }
    const expire = (): void => {
      // A timer may fire slightly early.
      if (this.isLeader()) this.#cancelExpiry = this.#options.clock.after(1, expire);
      else this.#lose('the Lease could not be renewed in time');
    };
    this.#cancelExpiry = this.#options.clock.after(this.#leadsUntil - this.#options.clock.now(), expire);
    if (wasLeader) this.#options.events.renewed?.(this.#leadsUntil);
    else this.#options.events.leading(this.#leadsUntil);
  }

  #specAfter(held: LeaseSpec | undefined): LeaseSpec {
    const now = toMicroTime(this.#options.clock.date());
    const isOurs = held?.holderIdentity === this.#options.identity;
    const acquireTime = isOurs ? (held.acquireTime ?? now) : now;
    const transitions = held?.leaseTransitions ?? 0;
    const leaseTransitions = isOurs || held === undefined ? transitions : transitions + 1;
    return {
      ...held,
      holderIdentity: this.#options.identity,
      leaseDurationSeconds: Math.ceil(this.#times.duration / 1000),
      acquireTime,
      renewTime: now,
      leaseTransitions,
    };
  }

  async #tryOnce(): Promise<void> {
    const timeout = this.#times.renewDeadline / 2;
    const known = this.#observed?.lease;
    if (this.#leadsUntil !== null && known?.spec?.holderIdentity === this.#options.identity) {
      const asked = this.#options.clock.now();
      try {
        return this.#hold(
          await this.#options.store.replace(known, this.#specAfter(known.spec), timeout),
          asked,
        );
      } catch (error) {
        // Another process wrote the Lease, or the response to an earlier write of this process was
        // lost: read its current state.
        if (!isKubeError(error, 'Conflict', 'NotFound')) throw error;
      }
    }
    if (this.#isStopped) return;
    const lease = await orNull(this.#options.store.read(timeout));
    if (this.#isStopped) return;
    const asked = this.#options.clock.now();
    if (lease === null) {
      this.#lose('the Lease was deleted');
      // Its holder leads until it notices.
      if (this.#observed !== null && this.#isHeldByAnother(this.#observed.lease)) return;
      return this.#hold(await this.#options.store.create(this.#specAfter(undefined), timeout), asked);
    }
    this.#observe(lease);
    if (this.#isHeldByAnother(lease)) return;
    this.#hold(await this.#options.store.replace(lease, this.#specAfter(lease.spec), timeout), asked);
  }

  #isHeldByAnother({ spec }: Lease): boolean {
    const holder = spec?.holderIdentity ?? '';
    if (holder === '' || holder === this.#options.identity || this.#observed === null) return false;
    return (
      this.#options.clock.now() <
      this.#observed.at + (spec?.leaseDurationSeconds ?? Math.ceil(this.#times.duration / 1000)) * 1000
    );
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#isDue = false;
      try {
        await this.#tryOnce();
      } catch (error) {
        // Two replicas took or created it at the same time, and the other one succeeded.
        if (!isKubeError(error, 'Conflict', 'AlreadyExists')) this.#options.events.failed(error);
      }
      if (this.#isStopped) return;
      // The random wait separates candidates that start together.
      if (!this.#isDue)
        await this.#pause.wait(
          this.#leadsUntil === null
            ? this.#times.retry * (1 + 1.2 * this.#options.random())
            : this.#times.retry,
        );
    }
  }
}
