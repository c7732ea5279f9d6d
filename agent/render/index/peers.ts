import type { ServiceSet } from '../../../apis/compiled.ts';
import { toMemberSet } from '../../../lib/net/member-set.ts';
import type { ResolvedPeer } from '../rule-peers.ts';
import type { Peers } from './match-entry.ts';

/** The addresses a rule applies to; null if other addresses may match too. */
export function peersOf([only, ...others]: readonly ResolvedPeer[]): Peers | null {
  if (only === undefined || others.length > 0) return null;
  switch (only.kind) {
    case 'any':
    case 'interfaces':
      return null;
    case 'addresses':
      return { key: only.set.id, members: only.set.members };
    case 'services':
      return servicePeers(only.set);
  }
}

const known = new WeakMap<ServiceSet, Peers>();

/** The addresses of the Services, whatever the port. */
function servicePeers(set: ServiceSet): Peers {
  let peers = known.get(set);
  if (peers === undefined) {
    const addresses = new Set(set.members.map(({ address }) => address));
    peers = { key: `services ${set.id}`, members: toMemberSet([], addresses) };
    known.set(set, peers);
  }
  return peers;
}
