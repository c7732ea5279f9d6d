import { asFields, asList, type FieldMap } from '../schema/json-schema.ts';
import { checkCidrs } from './ipblock.ts';
import { suggestion } from './nearest.ts';
import { type Findings, show } from './problem.ts';

/** The API groups that `egress.read` may name. */
const READABLE: readonly string[] = ['egressgateway.spidernet.io'];

const NOT_READ: Readonly<Record<string, string>> = {
  'nodewall.io': "is nodewall's own group, which is always read; leave it out",
  'crd.antrea.io':
    'is not read yet: neither Egress nor ExternalIPPool is built; write an EgressGateway and EgressPolicies of nodewall.io/v1alpha1 instead',
};

/** Checks of the configuration for egress gateways that the schema cannot express. */
export function checkEgressSettings(raw: FieldMap, found: Findings): void {
  const { inside, serviceCIDRs, read } = asFields(raw.egress) ?? {};
  checkCidrs(inside, ['egress', 'inside'], found);
  checkCidrs(serviceCIDRs, ['egress', 'serviceCIDRs'], found);
  for (const [index, group] of asList(read).entries()) {
    if (typeof group !== 'string' || READABLE.includes(group)) continue;
    const reason = Object.hasOwn(NOT_READ, group) ? NOT_READ[group] : unknownGroup(group);
    found.error(['egress', 'read', index], `${show(group)} ${reason}`);
  }
  if (asFields(raw.featureGates)?.EgressGateway === true && raw.dataplane === 'iptables') {
    found.error(['dataplane'], EGRESS_NEEDS_NFTABLES);
  }
}

/** The message for the dataplane that cannot steer packets. */
export const EGRESS_NEEDS_NFTABLES =
  'iptables has no egress gateways; set dataplane: nftables, or turn feature gate EgressGateway off';

function unknownGroup(group: string): string {
  const near = suggestion(group, READABLE);
  return `is not read by nodewall${near === '' ? `; known: ${READABLE.join(', ')}` : near}`;
}
