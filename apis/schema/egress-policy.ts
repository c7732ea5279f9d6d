import { labelSelector } from '../label-selector.ts';
import {
  ATOMIC_OBJECT,
  alwaysRefused,
  CIDR,
  GRANULAR_OBJECT,
  kindSchema,
  MOST,
  OBJECT_NAME,
} from './crd-parts.ts';
import { choiceField, listField, textField, wholeField } from './fields.ts';
import type { CelRule, CrdChecks, JsonSchema } from './json-schema.ts';

/**
 * Fields of the cluster kind are in the schema of the namespaced kind too, so that they are not
 * reported as mistyped, nor dropped by the API server. apis/validate and the CRD refuse them there.
 */
const NOT_IN_NAMESPACES = 'Only in a ClusterEgressPolicy.';

const CLUSTER_ONLY = alwaysRefused('is only allowed in a ClusterEgressPolicy');

const cidrs = (description: string, crd: CrdChecks, cel: readonly CelRule[] = [CIDR]): JsonSchema =>
  listField(description, { type: 'string', maxLength: 49, crd: { cel } }, crd);
const DESTINATIONS: CrdChecks = { maxItems: 256 };
const MOST_SUBNETS = 64;

const IN_NAMESPACE: CelRule = {
  rule: 'has(self.podSelector) || has(self.namespaceSelector) || has(self.podSubnets)',
  message: 'is empty; {podSelector: {}} selects all pods of the namespace',
};
const IN_CLUSTER: CelRule = {
  rule: '(has(self.podSelector) || has(self.namespaceSelector)) != has(self.podSubnets)',
  message: 'needs selectors or podSubnets, one of the two; write one item for each (items are OR-ed)',
};

const pods = (isCluster: boolean): JsonSchema => ({
  ...ATOMIC_OBJECT,
  description: isCluster
    ? 'podSelector, namespaceSelector or both; or podSubnets.'
    : 'A podSelector for pods of the namespace of this policy.',
  properties: {
    podSelector: labelSelector('The pods selected, hostNetwork and finished ones left out.'),
    namespaceSelector: isCluster
      ? labelSelector('Pods in the namespaces selected.')
      : { ...labelSelector(NOT_IN_NAMESPACES), crd: CLUSTER_ONLY },
    podSubnets: isCluster
      ? cidrs('CIDRs of source addresses.', { minItems: 1, maxItems: MOST_SUBNETS })
      : cidrs(NOT_IN_NAMESPACES, { maxItems: MOST_SUBNETS, ...CLUSTER_ONLY }, []),
  },
  crd: { cel: [isCluster ? IN_CLUSTER : IN_NAMESPACE] },
});

const ofFamily = (family: 4 | 6): CrdChecks => ({
  cel: [
    {
      rule: `isIP(self) && ip(self).family() == ${family}`,
      message: `is not an IPv${family} address`,
    },
  ],
  admission: [{ rule: 'ip(self).isGlobalUnicast()', message: 'is no address that others can answer to' }],
});

const address: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'The addresses of this policy.',
  properties: {
    allocation: choiceField(
      'Shared: the default address of the gateway. Dedicated: one of its own. Fixed: ipv4 and ipv6.',
      ['Shared', 'Dedicated', 'Fixed'],
      'Shared',
    ),
    ipv4: textField('With allocation Fixed: the IPv4 address.', { maxLength: 15, crd: ofFamily(4) }),
    ipv6: textField('With allocation Fixed: the IPv6 address.', { maxLength: 45, crd: ofFamily(6) }),
    count: wholeField('With allocation Dedicated: the number of addresses of each family.', [1, 64], 1),
  },
  crd: {
    cel: [
      {
        rule: '(has(self.allocation) && self.allocation == "Fixed") ? (has(self.ipv4) || has(self.ipv6)) : !(has(self.ipv4) || has(self.ipv6))',
        message: 'ipv4 and ipv6 are for allocation: Fixed, which needs one of them',
      },
      {
        rule: '!has(self.count) || self.count == 1 || (has(self.allocation) && self.allocation == "Dedicated")',
        message: 'a count other than 1 is only allowed with allocation: Dedicated',
      },
    ],
  },
};

function policySchema(kind: 'EgressPolicy' | 'ClusterEgressPolicy'): JsonSchema {
  const isCluster = kind === 'ClusterEgressPolicy';
  return kindSchema('How pods that it selects leave the cluster.', {
    ...GRANULAR_OBJECT,
    description: 'The pods, the destinations, and the gateway.',
    required: ['appliedTo'],
    properties: {
      stage: textField(
        isCluster
          ? 'Override: before all EgressPolicies. Default, if absent: after them.'
          : NOT_IN_NAMESPACES,
        { enum: ['Override', 'Default'], ...(isCluster ? {} : { crd: CLUSTER_ONLY }) },
      ),
      appliedTo: listField('The pods; items are OR-ed.', pods(isCluster), {
        minItems: 1,
        maxItems: MOST.appliedTo,
      }),
      gateway: textField(
        'Name of an EgressGateway; absent: the default one of the namespace or the cluster.',
        { crd: OBJECT_NAME },
      ),
      to: cidrs('CIDRs of destinations; absent: everything outside of the cluster.', DESTINATIONS),
      except: cidrs('CIDRs of destinations that this policy does not match.', DESTINATIONS),
      action: choiceField(
        'Gateway: leave by the gateway. Direct: leave by the node as without nodewall. Drop: do not leave.',
        ['Gateway', 'Direct', 'Drop'],
        'Gateway',
      ),
      address,
      whenUnavailable: choiceField(
        'What happens without a gateway that is ready, or without an address.',
        ['Drop', 'Direct'],
        'Drop',
      ),
      priority: wholeField('Lower is evaluated first.', [-2_147_483_648, 2_147_483_647], 1000),
      mode: choiceField(
        'Audit: connections are counted and logged, and not steered.',
        ['Enforce', 'Audit'],
        'Enforce',
      ),
      established: choiceField(
        'Recheck: connections of these pods that are open when this policy comes into force, and leave by another way, are ended. Keep, the default: they go on.',
        ['Keep', 'Recheck'],
      ),
    },
  });
}

export const EGRESS_POLICY_SCHEMA: JsonSchema = policySchema('EgressPolicy');
export const CLUSTER_EGRESS_POLICY_SCHEMA: JsonSchema = policySchema('ClusterEgressPolicy');
