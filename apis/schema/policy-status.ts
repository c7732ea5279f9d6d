import { POLICY_PHASES } from '../policy-status.ts';
import type { JsonSchema } from './json-schema.ts';
import { ATOMIC_LIST, ATOMIC_OBJECT, GRANULAR_OBJECT, listByKey } from './merge-type.ts';

const count = (description: string): JsonSchema => ({ type: 'integer', minimum: 0, description });

/** Schema of the `status` of a ClusterNetworkPolicy (`PolicyStatus`). */
export const POLICY_STATUS_SCHEMA: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'What became of the policy, as the controller last saw it.',
  properties: {
    phase: {
      type: 'string',
      enum: [...POLICY_PHASES],
      description:
        'Pending, Realizing, Realized: no, some, all nodes that are selected enforce this version. Failed: some node cannot. NoNodes: it applies to none. ' +
        'Invalid: it was left out. Disabled: the feature gate NodeNetworkPolicy is off.',
    },
    observedGeneration: count('The metadata.generation that this status is about.'),
    enforcedGeneration: count('Where that version is invalid: the version that is enforced in its place.'),
    enforcedSpec: {
      type: 'string',
      description: 'The spec of that version, as JSON: a controller that starts enforces it.',
    },
    currentNodesRealized: count('Nodes that enforce it.'),
    desiredNodesRealized: count('Nodes that should.'),
    failingNodes: {
      ...ATOMIC_LIST,
      description: 'Nodes that cannot enforce it, by name; the first 20.',
      items: {
        ...ATOMIC_OBJECT,
        required: ['node', 'reason'],
        properties: {
          node: { type: 'string', description: 'Name of the Node.' },
          rule: { type: 'string', description: 'Name of the rule; absent where all of the policy fails.' },
          reason: { type: 'string', description: 'What the node said.' },
        },
      },
    },
    problems: {
      ...ATOMIC_LIST,
      description: 'Why it was left out, a line each; the first 20.',
      items: { type: 'string' },
    },
    conditions: {
      ...listByKey('type'),
      description: 'Accepted: it is valid. Realized: it is enforced wherever it should be.',
      items: {
        ...GRANULAR_OBJECT,
        required: ['type', 'status', 'lastTransitionTime', 'reason', 'message'],
        properties: {
          type: { type: 'string', description: 'Accepted or Realized.' },
          status: {
            type: 'string',
            enum: ['True', 'False', 'Unknown'],
            description: 'Whether it holds.',
          },
          observedGeneration: count('The metadata.generation that this condition is about.'),
          lastTransitionTime: { type: 'string', description: 'When status last changed (RFC 3339).' },
          reason: { type: 'string', description: 'One word for programs.' },
          message: { type: 'string', description: 'For people.' },
        },
      },
    },
  },
};
