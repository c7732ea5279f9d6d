import { BY_ADDRESS } from '../../apis/egress/node-egress.ts';
import { familyOf } from '../../lib/net/address.ts';
import { changedIds } from '../../lib/sharing/changed-map.ts';
import { addToList, compareText } from '../../lib/sharing/lists.ts';
import type { Stepwise } from '../../lib/sharing/stepwise.ts';
import type { CompiledEgress } from './compile-egress.ts';
import { GatewayArrivals, type ServedSource } from './gateway-arrivals.ts';
import type { Served } from './route.ts';

/** By gateway node and class; undefined: no longer served. */
export type ChangedClasses = ReadonlyMap<string, ReadonlyMap<string, readonly Served[] | undefined>>;

/** The gateways that serve a class, as keys; undefined: none. */
type GatewaysOf = (id: string) => ReadonlyMap<string, unknown> | undefined;

interface ServedNow {
  readonly served: ChangedClasses;
  readonly gatewaysOf: GatewaysOf;
  /** By gateway: the classes of which it gets all sources again. */
  readonly whole: ReadonlyMap<string, ReadonlySet<string>>;
}

/** Finds the share of each gateway node, over successive states. */
export class Gateways {
  readonly #members = new ClassMembers();
  readonly #nodes = new ClassNodes();
  readonly #gateways = new Map<string, GatewayArrivals>();

  get(node: string): GatewayArrivals | undefined {
    return this.#gateways.get(node);
  }

  /** Returns the nodes that take something else, or from others, than before. */
  *advance(
    { sources, pods }: Pick<CompiledEgress, 'sources' | 'pods'>,
    served: ChangedClasses,
    gatewaysOf: GatewaysOf,
  ): Stepwise<Set<string>> {
    const moved = this.#members.advance(sources);
    yield;
    /** By gateway: the classes whose nodes it gets again. */
    const stale = new Map<string, Set<string>>();
    for (const id of this.#nodes.advance(pods))
      for (const gateway of gatewaysOf(id)?.keys() ?? []) addTo(stale, gateway, [id]);
    /** By gateway: the classes of which it gets all sources again. */
    const whole = new Map<string, ReadonlySet<string>>();
    for (const [gateway, classes] of served) {
      yield;
      const there = this.#gateways.get(gateway) ?? new GatewayArrivals();
      this.#gateways.set(gateway, there);
      const staleClasses = there.changeClasses(classes);
      whole.set(gateway, staleClasses);
      addTo(stale, gateway, staleClasses);
    }
    const single = this.#singleChanges(moved, { served, gatewaysOf, whole });
    const changed = new Set([...whole.keys(), ...single.keys()]);
    for (const gateway of changed) {
      yield;
      const sources = this.#sourcesOf(whole.get(gateway) ?? [], single.get(gateway) ?? []);
      this.#gateways.get(gateway)?.change(sources, gateway);
    }
    // The gateways of a class share the list of its nodes, but for one of these nodes.
    const nodesOfAll = new Map<string, readonly string[]>();
    for (const [gateway, ids] of stale) {
      yield;
      this.#gateways.get(gateway)?.changeNodes(ids, (id) => {
        const nodes = nodesOfAll.get(id) ?? this.#nodes.of(id);
        nodesOfAll.set(id, nodes);
        return nodes.includes(gateway) ? nodes.filter((node) => node !== gateway) : nodes;
      });
    }
    return new Set([...changed, ...stale.keys()]);
  }

  /** By gateway: moved sources that are in no class of which it gets all again. */
  #singleChanges(
    moved: readonly MovedSource[],
    { served, gatewaysOf, whole }: ServedNow,
  ): Map<string, ServedSource[]> {
    const changes = new Map<string, ServedSource[]>();
    const isWhole = (gateway: string, id: string | null): boolean =>
      id !== null && whole.get(gateway)?.has(id) === true;
    /** By class. */
    const gatewaysOfOne = new Map<string, readonly string[]>();
    for (const source of moved) {
      const { address, class: id, was } = source;
      if (was !== null) {
        const now = id === null ? undefined : gatewaysOf(id);
        for (const gateway of servedBefore(was, served, gatewaysOf(was))) {
          if (now?.has(gateway) || isWhole(gateway, id)) continue;
          if (this.#gateways.get(gateway)?.arrivals.has(address))
            addToList(changes, gateway, { ...source, class: null });
        }
      }
      if (id === null) continue;
      let gateways = gatewaysOfOne.get(id);
      if (gateways === undefined) {
        gateways = [...(gatewaysOf(id)?.keys() ?? [])].filter((gateway) => !isWhole(gateway, id));
        gatewaysOfOne.set(id, gateways);
      }
      for (const gateway of gateways) addToList(changes, gateway, source);
    }
    return changes;
  }

  /** One by one: of a gateway with 100,000 pods they need not be in memory. */
  *#sourcesOf(classes: Iterable<string>, others: readonly ServedSource[]): Iterable<ServedSource> {
    for (const id of classes) {
      for (const [address, node] of this.#members.of(id))
        yield { address, family: familyOf(address), node, class: id };
    }
    yield* others;
  }
}

/** The gateways that may have served the class before the changes. */
function* servedBefore(
  id: string,
  changes: ChangedClasses,
  now: ReadonlyMap<string, unknown> | undefined,
): Iterable<string> {
  yield* now?.keys() ?? [];
  for (const [gateway, classes] of changes)
    if (classes.has(id) && classes.get(id) === undefined) yield gateway;
}

function addTo(sets: Map<string, Set<string>>, key: string, ids: Iterable<string>): void {
  const set = sets.get(key) ?? new Set();
  sets.set(key, set);
  for (const id of ids) set.add(id);
}

/** A source that is new, gone or has another class or node. */
interface MovedSource extends ServedSource {
  /** Its class before; null: none. */
  readonly was: string | null;
}

const NONE: ReadonlyMap<string, string | null> = new Map();

/** The sources of each class, over successive states. */
class ClassMembers {
  #sources: CompiledEgress['sources'] = new Map();
  /** By class: addresses and their nodes. */
  readonly #members = new Map<string, Map<string, string>>();

  of(id: string): Iterable<readonly [address: string, node: string]> {
    return this.#members.get(id) ?? [];
  }

  advance(sources: CompiledEgress['sources']): MovedSource[] {
    const there: MovedSource[] = [];
    const left = new Set<string>();
    const gone = new Map<string, MovedSource>();
    for (const node of changedIds(this.#sources, sources)) {
      const [before, now] = [this.#sources.get(node) ?? NONE, sources.get(node) ?? NONE];
      for (const address of changedIds(before, now)) {
        const was = before.get(address) ?? null;
        if (was !== null) {
          this.#members.get(was)?.delete(address);
          left.add(was);
        }
        const is = now.get(address);
        const source = { address, family: familyOf(address), node, class: is ?? null, was };
        if (is === undefined) gone.set(address, source);
        else there.push(source);
      }
    }
    const moved = gone.size === 0 ? there : joined(there, gone);
    for (const { address, node, class: id } of moved) {
      if (id === null) continue;
      const members = this.#members.get(id);
      if (members === undefined) this.#members.set(id, new Map([[address, node]]));
      else members.set(address, node);
    }
    for (const id of left) if (this.#members.get(id)?.size === 0) this.#members.delete(id);
    this.#sources = sources;
    return moved;
  }
}

/** An address that moved to another node is in the lists of both: that where it is counts. */
function joined(there: readonly MovedSource[], gone: Map<string, MovedSource>): MovedSource[] {
  const moved = there.map((source) => {
    const before = gone.get(source.address);
    gone.delete(source.address);
    return before === undefined ? source : { ...source, was: before.was };
  });
  return [...moved, ...gone.values()];
}

/** The nodes that have pods of each class, over successive states. */
class ClassNodes {
  #pods: CompiledEgress['pods'] = new Map();
  /** By class and node: how many pods. */
  readonly #counts = new Map<string, Map<string, number>>();

  /** Sorted by name. */
  of(id: string): string[] {
    return [...(this.#counts.get(id)?.keys() ?? [])].sort(compareText);
  }

  /** Returns the classes that have other nodes than before. */
  advance(pods: CompiledEgress['pods']): Set<string> {
    const changed = new Set<string>();
    for (const node of changedIds(this.#pods, pods)) {
      const [was, is] = [this.#pods.get(node) ?? NONE, pods.get(node) ?? NONE];
      for (const key of changedIds(was, is)) {
        this.#count(was.get(key), node, -1, changed);
        this.#count(is.get(key), node, 1, changed);
      }
    }
    this.#pods = pods;
    return changed;
  }

  #count(id: string | null | undefined, node: string, by: 1 | -1, changed: Set<string>): void {
    if (id === undefined || id === null || id === BY_ADDRESS) return;
    const counts = this.#counts.get(id) ?? new Map<string, number>();
    this.#counts.set(id, counts);
    const before = counts.get(node) ?? 0;
    if (before + by > 0) counts.set(node, before + by);
    else counts.delete(node);
    if (counts.size === 0) this.#counts.delete(id);
    if (before === 0 || before + by === 0) changed.add(id);
  }
}
