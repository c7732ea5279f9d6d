import { leaseName } from '../../apis/egress/lease.ts';
import {
  type DestinationRange,
  type EgressDropReason,
  type EgressTake,
  slotKey,
} from '../../apis/egress/node-egress.ts';
import { FAMILIES, type Family } from '../../lib/net/address.ts';
import type { EgressPath } from './allocation.ts';
import type { EgressDecision } from './class.ts';
import type { CompiledEgress } from './compile-egress.ts';

/** A gateway node that takes packets, and how it translates them. */
export interface Hop {
  /** The way to the node; connections follow it where it moves to another node. */
  readonly slot: string;
  readonly node: string;
  readonly take: EgressTake;
  /** As in EgressSlot. */
  readonly floating?: string;
}

/** The meaning of a decision, on every node alike. */
export type EgressRoute =
  | { readonly kind: 'pass' }
  | { readonly kind: 'direct' }
  | { readonly kind: 'drop'; readonly reason: EgressDropReason | 'policy' }
  | {
      readonly kind: 'hops';
      readonly hops: readonly Hop[];
      /** In the place of `hops`, in order, where a node does not reach them. */
      readonly reserve: readonly Hop[];
      /** The fate of packets where no gateway is reached. */
      readonly otherwise: 'Drop' | 'Direct';
    };

export function routeOf(
  { policy, key, family, isCrowded, isStray }: EgressDecision,
  ways: CompiledEgress['ways'],
): EgressRoute {
  if (isCrowded) return { kind: 'drop', reason: 'no-route' };
  if (policy === null) return { kind: 'pass' };
  const { action, whenUnavailable } = policy.spec;
  if (action === 'Direct') return { kind: 'direct' };
  if (action === 'Drop') return { kind: 'drop', reason: 'policy' };
  const way = ways.get(key);
  const path: EgressPath = way?.paths[family] ?? { kind: 'unavailable', reason: 'no-gateway' };
  // Answers to what a gateway serves go to the pod's node: no pod may claim an address outside.
  if (isStray && path.kind !== 'unavailable')
    return whenUnavailable === 'Direct' ? { kind: 'direct' } : { kind: 'drop', reason: 'no-route' };
  switch (path.kind) {
    case 'unavailable':
      return whenUnavailable === 'Direct' ? { kind: 'direct' } : { kind: 'drop', reason: path.reason };
    case 'node': {
      const take = { kind: 'node', interface: path.interface } as const;
      const toHop = ({ name }: { readonly name: string }): Hop => ({
        slot: `node ${name}`,
        node: name,
        take,
      });
      return {
        kind: 'hops',
        hops: path.nodes.map(toHop),
        reserve: path.reserve.map(toHop),
        otherwise: whenUnavailable,
      };
    }
    case 'floating': {
      const gateway = `${way?.gateway?.apiGroup}/${way?.gateway?.name}`;
      // All of the node's addresses: a packet does not say which of its slots it came by.
      const onNode = (node: string, of: Family): readonly string[] => {
        const own = way?.paths[of];
        return own?.kind === 'floating'
          ? own.parts.filter((part) => part.node === node).flatMap((part) => part.addresses)
          : [];
      };
      const floating = (slot: string) =>
        way?.gateway ? { floating: slotKey({ slot, gateway: leaseName(way.gateway) }) } : {};
      const hops = path.parts.map(({ slot, node }): Hop => {
        const take = { kind: 'floating', ipv4: onNode(node, 4), ipv6: onNode(node, 6) } as const;
        return { slot: `slot ${slot} ${gateway}`, node, take, ...floating(slot) };
      });
      return { kind: 'hops', hops, reserve: [], otherwise: 'Drop' };
    }
  }
}

/** All nodes that may take packets of the route. */
export function hopsOf(route: EgressRoute): readonly Hop[] {
  return route.kind === 'hops' ? [...route.hops, ...route.reserve] : [];
}

/** Equal takes have equal keys. */
export function takeKey(take: EgressTake): string {
  return take.kind === 'node' ? `node ${take.interface ?? ''}` : [...take.ipv4, ...take.ipv6].join();
}

/** Destinations that one gateway node takes from the pods of a class. */
export interface Served {
  readonly family: Family;
  readonly range: DestinationRange['range'];
  readonly take: EgressTake;
}

/**
 * By gateway node: what it takes from the pods of a class; adjacent destinations of a take are one.
 */
export function servedBy(
  { ipv4, ipv6 }: { readonly ipv4: readonly DestinationRange[]; readonly ipv6: readonly DestinationRange[] },
  routes: ReadonlyMap<string, { readonly route: EgressRoute }>,
): Map<string, Served[]> {
  const found = new Map<string, Served[]>();
  for (const family of FAMILIES) {
    for (const { range, outcome } of family === 4 ? ipv4 : ipv6) {
      const route = routes.get(outcome)?.route;
      for (const { node, take } of route === undefined ? [] : hopsOf(route)) {
        const list = found.get(node) ?? [];
        found.set(node, list);
        const last = list.at(-1);
        // Another slot of the same node, which takes them alike.
        if (last?.family === family && last.range.last >= range.last) continue;
        const joins =
          last?.family === family &&
          last.range.last + 1n === range.first &&
          takeKey(last.take) === takeKey(take);
        if (joins) list[list.length - 1] = { ...last, range: { first: last.range.first, last: range.last } };
        else list.push({ family, range, take });
      }
    }
  }
  return found;
}
