import type { EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import { gatewayChooser } from '../gateways.ts';
import { HolderRecords } from '../holders.ts';
import { isInPool, toPool } from '../pool.ts';
import type { CheckObjects } from './incremental.ts';

/** An address and a policy that has it by the statuses. */
export interface UsedAddress {
  readonly address: string;
  readonly policy: EgressPolicy;
}

/**
 * The floating addresses that policies have, and that the gateway would not have any more. An
 * address that is only held back is nobody's.
 *
 * @param before one of the objects
 * @param now null: deleted
 */
export function lostAddresses(
  before: EgressGateway,
  now: EgressGateway | null,
  { egressGateways, egressPolicies, namespaces }: CheckObjects,
): UsedAddress[] {
  if (before.spec.source === 'Node') return [];
  const had = toPool(before.spec.ranges);
  const has = toPool(now?.spec.source === 'Floating' ? now.spec.ranges : []);
  const isLost = (address: string): boolean => isInPool(had, address) && !isInPool(has, address);
  const records = new HolderRecords(before.status);
  const choose = gatewayChooser(egressGateways);
  const labelsOf = new Map(namespaces.map(({ name, labels }) => [name, labels]));
  return egressPolicies.flatMap((policy) => {
    if (policy.spec.action !== 'Gateway' || policy.spec.mode === 'Audit') return [];
    const told = policy.status?.addresses ?? [];
    const own = [...new Set([...told, ...records.inUse(policy)])].filter(isLost);
    if (own.length === 0) return [];
    const { gateway, isAllowed } = choose(policy, labelsOf.get(policy.namespace) ?? {});
    return gateway === before && isAllowed ? own.map((address) => ({ address, policy })) : [];
  });
}

/** Policies that the gateway serves, and would not serve any more. */
export function lostPolicies(
  before: EgressGateway,
  now: EgressGateway | null,
  { egressGateways, egressPolicies, namespaces }: CheckObjects,
): EgressPolicy[] {
  const rest = egressGateways.filter((gateway) => gateway !== before);
  const choose = gatewayChooser(egressGateways);
  const chooseNow = gatewayChooser(now === null ? rest : [...rest, now]);
  const labelsOf = new Map(namespaces.map(({ name, labels }) => [name, labels]));
  return egressPolicies.filter((policy) => {
    if (policy.spec.action !== 'Gateway') return false;
    const labels = labelsOf.get(policy.namespace) ?? {};
    const had = choose(policy, labels);
    if (had.gateway !== before || !had.isAllowed) return false;
    const has = chooseNow(policy, labels);
    return has.gateway === null || !has.isAllowed;
  });
}
