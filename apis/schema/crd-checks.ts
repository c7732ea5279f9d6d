import type { JsonSchema } from './json-schema.ts';
import { PEER_KINDS } from './peer.ts';

/** One `x-kubernetes-validations` rule in CEL; `self` is the value at the rule's path. */
export interface CelRule {
  readonly rule: string;
  readonly message: string;
}

/**
 * A schema as a CustomResourceDefinition has it. Its additional keywords let the API server make
 * the same checks as `nodewall validate`.
 */
export interface CrdSchema extends Omit<JsonSchema, 'properties' | 'additionalProperties' | 'items'> {
  readonly properties?: Readonly<Record<string, CrdSchema>>;
  readonly additionalProperties?: CrdSchema;
  readonly items?: CrdSchema;
  readonly nullable?: true;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly anyOf?: readonly CrdSchema[];
  readonly 'x-kubernetes-validations'?: readonly CelRule[];
}

/** Checks that the API server makes at a path, in addition to the schema. */
export interface CrdCheck {
  /**
   * Matched against the whole path, as in `spec.ingress[].ports[]`; the path of the whole object is
   * ''. All entries that match apply.
   */
  readonly at: RegExp;
  readonly add: Partial<CrdSchema>;
  readonly cel?: readonly CelRule[];
}

/**
 * Limits for policies in a cluster: rules per direction, peers per rule,
 * flows of a Guardrail, and so on. The API server
 * estimates the cost of a CEL rule for the largest lists that the schema allows.
 */
export const MOST = {
  rules: 500,
  peers: 500,
  ports: 100,
  appliedTo: 100,
  blocks: 2500,
  except: 32,
  children: 1000,
  labels: 100,
  values: 1000,
  required: 50,
} as const;

const NOT_FOR_NODES: readonly CelRule[] = [{ rule: 'false', message: 'is not supported for Nodes' }];
const count = (fields: readonly string[]): string =>
  fields.map((field) => `(has(self.${field}) ? 1 : 0)`).join(' + ');

const range = (first: string, last: string): CelRule => ({
  rule: `!has(self.${last}) || (has(self.${first}) && self.${last} >= self.${first})`,
  message: `${last} needs ${first}, and must not be below it`,
});

const { podSelector: _, namespaceSelector: __, ...SINGLE_PEERS } = PEER_KINDS;
const GROUP_KINDS = ['nodeSelector', 'serviceReference'];
const BUILT_IN =
  '{"emergency": 50, "securityops": 100, "networkops": 150, "platform": 200, "application": 250, "baseline": 253}';
export const CIDR: CelRule = {
  rule: 'isCIDR(self)',
  message: 'is not a valid CIDR; for example 10.0.0.0/8 or 2001:db8::/32',
};
const OCTET = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';

const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN = `${LABEL}(\\.${LABEL})*`;
const LABEL_NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const HOST_LABEL = '[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?';
export const NAME: Partial<CrdSchema> = { maxLength: 253, pattern: `^${SUBDOMAIN}$` };

/** Checks of label selectors. */
export const SELECTOR_CHECKS: readonly CrdCheck[] = [
  {
    at: /matchExpressions\[\]$/,
    add: {
      anyOf: [
        {
          required: ['values'],
          properties: { operator: { enum: ['In', 'NotIn'] }, values: { minItems: 1 } },
        },
        { properties: { operator: { enum: ['Exists', 'DoesNotExist'] }, values: { maxItems: 0 } } },
      ],
    },
  },
  {
    at: /matchLabels\.\*$|matchExpressions\[\]\.values\[\]$/,
    add: { maxLength: 63, pattern: `^(${LABEL_NAME})?$` },
  },
  { at: /matchLabels$/, add: { maxProperties: MOST.labels } },
  { at: /matchExpressions$/, add: { maxItems: MOST.labels } },
  { at: /matchExpressions\[\]\.values$/, add: { maxItems: MOST.values } },
  { at: /matchExpressions\[\]\.key$/, add: { maxLength: 317, pattern: `^(${SUBDOMAIN}/)?${LABEL_NAME}$` } },
];

/** Checks for all kinds of policies of Nodes. */
const SHARED: readonly CrdCheck[] = [
  ...SELECTOR_CHECKS,
  // 49 characters: an IPv6 address in its longest form (with an IPv4 part), and the prefix length.
  { at: /\.cidr$|\.except\[\]$/, add: { maxLength: 49 } },
  { at: /\.except$/, add: { maxItems: MOST.except } },
  { at: /\.scope$/, add: { enum: ['Cluster'] } },
  { at: /\.(namespaces|externalEntitySelector|l7Protocols)$/, add: {}, cel: NOT_FOR_NODES },
];

const POLICY: readonly CrdCheck[] = [
  {
    at: /^spec$/,
    add: {},
    cel: [
      {
        rule:
          '(has(self.appliedTo) && size(self.appliedTo) > 0) || ' +
          '((has(self.ingress) ? size(self.ingress) : 0) + (has(self.egress) ? size(self.egress) : 0) > 0 && ' +
          '(!has(self.ingress) || self.ingress.all(rule, has(rule.appliedTo) && size(rule.appliedTo) > 0)) && ' +
          '(!has(self.egress) || self.egress.all(rule, has(rule.appliedTo) && size(rule.appliedTo) > 0)))',
        message:
          'appliedTo is missing: select the Nodes in spec.appliedTo or in every rule ([{nodeSelector: {}}] selects every Node)',
      },
      {
        rule:
          '!(has(self.appliedTo) && size(self.appliedTo) > 0) || ' +
          '((!has(self.ingress) || self.ingress.all(rule, !has(rule.appliedTo) || size(rule.appliedTo) == 0)) && ' +
          '(!has(self.egress) || self.egress.all(rule, !has(rule.appliedTo) || size(rule.appliedTo) == 0)))',
        message: 'rules have an appliedTo although spec.appliedTo is set; use one or the other',
      },
      {
        rule:
          '!has(self.tier) || self.tier.lowerAscii() != "baseline" || ' +
          '((!has(self.ingress) || self.ingress.all(rule, rule.action != "Pass")) && ' +
          '(!has(self.egress) || self.egress.all(rule, rule.action != "Pass")))',
        message:
          'Pass is not allowed in the baseline tier, because Pass continues with that tier; use Allow, Drop or Reject',
      },
      {
        rule: '!has(self.traffic) || self.traffic != "NodePort" || !has(self.egress) || size(self.egress) == 0',
        message: 'a policy for NodePort traffic has ingress rules only',
      },
    ],
  },
  { at: /^spec\.tier$/, add: { maxLength: 253 } },
  { at: /^spec\.rollout\.steps$/, add: { minItems: 1, maxItems: 20 } },
  {
    at: /^spec\.rollout\.steps\[\]$/,
    add: { minimum: 1, maxLength: 4, pattern: '^([1-9][0-9]?|100)%$' },
  },
  { at: /^spec\.(in|e)gress$/, add: { maxItems: MOST.rules } },
  { at: /appliedTo$/, add: { maxItems: MOST.appliedTo } },
  {
    at: /appliedTo\[\]$/,
    add: {},
    cel: [
      {
        rule: 'has(self.nodeSelector) != has(self.group)',
        message: 'needs exactly one of nodeSelector and group; write one item for each (items are OR-ed)',
      },
    ],
  },
  {
    at: /^spec\.egress\[\]$/,
    add: {},
    cel: [
      {
        rule:
          '!has(self.toServices) || size(self.toServices) == 0 || ((!has(self.to) || size(self.to) == 0) && ' +
          '(!has(self.ports) || size(self.ports) == 0) && (!has(self.protocols) || size(self.protocols) == 0))',
        message: "toServices can't be combined with to, ports and protocols; write one rule for each",
      },
    ],
  },
];

/** Checks of peers, ports and protocols. */
const FLOWS: readonly CrdCheck[] = [
  { at: /\.(from|to)$/, add: { maxItems: MOST.peers } },
  {
    at: /\.(from|to)\[\]$/,
    add: {},
    cel: [
      {
        rule: `${count(Object.keys(SINGLE_PEERS))} + (has(self.podSelector) || has(self.namespaceSelector) ? 1 : 0) == 1`,
        message:
          'needs exactly one kind of peer (podSelector and namespaceSelector go together); write one item for each (items are OR-ed)',
      },
    ],
  },
  { at: /\.(group|serviceAccount\.name|toServices\[\]\.name)$/, add: NAME },
  { at: /\.namespace$/, add: { maxLength: 63, pattern: `^${LABEL}$` } },
  {
    at: /\.to\[\]\.fqdn$/,
    add: { maxLength: 256, pattern: `^(\\*\\.)?${HOST_LABEL}(\\.${HOST_LABEL})*\\.?$` },
  },
  {
    at: /\.from\[\]\.fqdn$/,
    add: {},
    cel: [{ rule: 'false', message: 'is only allowed in egress rules' }],
  },
  { at: /\.(from|to)\[\]\.ipBlock\.cidr$/, add: {}, cel: [CIDR] },
  // A number in quotes is not accepted as a name.
  {
    at: /\.interfaceGroup$/,
    add: { minimum: 0, maximum: 4_294_967_295, maxLength: 63, pattern: '[^0-9]' },
  },
  { at: /\.(ports|protocols|toServices)$/, add: { maxItems: MOST.ports } },
  { at: /\.ports\[\]$/, add: {}, cel: [range('port', 'endPort'), range('sourcePort', 'sourceEndPort')] },
  {
    at: /\.protocols\[\]$/,
    add: {},
    cel: [
      {
        rule: `${count(['icmp', 'icmpv6', 'igmp'])} == 1`,
        message: 'needs exactly one of icmp, icmpv6 and igmp; write one item for each (items are OR-ed)',
      },
    ],
  },
  {
    at: /\.icmp(v6)?$/,
    add: {},
    cel: [{ rule: '!has(self.icmpCode) || has(self.icmpType)', message: 'icmpCode needs icmpType' }],
  },
  { at: /\.groupAddress$/, add: { pattern: `^(22[4-9]|23[0-9])(\\.${OCTET}){3}$` } },
];

const GUARDRAIL: readonly CrdCheck[] = [
  { at: /^spec\.must(Allow|Deny)$/, add: { maxItems: MOST.required } },
  {
    at: /^spec\.must(Allow|Deny)\[\]$/,
    add: {},
    cel: [
      {
        rule: 'self.direction == "ingress" ? !has(self.to) || size(self.to) == 0 : !has(self.from) || size(self.from) == 0',
        message: 'ingress flows have from, egress flows have to',
      },
      {
        rule: '!has(self.traffic) || self.traffic != "NodePort" || self.direction == "ingress"',
        message: 'NodePort traffic is ingress',
      },
    ],
  },
];

const GROUP: readonly CrdCheck[] = [
  {
    at: /^spec$/,
    add: {},
    cel: [
      {
        rule:
          `${count(GROUP_KINDS)} + (has(self.podSelector) || has(self.namespaceSelector) ? 1 : 0) + ` +
          '(has(self.ipBlocks) && size(self.ipBlocks) > 0 ? 1 : 0) + (has(self.childGroups) && size(self.childGroups) > 0 ? 1 : 0) == 1',
        message:
          'needs exactly one of podSelector and/or namespaceSelector, nodeSelector, ipBlocks, serviceReference, childGroups',
      },
    ],
  },
  { at: /^spec\.ipBlocks$/, add: { maxItems: MOST.blocks } },
  {
    at: /^spec\.ipBlocks\[\]$/,
    add: {},
    cel: [
      {
        rule: '!has(self.except) || !isCIDR(self.cidr) || self.except.all(hole, isCIDR(hole) && cidr(self.cidr).containsCIDR(hole) && cidr(self.cidr).prefixLength() < cidr(hole).prefixLength())',
        message: 'an exception must be a CIDR, part of the cidr and not the whole of it',
      },
    ],
  },
  { at: /^spec\.ipBlocks\[\]\.cidr$/, add: {}, cel: [CIDR] },
  { at: /^spec\.childGroups$/, add: { maxItems: MOST.children } },
  { at: /^spec\.(childGroups\[\]|serviceReference\.name)$/, add: NAME },
  { at: /\.namespace$/, add: { maxLength: 63, pattern: `^${LABEL}$` } },
];

const TIER: readonly CrdCheck[] = [
  {
    at: /^$/,
    add: {},
    cel: [
      {
        rule: `self.metadata.name in ${BUILT_IN} ? ${BUILT_IN}[self.metadata.name] == self.spec.priority : !${BUILT_IN}.exists(name, ${BUILT_IN}[name] == self.spec.priority)`,
        message:
          'the priorities 50, 100, 150, 200, 250 and 253 belong to the built-in tiers; choose another, 1 to 252',
      },
    ],
  },
  {
    at: /^spec\.priority$/,
    add: {},
    cel: [{ rule: 'self == oldSelf', message: "a tier's priority can't be changed; create another tier" }],
  },
];

/** Checks by kind. */
export const CRD_CHECKS: Readonly<
  Record<'ClusterNetworkPolicy' | 'ClusterGroup' | 'Tier' | 'Guardrail', readonly CrdCheck[]>
> = {
  ClusterNetworkPolicy: [...SHARED, ...POLICY, ...FLOWS],
  ClusterGroup: [...SHARED.filter(({ at }) => !at.source.includes('scope')), ...GROUP],
  Tier: TIER,
  Guardrail: [...SHARED, ...GUARDRAIL, ...FLOWS],
};
