import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import { diffMembers } from '../../lib/net/changed-singles.ts';
import { sameItems } from '../../lib/sharing/list-change.ts';

/**
 * Whether a state may deny what the state before did not. It may not if nothing but members of
 * AddressSets changed, and addresses were only added where Allow rules name them, or removed where
 * Drop and Reject rules of policies with Recheck do. So a new pod that a rule allows, the most
 * frequent change, costs nothing.
 */
export function mayDeny(before: NodeState, now: NodeState): boolean {
  if (!sameItems(before.rules, now.rules)) return true;
  const sameServices = [...now.serviceSets].every(([id, set]) => before.serviceSets.get(id) === set);
  const facts = ({ nodeAddresses, apiServerPorts, allNodes, controllers, controlPlane }: NodeState): string =>
    JSON.stringify([nodeAddresses, apiServerPorts, allNodes, controllers, controlPlane]);
  if (!sameServices || facts(before) !== facts(now)) return true;
  // Exemption and failsafe list allow.
  if (hasChanged(before.localPods, now.localPods, { mayGain: true, mayLose: false })) return true;
  const changed = [...now.addressSets].filter(([id, set]) => before.addressSets.get(id) !== set);
  if (changed.length === 0) return false;
  const uses = usesOf(now);
  return changed.some(([id, set]) => hasChanged(before.addressSets.get(id), set, uses(id)));
}

/** Which changes of a set cannot deny more. */
interface Harmless {
  readonly mayGain: boolean;
  readonly mayLose: boolean;
}

function usesOf({ rules, allNodes, controllers }: NodeState): (id: string) => Harmless {
  const gains = new Set<string>();
  const losses = new Set([allNodes, controllers]);
  for (const rule of rules) {
    for (const peer of rule.peers) {
      if (peer.kind !== 'addresses' || rule.mode === 'Audit') continue;
      // The baseline tier may deny packets that a Pass takes from the rules behind it.
      if (rule.action !== 'Allow') gains.add(peer.set);
      // A policy with Recheck may deny now packets that another policy denied before.
      const ends = rule.action === 'Drop' || rule.action === 'Reject';
      if (!ends || rule.source.established !== 'Recheck') losses.add(peer.set);
    }
  }
  return (id) => ({ mayGain: !gains.has(id), mayLose: !losses.has(id) });
}

function hasChanged(
  before: AddressSet | undefined,
  now: AddressSet | undefined,
  { mayGain, mayLose }: Harmless,
): boolean {
  if (before === now) return false;
  if (before === undefined || now === undefined) return true;
  return (['v4', 'v6'] as const).some((family) => {
    const [was, is] = [before.members[family], now.members[family]];
    if (was === is) return false;
    if (!sameItems(was.prefixes, is.prefixes)) return true;
    const { added, removed } = diffMembers(was, is);
    return (added.length > 0 && !mayGain) || (removed.length > 0 && !mayLose);
  });
}
