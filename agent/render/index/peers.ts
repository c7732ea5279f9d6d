import type { ServiceSet } from '../../../apis/compiled.ts';
import type { ResolvedPeer } from '../../../apis/resolved-peers.ts';
import { toMemberSet } from '../../../lib/net/member-set.ts';
import type { Peers } from './match-entry.ts';

/** The addresses a rule applies to; null if other addresses may match too. */
export function peersOf(
  [only, ...others]: readonly ResolvedPeer[],
  ofServices: (set: ServiceSet) => Peers,
): Peers | null {
  if (only === undefined || others.length > 0) return null;
  switch (only.kind) {
    case 'any':
    case 'interfaces':
      return null;
    case 'addresses':
      return { key: only.set.id, members: only.set.members };
    case 'services':
      return ofServices(only.set);
  }
}

/** The addresses of the Services, whatever the port. */
export function servicePeers({ id, members }: ServiceSet): Peers {
  const addresses = new Set(members.map(({ address }) => address));
  return { key: `services ${id}`, members: toMemberSet([], addresses) };
}
