import type { FieldPath } from '../../validate/problem.ts';

/** Fields that another version has, or nodewall's own kinds. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'spec.destCIDR': 'a field of v1; here it is destSubnet',
  'spec.gatewayNodeConfig': 'a field of v1; here addresses are in egressIP',
  'spec.appliedTo.podSelector.ipv4PodSubnet': 'a field of v1; write podSubnet: […] beside podSelector',
  'spec.appliedTo.podSelector.ipv6PodSubnet': 'a field of v1; write podSubnet: […] beside podSelector',
  'spec.appliedTo.podSubnets': 'unknown field; write podSubnet: […]',
  'spec.nodeSelector.matchLabels': 'a field of v1; write selector: {matchLabels: …}',
  'spec.nodeSelector.matchExpressions': 'a field of v1; write selector: {matchExpressions: …}',
  'spec.addresses': 'unknown field; write ippools: {ipv4: […], ipv6: […]}',
  'spec.default': 'unknown field; write clusterDefault: true',
  'spec.gateway': 'unknown field; write egressGatewayName: NAME',
  'spec.to': 'unknown field; write destSubnet: […]',
  'spec.address': 'unknown field; write egressIP: {ipv4: …}',
};

/** The message for an unknown field; null: no special message. */
export function spidernetFieldHint(path: FieldPath): string | null {
  const place = path.join('.');
  return Object.hasOwn(ELSEWHERE, place) ? (ELSEWHERE[place] ?? null) : null;
}
