import type { HeldAddress } from '../../../apis/egress/objects.ts';
import { FAMILIES } from '../../../lib/net/address.ts';
import { utcText, type WallClock } from '../../../lib/process/clock.ts';
import { compareText } from '../../../lib/sharing/lists.ts';
import type { Allocation } from '../allocation.ts';
import { holderName } from '../order.ts';

interface Known {
  readonly heldUntil: string;
  /** Monotonic milliseconds. */
  readonly end: number;
}

/**
 * How long released addresses are held back. The monotonic clock counts; the time in a status that
 * another leader wrote is compared once with the wall clock, and never makes it longer than HOLD.
 */
export class HoldTimes {
  readonly #clock: WallClock;
  #before: ReadonlyMap<string, Known> = new Map();
  #now = new Map<string, Known>();

  constructor(clock: WallClock) {
    this.#clock = clock;
  }

  /** Begins a round: what no call of the round before was about is in use again, and forgotten. */
  begin(): void {
    this.#before = this.#now;
    this.#now = new Map();
  }

  /** Forgets all: another leader may have decided since. */
  clear(): void {
    this.#before = new Map();
    this.#now = new Map();
  }

  /** @param gateway its uid and name */
  of(gateway: string, { address, policy, heldUntil }: HeldAddress, phase: HoldPhase): HoldTime {
    const key = `${gateway}|${address}|${policy}|${phase}`;
    const known = this.#before.get(key) ?? this.#first(heldUntil, phase);
    this.#now.set(key, known);
    return { heldUntil: known.heldUntil, left: known.end - this.#clock.now() };
  }

  /** Milliseconds until the next phase begins or ends; null: none. */
  get next(): number | null {
    const ends = [...this.#now.values()].map(({ end }) => end);
    return ends.length === 0 ? null : Math.max(0, Math.min(...ends) - this.#clock.now());
  }

  #first(heldUntil: string | undefined, phase: HoldPhase): Known {
    const now = this.#clock.now();
    const date = this.#clock.date().getTime();
    if (phase === 'cut') return { heldUntil: heldUntil ?? toText(date), end: now + CUT };
    const told = heldUntil === undefined ? Number.NaN : Date.parse(heldUntil) - date;
    const left = Number.isNaN(told) ? HOLD : Math.min(told, HOLD);
    return { heldUntil: heldUntil ?? toText(date + HOLD), end: now + left };
  }
}

function toText(date: number): string {
  return utcText(date);
}

/**
 * Milliseconds: a released address stays with its owner for so long, for established connections.
 */
export const HOLD = 300_000;
/**
 * Milliseconds after that in which the owner deletes them, before somebody else gets the address.
 */
export const CUT = 10_000;

/** Held: in its slot, for HOLD. Cut: in no slot, for CUT. */
type HoldPhase = 'held' | 'cut';

interface HoldTime {
  /** When the first phase ends (RFC 3339). */
  readonly heldUntil: string;
  /** Milliseconds of this phase that are left. */
  readonly left: number;
}

/** How long an address is held back that its holder released before (`heldUntil`), or just now. */
export type HoldTimeOf = (record: HeldAddress, phase: HoldPhase) => HoldTime;

interface Quarantine {
  /** The holder of each address, or its last one; sorted. */
  readonly records: readonly HeldAddress[];
  /** Addresses that are in no slot any more: what is left of their connections is cut. */
  readonly over: ReadonlySet<string>;
}

/**
 * The records of addresses' holders for the next status. A released address stays in its slot, so
 * that connections go on; then it leaves it, so that its owner deletes them; then it is forgotten,
 * and anybody may get it. While no node is ready the second phase does not begin.
 */
export function quarantine(
  { gateway, addresses, candidates }: Allocation,
  holdTimeOf: HoldTimeOf,
): Quarantine {
  const before = gateway.status?.addresses ?? [];
  const holders = holdersOf(addresses);
  const records = [...holders].map(([address, policy]): HeldAddress => ({ address, policy }));
  const inSlots = new Set(gateway.status?.slots.flatMap((slot) => slot.addresses));
  const over = new Set<string>();
  const isFollowed = candidates.some(({ ready }) => ready);
  for (const record of before) {
    const { address } = record;
    if (holders.has(address)) continue;
    const phase = inSlots.has(address) ? 'held' : 'cut';
    // The owner may be a node that does not know yet what it has to delete.
    if (phase === 'cut' && !isFollowed) {
      records.push(record);
      continue;
    }
    const { heldUntil, left } = holdTimeOf(record, phase);
    if (phase === 'held' && left <= 0) over.add(address);
    if (phase === 'held' || left > 0) records.push({ ...record, heldUntil });
  }
  return { records: records.sort((a, b) => compareText(a.address, b.address)), over };
}

/** The name of the holder of each address. */
function holdersOf(addresses: Allocation['addresses']): ReadonlyMap<string, string> {
  const holders = new Map<string, string>();
  for (const [policy, own] of addresses) {
    const name = policy.spec.address.allocation === 'Shared' ? '' : holderName(policy);
    for (const address of FAMILIES.flatMap((family) => own[family])) holders.set(address, name);
  }
  return holders;
}
