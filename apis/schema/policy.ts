import { ATOMIC_LIST, ATOMIC_OBJECT, GRANULAR_OBJECT, MOST, NOT_FOR_NODES } from './crd-keywords.ts';
import type { JsonSchema } from './json-schema.ts';
import { kindSchema } from './kind.ts';
import { APPLIED_TO_SCHEMA, peers, SERVICE_REFERENCE_SCHEMA } from './peer.ts';
import { ROLLOUT_SCHEMA } from './rollout.ts';
import { SERVICE_FIELDS } from './service.ts';

const any = 'x-kubernetes-preserve-unknown-fields';

/**
 * The whole schema of ClusterNetworkPolicy, including fields that are not supported on a Node, so
 * that these are not reported as mistyped. Checks that a schema cannot express are in
 * apis/validate.
 */
const appliedTo: JsonSchema = {
  ...ATOMIC_LIST,
  description: 'The Nodes to apply to; items are OR-ed. Set it in the policy or in every rule.',
  items: APPLIED_TO_SCHEMA,
  crd: { maxItems: MOST.appliedTo },
};

function ruleSchema(fields: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return {
    ...ATOMIC_OBJECT,
    description: 'The action for connections with these peers, ports and protocols.',
    required: ['action'],
    properties: {
      name: {
        type: 'string',
        description: 'Unique in the policy; generated when absent.',
        maxLength: 253,
        // Valid in both JavaScript and RE2; the API server uses RE2.
        pattern: '^[^\\p{Cc}\\p{Zl}\\p{Zp}]*$',
      },
      action: {
        type: 'string',
        description: 'The action for a new connection that matches. Pass continues with the baseline tier.',
        enum: ['Allow', 'Drop', 'Reject', 'Pass'],
      },
      ...fields,
      ...SERVICE_FIELDS,
      enableLogging: { type: 'boolean', description: 'Log each new connection the rule decides.' },
      logLabel: {
        type: 'string',
        description: 'The label in the flow log.',
        maxLength: 63,
        pattern: '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$',
      },
      appliedTo,
      l7Protocols: {
        ...ATOMIC_LIST,
        description: 'Not supported for Nodes.',
        items: { ...ATOMIC_OBJECT, [any]: true },
        crd: NOT_FOR_NODES,
      },
    },
  };
}

const spec: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The rules, and the Nodes that they apply to.',
  required: ['priority'],
  properties: {
    tier: { type: 'string', description: 'Name of a Tier.', default: 'application', crd: { maxLength: 253 } },
    priority: {
      type: 'number',
      description: '1 to 10000; lower is evaluated first.',
      minimum: 1,
      maximum: 10000,
    },
    appliedTo,
    ingress: {
      ...ATOMIC_LIST,
      description: 'Rules for connections to the Nodes, in order.',
      items: ruleSchema({ from: peers('from', 'Sources, OR-ed; absent or empty is any address.') }),
      crd: { maxItems: MOST.rules },
    },
    egress: {
      ...ATOMIC_LIST,
      description: 'Rules for connections from the Nodes, in order.',
      items: {
        ...ruleSchema({
          to: peers('to', 'Destinations, OR-ed; absent or empty is any address.'),
          toServices: {
            ...ATOMIC_LIST,
            description: 'Services; not together with to, ports and protocols.',
            items: SERVICE_REFERENCE_SCHEMA,
            crd: { maxItems: MOST.ports },
          },
        }),
        crd: {
          cel: [
            {
              rule:
                '!has(self.toServices) || size(self.toServices) == 0 || ((!has(self.to) || size(self.to) == 0) && ' +
                '(!has(self.ports) || size(self.ports) == 0) && (!has(self.protocols) || size(self.protocols) == 0))',
              message: "toServices can't be combined with to, ports and protocols; write one rule for each",
            },
          ],
        },
      },
      crd: { maxItems: MOST.rules },
    },
    mode: {
      type: 'string',
      description: 'Audit: rules are matched, counted and logged, and decide nothing.',
      enum: ['Enforce', 'Audit'],
      default: 'Enforce',
    },
    traffic: {
      type: 'string',
      description:
        'Host: connections of the Node itself. NodePort: connections that destination NAT hands to a pod.',
      enum: ['Host', 'NodePort'],
      default: 'Host',
    },
    // Without a default: it would be in every stored policy, and controllers of earlier versions
    // refuse unknown fields.
    established: {
      type: 'string',
      description:
        'Recheck: after a change, established connections that a rule of this policy denies are ended. Keep, the default: they go on.',
      enum: ['Keep', 'Recheck'],
    },
    rollout: ROLLOUT_SCHEMA,
  },
  crd: {
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
};

export const CLUSTER_NETWORK_POLICY_SCHEMA: JsonSchema = kindSchema(
  'Rules for connections to and from the Nodes that it applies to.',
  spec,
);
