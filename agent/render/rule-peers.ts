import type { AddressSet, CompiledRule, NodeState, RulePeer, ServiceSet } from '../../apis/compiled.ts';

/** A peer of a rule, with the set that it names. */
export type FoundPeer =
  | Exclude<RulePeer, { readonly set: string }>
  | { readonly kind: 'addresses'; readonly set: AddressSet }
  | { readonly kind: 'services'; readonly set: ServiceSet };

/** Throws an Error if the state doesn't have a set. */
export function rulePeers(
  { peers }: CompiledRule,
  { addressSets, serviceSets }: Pick<NodeState, 'addressSets' | 'serviceSets'>,
): FoundPeer[] {
  return peers.map((peer) => {
    switch (peer.kind) {
      case 'any':
      case 'interfaces':
        return peer;
      case 'addresses':
        return { kind: peer.kind, set: held(addressSets, peer.set) };
      case 'services':
        return { kind: peer.kind, set: held(serviceSets, peer.set) };
      default:
        return peer satisfies never;
    }
  });
}

function held<T>(sets: ReadonlyMap<string, T>, id: string): T {
  const set = sets.get(id);
  if (set === undefined) throw new Error(`the state does not hold its set ${id}`);
  return set;
}
