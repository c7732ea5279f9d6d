import type { ClusterObject } from '../../objects.ts';
import type { FieldMap } from '../../schema/json-schema.ts';
import type { Findings } from '../problem.ts';
import { validateEgressGateway } from './gateway.ts';
import { validateIpPool, validateServiceCidr } from './inside-networks.ts';
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
