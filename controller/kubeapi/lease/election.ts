import type { WallClock } from '../../../lib/process/clock.ts';
import { waiter } from '../../../lib/process/waiter.ts';
import { isKubeError } from '../kube-error.ts';
import type { Lease, LeaseSpec, LeaseStore } from './lease.ts';

/** Milliseconds, as kube-controller-manager has them. */
export interface LeaseTimes {
  /** The others leave a Lease alone for so long after they saw it change; whole seconds. */
  readonly duration: number;
  /** A leader that can't renew stops being it after so long; less than `duration`. */
  readonly renewDeadline: number;
  /** Between tries. */
  readonly retry: number;
}

export const LEASE_TIMES: LeaseTimes = { duration: 15_000, renewDeadline: 10_000, retry: 2_000 };

export interface ElectionEvents {
  leading(): void;
  /** Not for `release`. */
  lost(reason: string): void;
  /** Who leads is another than before; '' where nobody does. */
  leader(identity: string): void;
  /** A try came to nothing; the next comes by itself. */
  failed(error: unknown): void;
}

export interface ElectionParts {
  readonly store: LeaseStore;
  /** Unique to this life of this process. */
  readonly identity: string;
  readonly clock: WallClock;
  /** 0 to 1. */
  readonly random: () => number;
  readonly events: ElectionEvents;
  readonly times?: LeaseTimes;
}

export interface Election {
  start(): void;
  /** By the clock as it is now: true only while nobody else can have become leader. */
  isLeader(): boolean;
  /** Nobody holds the Lease any more: tried at once, not at the next turn. */
  look(): void;
  /** Takes no more part, and gives the Lease away if it is ours, so that another needn't wait. Never throws. */
  release(): Promise<void>;
}

/** What of a Lease was last seen, and when. */
interface Observed {
  readonly lease: Lease;
  readonly at: number;
}

/** Tries to hold a Lease for as long as it runs: takes it when nobody has it any more, and renews it. */
export function election(parts: ElectionParts): Election {
  const { store, identity, clock, random, events } = parts;
  const { duration, renewDeadline, retry } = parts.times ?? LEASE_TIMES;
  const leaseDurationSeconds = Math.ceil(duration / 1000);
  let observed: Observed | null = null;
  /** Until when nobody else can lead; null where we don't. */
  let leadsUntil: number | null = null;
  let cancelExpiry = (): void => {};
  const pause = waiter(clock.after);
  let isStopped = false;
  /** A try was asked for since the last one began. */
  let isDue = false;
  let running: Promise<void> = Promise.resolve();
  let announced: string | null = null;

  const isLeader = (): boolean => !isStopped && leadsUntil !== null && clock.now() < leadsUntil;

  function lose(reason: string): void {
    if (leadsUntil === null) return;
    leadsUntil = null;
    cancelExpiry();
    events.lost(reason);
  }

  function observe(lease: Lease): void {
    const holder = lease.spec?.holderIdentity ?? '';
    if (lease.metadata.resourceVersion !== observed?.lease.metadata.resourceVersion) {
      observed = { lease, at: clock.now() };
    }
    if (holder !== identity) lose(holder === '' ? 'the Lease was released' : `${holder} took the Lease`);
    if (holder === announced) return;
    announced = holder;
    events.leader(holder);
  }

  /** `asked` is from before the request was sent: nobody saw what it wrote earlier. */
  function hold(lease: Lease, asked: number): void {
    observe(lease);
    if (isStopped) return;
    const wasLeader = leadsUntil !== null;
    leadsUntil = asked + renewDeadline;
    cancelExpiry();
    // The answer took too long to be worth anything.
    if (clock.now() >= leadsUntil) {
      leadsUntil = null;
      if (wasLeader) events.lost('the Lease was renewed too late');
      return;
    }
    const expire = (): void => {
      // A timer may be a little early.
      if (isLeader()) cancelExpiry = clock.after(1, expire);
      else lose('the Lease could not be renewed in time');
    };
    cancelExpiry = clock.after(leadsUntil - clock.now(), expire);
    if (!wasLeader) events.leading();
  }

  function specAfter(held: LeaseSpec | undefined): LeaseSpec {
    const now = toMicroTime(clock.date());
    const isOurs = held?.holderIdentity === identity;
    const acquireTime = isOurs ? (held.acquireTime ?? now) : now;
    const transitions = held?.leaseTransitions ?? 0;
    const leaseTransitions = isOurs || held === undefined ? transitions : transitions + 1;
    return {
      ...held,
      holderIdentity: identity,
      leaseDurationSeconds,
      acquireTime,
      renewTime: now,
      leaseTransitions,
    };
  }

  async function tryOnce(): Promise<void> {
    const timeout = renewDeadline / 2;
    const known = observed?.lease;
    if (leadsUntil !== null && known?.spec?.holderIdentity === identity) {
      const asked = clock.now();
      try {
        return hold(await store.replace(known, specAfter(known.spec), timeout), asked);
      } catch (error) {
        // Somebody else wrote it, or an earlier answer of our own got lost: see what is there.
        if (!isKubeError(error, 'Conflict', 'NotFound')) throw error;
      }
    }
    if (isStopped) return;
    const lease = await readOrNull(timeout);
    if (isStopped) return;
    const asked = clock.now();
    if (lease === null) {
      lose('the Lease was deleted');
      return hold(await store.create(specAfter(undefined), timeout), asked);
    }
    observe(lease);
    if (isHeldByAnother(lease)) return;
    hold(await store.replace(lease, specAfter(lease.spec), timeout), asked);
  }

  async function readOrNull(timeout: number): Promise<Lease | null> {
    try {
      return await store.read(timeout);
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return null;
      throw error;
    }
  }

  function isHeldByAnother({ spec }: Lease): boolean {
    const holder = spec?.holderIdentity ?? '';
    if (holder === '' || holder === identity || observed === null) return false;
    return clock.now() < observed.at + (spec?.leaseDurationSeconds ?? leaseDurationSeconds) * 1000;
  }

  async function run(): Promise<void> {
    while (!isStopped) {
      isDue = false;
      try {
        await tryOnce();
      } catch (error) {
        // Two at once took it or made it: the other was first.
        if (!isKubeError(error, 'Conflict', 'AlreadyExists')) events.failed(error);
      }
      if (isStopped) return;
      // Candidates that start together don't stay together.
      if (!isDue) await pause.wait(leadsUntil === null ? retry * (1 + 1.2 * random()) : retry);
    }
  }

  return {
    start() {
      running = run();
    },
    isLeader,
    look() {
      isDue = true;
      pause.wake();
    },
    async release() {
      isStopped = true;
      pause.wake();
      leadsUntil = null;
      cancelExpiry();
      await running;
      const held = observed?.lease;
      if (held?.spec?.holderIdentity !== identity) return;
      const spec = {
        ...held.spec,
        holderIdentity: '',
        leaseDurationSeconds: 1,
        renewTime: toMicroTime(clock.date()),
      };
      try {
        await store.replace(held, spec, renewDeadline / 2);
      } catch (error) {
        // Then the others wait until it is over.
        if (!isKubeError(error, 'Conflict', 'NotFound')) events.failed(error);
      }
    },
  };
}

/** meta/v1 MicroTime. */
function toMicroTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}
