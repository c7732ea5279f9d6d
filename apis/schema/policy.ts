import type { JsonSchema } from './json-schema.ts';
import { kindSchema } from './kind.ts';
import { ATOMIC_LIST, ATOMIC_OBJECT, GRANULAR_OBJECT } from './merge-type.ts';
import { APPLIED_TO_SCHEMA, PEER_SCHEMA, SERVICE_REFERENCE_SCHEMA } from './peer.ts';
import { ROLLOUT_SCHEMA } from './rollout.ts';
import { PORT_SCHEMA, PROTOCOL_SCHEMA } from './service.ts';

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
};

function ruleSchema(peers: Readonly<Record<string, JsonSchema>>): JsonSchema {
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
      ...peers,
      ports: { ...ATOMIC_LIST, description: 'OR-ed, also with protocols.', items: PORT_SCHEMA },
      protocols: { ...ATOMIC_LIST, description: 'OR-ed, also with ports.', items: PROTOCOL_SCHEMA },
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
      },
    },
  };
}

const peers = (description: string): JsonSchema => ({ ...ATOMIC_LIST, description, items: PEER_SCHEMA });

const spec: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The rules, and the Nodes that they apply to.',
  required: ['priority'],
  properties: {
    tier: { type: 'string', description: 'Name of a Tier.', default: 'application' },
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
      items: ruleSchema({ from: peers('Sources, OR-ed; absent or empty is any address.') }),
    },
    egress: {
      ...ATOMIC_LIST,
      description: 'Rules for connections from the Nodes, in order.',
      items: ruleSchema({
        to: peers('Destinations, OR-ed; absent or empty is any address.'),
        toServices: {
          ...ATOMIC_LIST,
          description: 'Services; not together with to, ports and protocols.',
          items: SERVICE_REFERENCE_SCHEMA,
        },
      }),
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
};

export const CLUSTER_NETWORK_POLICY_SCHEMA: JsonSchema = kindSchema(
  'Rules for connections to and from the Nodes that it applies to.',
  spec,
);
