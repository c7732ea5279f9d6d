import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import { formatMembers, sameMembers, toMemberSet } from '../../lib/net/member-set.ts';
import type { Clock } from '../../lib/process/clock.ts';

/** Where a connection to a controller goes. */
export interface Destination {
  /** A name or an address, without brackets. */
  readonly host: string;
  readonly port: number;
}

interface DestinationsOptions {
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

/**
 * The AddressSet's id if an older controller, or a state saved by an older agent, names no
 * AddressSet of the controllers.
 */
const UNNAMED = 'controllers';

/**
 * The addresses of the controllers' pods, ready or not, as a controller sent them.
 *
 * @param seen addresses that the API server named since no controller answers: where all of them
 *   are new pods, and kube-proxy of this node does not know it yet, no other leads to one
 */
export function controllersOf(
  state: NodeState | null,
  seen: readonly string[] | null = null,
): readonly string[] {
  const known = state?.addressSets.get(state.controllers);
  const sent = known === undefined ? [] : formatMembers(known.members);
  return [...new Set([...(seen ?? []), ...sent])];
}

/**
 * The state with these addresses as those of nodewall's controllers, for an agent that learnt them
 * from the API server while no controller answers. Returns the same state if the addresses are the
 * same; otherwise only the members of one AddressSet differ, and no rule changes.
 */
export function withControllers(state: NodeState, addresses: Iterable<string>): NodeState {
  const id = state.controllers === '' ? UNNAMED : state.controllers;
  const before: Omit<AddressSet, 'members'> & Partial<AddressSet> = state.addressSets.get(id) ?? {
    id,
    description: 'controllers',
    dynamic: true,
    names: [],
  };
  const members = toMemberSet([], addresses);
  const isSame =
    before.members !== undefined &&
    sameMembers(before.members.v4, members.v4) &&
    sameMembers(before.members.v6, members.v6);
  if (isSame) return state;
  const addressSets = new Map(state.addressSets);
  addressSets.set(id, { ...before, members });
  return {
    ...state,
    controllers: id,
    addressSets: new Map([...addressSets].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}
