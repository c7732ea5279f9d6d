import { POLICY_PHASES } from '../policy-status.ts';
import { conditions, count } from './conditions.ts';
import { ATOMIC_LIST, ATOMIC_OBJECT, GRANULAR_OBJECT } from './crd-keywords.ts';
import type { JsonSchema } from './json-schema.ts';
import { LAST_DEFINITIONS_SCHEMA } from './last-definitions.ts';
import { ROLLOUT_STATUS_SCHEMA } from './rollout.ts';

/** Schema of the `status` of a ClusterNetworkPolicy (`PolicyStatus`). */
export const POLICY_STATUS_SCHEMA: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The state of the policy, as the controller last observed it.',
  properties: {
    phase: {
      type: 'string',
      enum: [...POLICY_PHASES],
      description:
        'Pending, Realizing, Realized: no, some, all nodes that are selected enforce this version; Pending also: it names what does not exist yet, see problems. Trying: all do, some try it still (guarded apply). Failed: some node cannot enforce it. RolledBack: some node tried it and took it back. NoNodes: it applies to no node. ' +
        'Invalid: this version is left out. Disabled: the feature gate NodeNetworkPolicy is off, or has no value and no node enforces it.',
    },
    observedGeneration: count('The metadata.generation that this status is about.'),
    enforcedGeneration: count(
      'If that version is invalid, or waits: the generation that is enforced instead.',
    ),
    enforcedSpec: {
      type: 'string',
      description: 'The spec of the enforced generation, as JSON: a controller that starts enforces it.',
    },
    currentNodesRealized: count('The number of nodes that enforce the policy.'),
    desiredNodesRealized: count('The number of nodes that must enforce the policy.'),
    failingNodes: {
      ...ATOMIC_LIST,
      description: 'Nodes that cannot enforce the policy, by name; the first 20.',
      items: {
        ...ATOMIC_OBJECT,
        required: ['node', 'reason'],
        properties: {
          node: { type: 'string', description: 'Name of the Node.' },
          rule: { type: 'string', description: 'Name of the rule; absent if the whole policy fails.' },
          reason: { type: 'string', description: 'The reason that the node reported.' },
          rolledBack: { type: 'boolean', description: 'True: the node tried the version, and took it back.' },
        },
      },
      crd: { maxItems: 20 },
    },
    problems: {
      ...ATOMIC_LIST,
      description: 'The reasons why the policy is invalid, or waits, one line each; the first 20.',
      items: { type: 'string' },
      crd: { maxItems: 20 },
    },
    lastDefinitions: LAST_DEFINITIONS_SCHEMA,
    rollout: ROLLOUT_STATUS_SCHEMA,
    conditions: conditions({
      Accepted: 'the policy is valid',
      Realized: 'all nodes that are selected enforce it',
      InForce: 'they do, or try it (guarded apply)',
      GateSet: 'the feature gate has a value; there only while it has none',
      ReferencesExist: 'what it is in force with exists; there only while that was deleted',
      RolledOut: 'its rollout is completed',
    }),
  },
};
