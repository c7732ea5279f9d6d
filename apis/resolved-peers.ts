import {
  type AddressSet,
  type CompiledRule,
  groupNumber,
  type NodeState,
  type RulePeer,
  type ServiceSet,
} from './compiled.ts';
import type { Config } from './config.ts';

/** A rule's peer with the sets, and the numbers of link groups, that it names. */
export type ResolvedPeer = RulePeer<AddressSet, ServiceSet, number>;

/**
 * Throws an Error if the state doesn't have a set, or the configuration a link group, or if the
 * rule has what only newer versions know.
 */
export function resolvedPeers(
  { peers, unsupported }: CompiledRule,
  { addressSets, serviceSets }: Pick<NodeState, 'addressSets' | 'serviceSets'>,
  config: Pick<Config, 'interfaceGroups'>,
): ResolvedPeer[] {
  if (unsupported !== undefined) {
    throw tooNew(unsupported);
  }
  return peers.map((peer) => {
    if (peer.kind === 'addresses') return { kind: peer.kind, set: held(addressSets, peer.set) };
    if (peer.kind === 'services') return { kind: peer.kind, set: held(serviceSets, peer.set) };
    if (peer.kind === 'any') return peer;
    return { kind: peer.kind, groups: peer.groups.map((group) => knownGroup(group, config)) };
  });
}

function held<T extends AddressSet | ServiceSet>(sets: ReadonlyMap<string, T>, id: string): T {
  const set = sets.get(id);
  if (set === undefined) throw new Error(`the node's state does not contain its set ${id}`);
  if (set.unknown !== undefined)
    throw tooNew(Object.keys(set.unknown).map((field) => `field ${JSON.stringify(field)} of set ${id}`));
  return set;
}

function tooNew(unknown: readonly string[]): Error {
  return new Error(`the rule needs a newer agent: this version does not know its ${unknown.join(', ')}`);
}

function knownGroup(group: string | number, config: Pick<Config, 'interfaceGroups'>): number {
  const number = groupNumber(group, config);
  if (number !== undefined) return number;
  const known = Object.keys(config.interfaceGroups).join(', ');
  throw new Error(`no interface group ${JSON.stringify(group)} in the configuration; known: ${known}`);
}
