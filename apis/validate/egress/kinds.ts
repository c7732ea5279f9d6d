import type { EgressGateway, EgressPolicy, InsideNetworks } from '../../egress/objects.ts';
import type { ClusterObject } from '../../objects.ts';
import type { FieldMap } from '../../schema/json-schema.ts';
import { canonicalCidr, checkCidr } from '../ipblock.ts';
import { fieldsAt, listAt, readMetadata, unique } from '../metadata.ts';
import { isSubdomain } from '../names.ts';
import { type FieldPath, type Findings, hasError, show } from '../problem.ts';
import { validateEgressGateway } from './gateway.ts';
import { validateEgressPolicy } from './policy.ts';

/** The kinds of nodewall.io for egress gateways. */
export const EGRESS_KINDS: readonly string[] = ['EgressGateway', 'EgressPolicy', 'ClusterEgressPolicy'];

/** Validates an object of EGRESS_KINDS; its apiVersion was checked. */
export function validateEgressKind(raw: FieldMap, found: Findings): ClusterObject | null {
  switch (raw.kind) {
    case 'EgressGateway':
      return validateEgressGateway(raw, found);
    case 'EgressPolicy':
    case 'ClusterEgressPolicy':
      return validateEgressPolicy(raw, raw.kind, found);
    default:
      return null;
  }
}

/**
 * Validates networks inside the cluster that other API groups describe; null: it is none of them.
 */
export function validateInsideNetworks(raw: FieldMap, found: Findings): ClusterObject | null {
  switch (`${raw.apiVersion} ${raw.kind}`) {
    case 'networking.k8s.io/v1 ServiceCIDR':
    case 'networking.k8s.io/v1beta1 ServiceCIDR':
      return validateServiceCidr(raw, found);
    case 'crd.projectcalico.org/v1 IPPool':
    case 'projectcalico.org/v3 IPPool':
      return validateIpPool(raw, found);
    default:
      return null;
  }
}

/** A ServiceCIDR of Kubernetes: networks of which Services have addresses. */
function validateServiceCidr(raw: FieldMap, found: Findings): InsideNetworks | null {
  const path = ['spec', 'cidrs'];
  const cidrs = listAt(raw, path, found).map((text, index) => ({ text, path: [...path, index] }));
  return toNetworks('ServiceCIDR', raw, cidrs, found);
}

/** An IPPool of Calico: a network of which pods have addresses, a disabled one too. */
function validateIpPool(raw: FieldMap, found: Findings): InsideNetworks | null {
  const { cidr } = fieldsAt(raw, ['spec'], found);
  return toNetworks('IPPool', raw, [{ text: cidr, path: ['spec', 'cidr'] }], found);
}

function toNetworks(
  kind: InsideNetworks['kind'],
  raw: FieldMap,
  cidrs: readonly { readonly text: unknown; readonly path: FieldPath }[],
  found: Findings,
): InsideNetworks | null {
  const { name } = readMetadata(raw, isSubdomain, found);
  for (const { text, path } of cidrs) {
    if (typeof text === 'string') checkCidr(text, path, found);
    else found.error(path, text === undefined ? 'is missing' : `must be a CIDR, not ${show(text)}`);
  }
  if (hasError(found.problems)) return null;
  return { kind, name, cidrs: unique(cidrs.map(({ text }) => canonicalCidr(String(text)))) };
}

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
