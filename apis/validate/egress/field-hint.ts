import type { FieldPath } from '../problem.ts';

/** Fields of other projects' egress objects, and what stands for them here. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  ippools: 'write addresses: {pools: [{ranges: […]}]}',
  clusterDefault: 'write default: true',
  egressGatewayName: 'write gateway: NAME',
  egressgateway: 'write gateway: NAME',
  destSubnet: 'write to: […]',
  destinationCIDRs: 'write to: […]',
  excludedCIDRs: 'write except: […]',
  egressIP: 'write address: {allocation: Fixed, ipv4: …}',
  egressIPs: 'write address: {allocation: Fixed, ipv4: …, ipv6: …}',
};

const APPLIED_TO: readonly string[] = ['podSelector', 'namespaceSelector', 'podSubnets'];

/** The message for an unknown field of an egress object; null: no special message. */
export function egressFieldHint(path: FieldPath): string | null {
  const field = String(path.at(-1));
  const isInSpec = path.length === 2 && path[0] === 'spec';
  if (isInSpec && Object.hasOwn(ELSEWHERE, field)) return `unknown field; ${ELSEWHERE[field]}`;
  if (isInSpec && field === 'podSubnet') {
    return 'unknown field; write appliedTo: [{podSubnets: […]}] in a ClusterEgressPolicy';
  }
  if (isInSpec && APPLIED_TO.includes(field)) return `unknown field; write appliedTo: [{${field}: …}]`;
  if (isInSpec && field === 'spec') return 'unknown field; does "spec" appear twice?';
  return null;
}
