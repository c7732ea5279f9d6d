import { familyOf } from '../../lib/net/address.ts';
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
   * @param gatewaysOf the gateways that serve a class
   */
  advance(
    { sources, pods }: Pick<CompiledEgress, 'sources' | 'pods'>,
    served: ChangedClasses,
    gatewaysOf: (id: string) => Iterable<string> | undefined,
  ): Set<string> {
    const moved = this.#members.advance(sources);
    /** By gateway: the classes whose nodes it gets again. */
    const stale = new Map<string, Set<string>>();
    for (const id of this.#nodes.advance(pods))
      for (const gateway of gatewaysOf(id) ?? []) addTo(stale, gateway, [id]);
    const changes = new Map<string, Map<string, ServedSource>>();
    const note = (gateway: string, source: ServedSource): void => {
      const ofGateway = changes.get(gateway) ?? new Map<string, ServedSource>();
      // The gateway's own pods do not come by the tunnel.
      const taken = source.node === gateway ? { ...source, class: null } : source;
      changes.set(gateway, ofGateway.set(source.address, taken));
    };
    for (const [gateway, classes] of served) {
      const there = this.#gateways.get(gateway) ?? new GatewayArrivals();
      this.#gateways.set(gateway, there);
      if (!changes.has(gateway)) changes.set(gateway, new Map());
      const staleClasses = there.changeClasses(classes);
      addTo(stale, gateway, staleClasses);
      for (const id of staleClasses) {
        for (const [address, node] of this.#members.of(id)) {
          note(gateway, { address, family: familyOf(address), node, class: id });
        }
      }
    }
    for (const source of moved) {
      if (source.wasServed) {
        for (const [gateway, { arrivals }] of this.#gateways)
          if (arrivals.has(source.address)) note(gateway, { ...source, class: null });
      }
      const gateways = source.class === null ? [] : gatewaysOf(source.class);
      for (const gateway of gateways ?? []) note(gateway, source);
    }
    for (const [gateway, sources] of changes) this.#gateways.get(gateway)?.change(sources.values());
    for (const [gateway, ids] of stale) {
      const nodesOf = (id: string) => this.#nodes.of(id).filter((node) => node !== gateway);
      this.#gateways.get(gateway)?.changeNodes(ids, nodesOf);
    }
    return new Set([...changes.keys(), ...stale.keys()]);
  }
}

function addTo(sets: Map<string, Set<string>>, key: string, ids: Iterable<string>): void {
  const set = sets.get(key) ?? new Set();
  sets.set(key, set);
  for (const id of ids) set.add(id);
}
