import type { EgressGateway, EgressPolicy } from '../../egress/objects.ts';
import type { FieldPath } from '../problem.ts';

/** The fields of a gateway at which problems with other objects are reported. */
export function gatewayPaths({ apiGroup }: Pick<EgressGateway, 'apiGroup'>) {
  const isOurs = apiGroup === 'nodewall.io';
  return {
    ranges: isOurs ? ['spec', 'addresses'] : ['spec', 'ippools'],
    nodeSelector: isOurs ? ['spec', 'nodeSelector'] : ['spec', 'nodeSelector', 'selector'],
    default: isOurs ? ['spec', 'default'] : ['spec', 'clusterDefault'],
  } as const satisfies Record<string, FieldPath>;
}

/** The fields of a policy at which problems with other objects are reported. */
export function policyPaths({ apiGroup }: Pick<EgressPolicy, 'apiGroup'>) {
  const isOurs = apiGroup === 'nodewall.io';
  return {
    gateway: isOurs ? ['spec', 'gateway'] : ['spec', 'egressGatewayName'],
    address: isOurs ? ['spec', 'address'] : ['spec', 'egressIP'],
    to: isOurs ? ['spec', 'to'] : ['spec', 'destSubnet'],
  } as const satisfies Record<string, FieldPath>;
}

/** All of them, for the lines of a file. */
export function egressPaths(object: EgressGateway | EgressPolicy): readonly FieldPath[] {
  if (object.kind === 'EgressGateway') return Object.values(gatewayPaths(object));
  const { address, to, gateway } = policyPaths(object);
  const destinations = (object.spec.to ?? []).map((_, index) => [...to, index]);
  return [gateway, address, [...address, 'ipv4'], [...address, 'ipv6'], to, ...destinations];
}
