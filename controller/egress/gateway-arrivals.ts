import { isDeepStrictEqual } from 'node:util';
import { bucketsOf } from '../../apis/egress/messages.ts';
import type { EgressArrival, EgressTake, ServedClass } from '../../apis/egress/node-egress.ts';
import { FAMILIES, type Family } from '../../lib/net/address.ts';
import { BucketMap } from '../../lib/sharing/bucket-map.ts';
import { numbered } from './rendezvous.ts';
import { type Served, takeKey } from './route.ts';

/** An address of a pod whose class this gateway serves, or no longer serves (`class` null). */
export interface ServedSource {
  readonly address: string;
  readonly family: Family;
  /** The pod's node. */
  readonly node: string;
  readonly class: string | null;
}

type TakeList = EgressArrival['takes'];

const BUCKETS = bucketsOf('arrivals');

/** The pods and classes that one gateway node takes, over successive states. */
export class GatewayArrivals {
  /** By class. */
  readonly #served = new Map<string, readonly Served[]>();
  readonly #lists = new Map<string, Readonly<Record<Family, TakeList>>>();
  /** By takeKey. */
  #numbers: ReadonlyMap<string, number> = new Map();
  #isCrowded = false;
  #takes: ReadonlyMap<number, EgressTake> = new Map();
  /** By class. */
  #servedClasses: ReadonlyMap<string, ServedClass> = new Map();
  #arrivals: BucketMap<EgressArrival> = BucketMap.of(new Map<string, EgressArrival>(), BUCKETS);
  /** How many arrivals come from a node, and served classes may. */
  readonly #counts = new Map<string, number>();
  /** Null: a node is new or gone since. */
  #peers: ReadonlySet<string> | null = null;

  get takes(): ReadonlyMap<number, EgressTake> {
    return this.#takes;
  }

  get arrivals(): ReadonlyMap<string, EgressArrival> {
    return this.#arrivals;
  }

  get servedClasses(): ReadonlyMap<string, ServedClass> {
    return this.#servedClasses;
  }

  /** The nodes that pods come from, or may. */
  get peers(): ReadonlySet<string> {
    this.#peers ??= new Set(this.#counts.keys());
    return this.#peers;
  }

  /** Whether there are takes without a number. */
  get isCrowded(): boolean {
    return this.#isCrowded;
  }

  /** Undefined: no number is left for the take, and the gateway refuses its packets. */
  numberOf(take: EgressTake): number | undefined {
    return this.#numbers.get(takeKey(take));
  }

  /**
   * Changes what is taken from the pods of some classes; undefined: nothing. Returns the classes
   * whose sources need new arrivals.
   */
  changeClasses(changes: ReadonlyMap<string, readonly Served[] | undefined>): Set<string> {
    for (const [id, served] of changes) {
      if (served === undefined) this.#served.delete(id);
      else this.#served.set(id, served);
    }
    const takes = new Map<string, EgressTake>();
    for (const { take } of [...this.#served.values()].flat()) takes.set(takeKey(take), take);
    const before = this.#numbers;
    this.#numbers = numbered(takes.keys(), before);
    const isSame =
      before.size === this.#numbers.size && [...this.#numbers.keys()].every((key) => before.has(key));
    if (!isSame) {
      const entries = [...takes].flatMap(([key, take]) => {
        const number = this.#numbers.get(key);
        return number === undefined ? [] : [[number, take] as const];
      });
      this.#takes = new Map(entries.sort(([a], [b]) => a - b));
    }
    // A take that had no number may have one now.
    const stale = this.#isCrowded ? new Set(this.#served.keys()) : new Set<string>();
    this.#isCrowded = takes.size > this.#numbers.size;
    for (const id of changes.keys()) stale.add(id);
    for (const id of stale) this.#lists.delete(id);
    return stale;
  }

  /** Says again which nodes have pods of these classes. */
  changeNodes(ids: Iterable<string>, nodesOf: (id: string) => readonly string[]): void {
    let changed: Map<string, ServedClass> | null = null;
    for (const id of ids) {
      const before = this.#servedClasses.get(id);
      const now = this.#servedClass(id, nodesOf);
      if (isDeepStrictEqual(before, now)) continue;
      changed ??= new Map(this.#servedClasses);
      if (now === undefined) changed.delete(id);
      else changed.set(id, now);
      for (const node of now?.nodes ?? []) this.#count(node, 1);
      for (const node of before?.nodes ?? []) this.#count(node, -1);
    }
    this.#servedClasses = changed ?? this.#servedClasses;
  }

  #servedClass(id: string, nodesOf: (id: string) => readonly string[]): ServedClass | undefined {
    if (!this.#served.has(id)) return undefined;
    const { 4: ipv4, 6: ipv6 } = this.#takesOf(id);
    return { nodes: nodesOf(id), ipv4, ipv6 };
  }

  /**
   * Says again of which class these sources are, each named once.
   *
   * @param self the gateway's node, whose own pods do not come by the tunnel
   */
  change(sources: Iterable<ServedSource>, self: string): void {
    const removed: string[] = [];
    this.#arrivals = this.#arrivals.with(this.#changedArrivals(sources, self, removed), removed);
  }

  /** One by one; those that are gone are added to `removed`. */
  *#changedArrivals(
    sources: Iterable<ServedSource>,
    self: string,
    removed: string[],
  ): Iterable<readonly [address: string, arrival: EgressArrival]> {
    for (const { address, family, node, class: id } of sources) {
      const takes = id === null || node === self ? [] : this.#takesOf(id)[family];
      const before = this.#arrivals.get(address);
      if (before?.node === node && before.takes === takes && before.class === id) continue;
      if (before !== undefined) this.#count(before.node, -1);
      if (id === null || takes.length === 0) removed.push(address);
      else {
        this.#count(node, 1);
        yield [address, { node, takes, class: id }];
      }
    }
  }

  #takesOf(id: string): Readonly<Record<Family, TakeList>> {
    let lists = this.#lists.get(id);
    if (lists === undefined) {
      const [v4 = [], v6 = []] = FAMILIES.map((family) =>
        (this.#served.get(id) ?? []).flatMap((served): TakeList => {
          const number = served.family === family ? this.numberOf(served.take) : undefined;
          return number === undefined ? [] : [{ range: served.range, take: number }];
        }),
      );
      lists = { 4: v4, 6: v6 };
      this.#lists.set(id, lists);
    }
    return lists;
  }

  #count(node: string, by: 1 | -1): void {
    const before = this.#counts.get(node) ?? 0;
    if (before + by > 0) this.#counts.set(node, before + by);
    else this.#counts.delete(node);
    if (before === 0 || before + by === 0) this.#peers = null;
  }
}
