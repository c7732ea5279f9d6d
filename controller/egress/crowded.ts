import type { NamespaceLimits } from '../../apis/egress/config.ts';
import type { DestinationRange } from '../../apis/egress/node-egress.ts';
import type { EgressPolicy } from '../../apis/egress/objects.ts';
import { BITS, FAMILIES } from '../../lib/net/address.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { addToList, compareText } from '../../lib/sharing/lists.ts';
import { type EgressDecision, egressPolicyKey, type FlatClass } from './class.ts';
import type { DestinationIntervals } from './destinations.ts';

/** The most destinations of a namespace's classes, for each network that it may have. */
const DESTINATIONS = 64;

/** The class of sources with these policies, in their order. */
interface PolicyClass {
  readonly id: string;
  readonly policies: readonly EgressPolicy[];
}

/**
 * The classes for which their namespace has no room, with the namespace. A pod for each set of
 * policies would make a class of each; the ones with the fewest destinations stay. Does not flatten
 * them.
 */
export function crowdedClasses<C extends PolicyClass>(
  classes: Iterable<C>,
  { networks }: NamespaceLimits,
  destinations: (policy: EgressPolicy) => DestinationIntervals,
): ReadonlyMap<C, string> {
  const found = new Map<C, string>();
  const byNamespace = new Map<string, { used: C; weight: number }[]>();
  for (const used of classes) {
    const namespace = ownPolicy(used)?.namespace;
    if (namespace === undefined) continue;
    const weight = used.policies.reduce((sum, policy) => {
      const { 4: v4, 6: v6 } = destinations(policy);
      return sum + v4.length + v6.length;
    }, 0);
    addToList(byNamespace, namespace, { used, weight });
  }
  for (const [namespace, list] of byNamespace) {
    let room = DESTINATIONS * networks;
    if (list.reduce((sum, { weight }) => sum + weight, 0) <= room) continue;
    list.sort((a, b) => a.weight - b.weight || compareText(a.used.id, b.used.id));
    for (const { used, weight } of list) {
      room -= weight;
      if (room < 0) found.set(used, namespace);
    }
  }
  return found;
}

/** Instead of a class for which its namespace has no room: everything outside is dropped. */
export function crowdedClass(used: PolicyClass): FlatClass {
  const policy = ownPolicy(used) ?? null;
  const key = policy === null ? '' : egressPolicyKey(policy);
  const decisions = FAMILIES.map((family): EgressDecision => {
    const id = shortHash(12, `crowded ${family} ${used.id}`);
    return { id, family, key, policy, audited: [], isCrowded: true };
  });
  const [ipv4 = [], ipv6 = []] = decisions.map(({ id, family }): DestinationRange[] => [
    { range: { first: 0n, last: (1n << BigInt(BITS[family])) - 1n }, outcome: id },
  ]);
  return { class: { id: used.id, ipv4, ipv6 }, decisions };
}

/** Pods are of one namespace, and so are the EgressPolicies that select them. */
function ownPolicy({ policies }: PolicyClass): EgressPolicy | undefined {
  return policies.find(({ kind }) => kind === 'EgressPolicy');
}
