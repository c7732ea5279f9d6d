import { familyOf } from '../../lib/net/address.ts';
import { addToList } from '../../lib/sharing/list-map.ts';
import { ClassMembers } from './class-members.ts';
import { ClassNodes } from './class-nodes.ts';
import type { CompiledEgress } from './compile-egress.ts';
import { GatewayArrivals, type ServedSource } from './gateway-arrivals.ts';
import type { Served } from './route.ts';

/** By gateway node and class; undefined: no longer served. */
export type ChangedClasses = ReadonlyMap<string, ReadonlyMap<string, readonly Served[] | undefined>>;

/** What each gateway node takes, over successive states. */
export class Gateways {
  readonly #members = new ClassMembers();
  readonly #nodes = new ClassNodes();
  readonly #gateways = new Map<string, GatewayArrivals>();

  get(node: string): GatewayArrivals | undefined {
    return this.#gateways.get(node);
  }

  /**
   * Returns the nodes that take something else, or from others, than before.
   * @param gatewaysOf the gateways that serve a class, as keys
   */
  advance(
    { sources, pods }: Pick<CompiledEgress, 'sources' | 'pods'>,
    served: ChangedClasses,
    gatewaysOf: (id: string) => ReadonlyMap<string, unknown> | undefined,
  ): Set<string> {
    const moved = this.#members.advance(sources);
    /** By gateway: the classes whose nodes it gets again. */
    const stale = new Map<string, Set<string>>();
    for (const id of this.#nodes.advance(pods))
      for (const gateway of gatewaysOf(id)?.keys() ?? []) addTo(stale, gateway, [id]);
    const changes = new Map<string, ServedSource[]>();
    const note = (gateway: string, source: ServedSource): void => {
      // The gateway's own pods do not come by the tunnel.
      const taken = source.node === gateway ? { ...source, class: null } : source;
      addToList(changes, gateway, taken);
    };
    /** By gateway: the classes whose sources it gets again. */
    const whole = new Map<string, ReadonlySet<string>>();
    for (const [gateway, classes] of served) {
      const there = this.#gateways.get(gateway) ?? new GatewayArrivals();
      this.#gateways.set(gateway, there);
      if (!changes.has(gateway)) changes.set(gateway, []);
      const staleClasses = there.changeClasses(classes);
      whole.set(gateway, staleClasses);
      addTo(stale, gateway, staleClasses);
      for (const id of staleClasses) {
        for (const [address, node] of this.#members.of(id))
          note(gateway, { address, family: familyOf(address), node, class: id });
      }
    }
    for (const source of moved) {
      const { address, class: id, was } = source;
      const now = id === null ? undefined : gatewaysOf(id);
      const isNoted = (gateway: string): boolean => id !== null && whole.get(gateway)?.has(id) === true;
      for (const gateway of was === null ? [] : servedBefore(was, served, gatewaysOf(was))) {
        const isHere = this.#gateways.get(gateway)?.arrivals.has(address);
        if (isHere && !now?.has(gateway) && !isNoted(gateway)) note(gateway, { ...source, class: null });
      }
      for (const gateway of now?.keys() ?? []) if (!isNoted(gateway)) note(gateway, source);
    }
    for (const [gateway, sources] of changes) this.#gateways.get(gateway)?.change(sources);
    for (const [gateway, ids] of stale) {
      const nodesOf = (id: string) => this.#nodes.of(id).filter((node) => node !== gateway);
      this.#gateways.get(gateway)?.changeNodes(ids, nodesOf);
    }
    return new Set([...changes.keys(), ...stale.keys()]);
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
