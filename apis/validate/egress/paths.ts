import type { EgressGateway, EgressPolicy } from '../../egress/objects.ts';
import type { FieldPath } from '../problem.ts';

/** The fields of a gateway at which problems with other objects are reported. */
export const GATEWAY_PATHS = {
  ranges: ['spec', 'addresses'],
  nodeSelector: ['spec', 'nodeSelector'],
  default: ['spec', 'default'],
} as const satisfies Record<string, FieldPath>;

/** The fields of a policy at which problems with other objects are reported. */
export const POLICY_PATHS = {
  gateway: ['spec', 'gateway'],
  address: ['spec', 'address'],
  to: ['spec', 'to'],
} as const satisfies Record<string, FieldPath>;

/** All of them, for the lines of a file. */
export function egressPaths(object: EgressGateway | EgressPolicy): readonly FieldPath[] {
  if (object.kind === 'EgressGateway') return Object.values(GATEWAY_PATHS);
  const { address, to, gateway } = POLICY_PATHS;
  const destinations = (object.spec.to ?? []).map((_, index) => [...to, index]);
  return [gateway, address, [...address, 'ipv4'], [...address, 'ipv6'], to, ...destinations];
}
