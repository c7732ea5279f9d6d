import { type CelRule, CIDR, type CrdCheck, MOST, NAME, SELECTOR_CHECKS } from './crd-checks.ts';

/**
 * The most entries of the lists of egress objects. The API server estimates the cost of a CEL rule
 * for the largest lists that the schema allows.
 */
const MOST_EGRESS = {
  pools: 32,
  ranges: 64,
  probes: 8,
  subnets: 64,
  destinations: 256,
} as const;

/** Both ends of IP-IP would cost more than the API server allows; their form is in the pattern. */
const RANGE: CelRule = {
  rule: "isIP(self) || isCIDR(self) || self.contains('-')",
  message: 'is not a range of addresses: IP, IP-IP or CIDR',
};
const ADDRESS: CelRule = { rule: 'isIP(self)', message: 'is not an IP address' };
const address = (family: 4 | 6): CelRule => ({
  rule: `isIP(self) && ip(self).family() == ${family}`,
  message: `is not an IPv${family} address`,
});

const HAS_POOLS = 'has(self.addresses) && has(self.addresses.pools) && size(self.addresses.pools) > 0';
const IS_NODE = `has(self.source) ? self.source == "Node" : !(${HAS_POOLS})`;

const GATEWAY: readonly CrdCheck[] = [
  {
    at: /^spec\.nodeSelector$/,
    add: {},
    cel: [
      {
        rule: '(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)',
        message: 'is empty and would select every Node; name the labels of the nodes that are to be gateways',
      },
    ],
  },
  {
    at: /^spec$/,
    add: {},
    cel: [
      {
        rule: `!has(self.source) || self.source != "Node" || !(${HAS_POOLS})`,
        message:
          "source Node uses the nodes' own addresses, and those of spec.addresses never; remove one of the two",
      },
      {
        rule: `!has(self.source) || self.source != "Floating" || (${HAS_POOLS})`,
        message: 'source Floating needs addresses; give spec.addresses.pools, or source: Node',
      },
      {
        rule: `!has(self.choice) || self.choice != "Spread" || (${IS_NODE})`,
        message:
          'choice Spread needs source: Node, because an address of a pool is on one node at a time; use Failover',
      },
      {
        rule: `!has(self.interface) || (${IS_NODE})`,
        message: 'interface is only allowed with source: Node',
      },
    ],
  },
  { at: /^spec\.addresses\.pools$/, add: { maxItems: MOST_EGRESS.pools } },
  { at: /\.ranges$/, add: { minItems: 1, maxItems: MOST_EGRESS.ranges } },
  { at: /\.ranges\[\]$/, add: { pattern: '^[0-9A-Fa-f.:]+([-/][0-9A-Fa-f.:]+)?$' }, cel: [RANGE] },
  { at: /^spec\.interface$/, add: { pattern: '^[^\\s/:]{1,15}$' } },
  { at: /^spec\.probes$/, add: { maxItems: MOST_EGRESS.probes } },
  {
    at: /^spec\.probes\[\]$/,
    add: {},
    cel: [{ rule: 'has(self.icmp) != has(self.tcp)', message: 'needs exactly one of icmp and tcp' }],
  },
  { at: /^spec\.probes\[\]\..*\.address$/, add: { maxLength: 45 }, cel: [ADDRESS] },
  {
    at: /^spec\.failover$/,
    add: {},
    cel: [
      {
        rule:
          '(has(self.leaseSeconds) ? self.leaseSeconds : 2) * 1000 >= ' +
          '2 * (has(self.heartbeatMilliseconds) ? self.heartbeatMilliseconds : 500)',
        message: 'a lease is shorter than two heartbeats; one lost heartbeat would move the addresses',
      },
    ],
  },
];

const POLICY: readonly CrdCheck[] = [
  { at: /^spec\.appliedTo$/, add: { minItems: 1, maxItems: MOST.appliedTo } },
  { at: /^spec\.gateway$/, add: NAME },
  { at: /^spec\.(to|except)$/, add: { maxItems: MOST_EGRESS.destinations } },
  { at: /^spec\.(to|except)\[\]$/, add: {}, cel: [CIDR] },
  {
    at: /^spec\.address$/,
    add: {},
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
  { at: /^spec\.address\.ipv4$/, add: {}, cel: [address(4)] },
  { at: /^spec\.address\.ipv6$/, add: {}, cel: [address(6)] },
];

const CLUSTER_ONLY: readonly CelRule[] = [
  { rule: 'false', message: 'is only allowed in a ClusterEgressPolicy' },
];

const NAMESPACED: readonly CrdCheck[] = [
  ...POLICY,
  { at: /^spec\.stage$/, add: {}, cel: CLUSTER_ONLY },
  { at: /^spec\.appliedTo\[\]\.(namespaceSelector|podSubnets)$/, add: {}, cel: CLUSTER_ONLY },
  { at: /\.podSubnets$/, add: { maxItems: MOST_EGRESS.subnets } },
  {
    at: /^spec\.appliedTo\[\]$/,
    add: {},
    cel: [
      {
        rule: 'has(self.podSelector) || has(self.namespaceSelector) || has(self.podSubnets)',
        message: 'is empty; {podSelector: {}} selects all pods of the namespace',
      },
    ],
  },
];

const CLUSTER: readonly CrdCheck[] = [
  ...POLICY,
  { at: /\.podSubnets$/, add: { minItems: 1, maxItems: MOST_EGRESS.subnets } },
  { at: /\.podSubnets\[\]$/, add: {}, cel: [CIDR] },
  {
    at: /^spec\.appliedTo\[\]$/,
    add: {},
    cel: [
      {
        rule: '(has(self.podSelector) || has(self.namespaceSelector)) != has(self.podSubnets)',
        message: 'needs selectors or podSubnets, one of the two; write one item for each (items are OR-ed)',
      },
    ],
  },
];

/** Checks by kind. */
export const EGRESS_CRD_CHECKS: Readonly<
  Record<'EgressGateway' | 'EgressPolicy' | 'ClusterEgressPolicy', readonly CrdCheck[]>
> = {
  EgressGateway: [...SELECTOR_CHECKS, ...GATEWAY],
  EgressPolicy: [...SELECTOR_CHECKS, ...NAMESPACED],
  ClusterEgressPolicy: [...SELECTOR_CHECKS, ...CLUSTER],
};
