import { asFields, type FieldMap } from '../schema/json-schema.ts';
import { checkCidrs } from './ipblock.ts';
import type { Findings } from './problem.ts';

/** Checks of the configuration for egress gateways that the schema cannot express. */
export function checkEgressSettings(raw: FieldMap, found: Findings): void {
  const { inside, serviceCIDRs } = asFields(raw.egress) ?? {};
  checkCidrs(inside, ['egress', 'inside'], found);
  checkCidrs(serviceCIDRs, ['egress', 'serviceCIDRs'], found);
  if (asFields(raw.featureGates)?.EgressGateway === true && raw.dataplane === 'iptables') {
    found.error(['dataplane'], EGRESS_NEEDS_NFTABLES);
  }
}

/** The message for the dataplane that cannot steer packets. */
export const EGRESS_NEEDS_NFTABLES =
  'iptables has no egress gateways; set dataplane: nftables, or turn feature gate EgressGateway off';
