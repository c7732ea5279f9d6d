import type { Config } from './config.ts';

/**
 * A test of the other end of a connection; the peers of one rule are OR-ed. The type parameters are
 * how it names sets and link groups: the sets by id, the groups as written in the policy.
 */
export type RulePeer<A = string, S = string, G = string | number> =
  | { readonly kind: 'any' }
  /** Sorted. The agent looks up the names. */
  | { readonly kind: 'interfaces'; readonly groups: readonly G[] }
  | { readonly kind: 'addresses'; readonly set: A }
  /** Egress: the address and port are those of a Service (`toServices`). */
  | { readonly kind: 'services'; readonly set: S };

interface WithPeers {
  readonly peers: readonly RulePeer[];
}

/** Whether the peers name protocols and ports themselves. */
export function namesPorts({ peers }: WithPeers): boolean {
  return peers.some(({ kind }) => kind === 'services');
}

/** The link groups, and the ids of sets, that the rules' peers name; repeated if several do. */
export function namedBy(rules: readonly WithPeers[]) {
  const addressSets: string[] = [];
  const interfaceGroups: (string | number)[] = [];
  const serviceSets: string[] = [];
  for (const { peers } of rules) {
    for (const peer of peers) {
      if (peer.kind === 'addresses') addressSets.push(peer.set);
      else if (peer.kind === 'interfaces') interfaceGroups.push(...peer.groups);
      else if (peer.kind === 'services') serviceSets.push(peer.set);
      else peer.kind satisfies 'any';
    }
  }
  return { addressSets, interfaceGroups, serviceSets };
}

/** Link groups are 32 bits wide (rtnetlink(7), IFLA_GROUP). */
export const LAST_LINK_GROUP = 2 ** 32 - 1;

/** The number of a link group; undefined if the configuration has no group of that name. */
export function groupNumber(
  group: string | number,
  { interfaceGroups }: Pick<Config, 'interfaceGroups'>,
): number | undefined {
  if (typeof group === 'number') return group;
  return Object.hasOwn(interfaceGroups, group) ? interfaceGroups[group] : undefined;
}
