import { isDeepStrictEqual } from 'node:util';
import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';

type Status = Pick<EgressGatewayStatus, 'slots' | 'addresses'>;

interface Known {
  /** As the API had it last. */
  readonly seen: Status | null;
  /** The decisions since, in order; the last one counts. */
  readonly pending: readonly Status[];
}

const MOST_PENDING = 64;

/**
 * The holder and slot of each gateway's addresses, by the latest decision: the leader's decision is
 * in force before its own watch shows it, and must not be made otherwise meanwhile. A status that
 * somebody else wrote goes first. Owners of slots are always those of the API.
 */
export class LatestAddresses {
  #known = new Map<string, Known>();

  /**
   * @param gateway its uid and name
   * @param seen as the API has it
   * @returns `seen` itself if nothing was decided since
   */
  of(gateway: string, seen: EgressGatewayStatus | null): EgressGatewayStatus | null {
    const { pending } = this.#follow(gateway, seen);
    const latest = pending.at(-1);
    if (latest === undefined) return seen;
    const owners = new Map(seen?.slots.map((slot) => [slot.name, slot]));
    const slots = latest.slots.map((slot) => ({
      ...(owners.get(slot.name) ?? slot),
      addresses: slot.addresses,
    }));
    return { nodes: [], ...seen, ...latest, slots };
  }

  /** After `of`. */
  decided(gateway: string, status: Status): void {
    const known = this.#known.get(gateway);
    if (known === undefined || isSame(known.pending.at(-1) ?? known.seen, status)) return;
    const { slots, addresses = [] } = status;
    const pending = [...known.pending, { slots, addresses }].slice(-MOST_PENDING);
    this.#known.set(gateway, { ...known, pending });
  }

  /** Forgets gateways that are gone. */
  keep(gateways: ReadonlySet<string>): void {
    for (const gateway of this.#known.keys()) if (!gateways.has(gateway)) this.#known.delete(gateway);
  }

  clear(): void {
    this.#known = new Map();
  }

  #follow(gateway: string, seen: Status | null): Known {
    const known = this.#known.get(gateway) ?? { seen, pending: [] };
    const at = known.pending.findLastIndex((status) => isSame(status, seen));
    const isOld = known.seen === seen || isSame(known.seen, seen);
    const pending = isOld ? known.pending : at < 0 ? [] : known.pending.slice(at + 1);
    const next = { seen, pending };
    this.#known.set(gateway, next);
    return next;
  }
}

function isSame(a: Status | null, b: Status | null): boolean {
  return isDeepStrictEqual(placesIn(a), placesIn(b));
}

function placesIn(status: Status | null): unknown {
  return [status?.addresses ?? [], status?.slots.map(({ name, addresses }) => [name, addresses]) ?? []];
}
