import { ROLLOUT_STATES } from '../rollout.ts';
import { count } from './conditions.ts';
import { ATOMIC_LIST, ATOMIC_OBJECT, OBJECT_NAME } from './crd-keywords.ts';
import type { JsonSchema } from './json-schema.ts';

/** The fields that a policy and the configuration have. */
export const ROLLOUT_FIELDS: Readonly<Record<string, JsonSchema>> = {
  steps: {
    ...ATOMIC_LIST,
    description: 'How many nodes have the new version after each step; all follow at the end.',
    items: {
      'x-kubernetes-int-or-string': true,
      description: 'The number of nodes, from 1, or their share from 1% to 100%.',
      crd: { minimum: 1, maxLength: 4, pattern: '^([1-9][0-9]?|100)%$' },
    },
    crd: { minItems: 1, maxItems: 20 },
  },
  pause: {
    type: 'integer',
    description: 'Seconds after all nodes of a step have confirmed.',
    minimum: 0,
    maximum: 604_800,
  },
  maxFailures: {
    type: 'integer',
    description: 'More nodes that fail pause the rollout.',
    minimum: 0,
    maximum: 100_000,
  },
};

/** `spec.rollout` of a ClusterNetworkPolicy. Without defaults: those are in the configuration. */
export const ROLLOUT_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'How a new version goes to the nodes; absent: to all at once.',
  properties: {
    ...ROLLOUT_FIELDS,
    group: {
      type: 'string',
      description: 'Policies with the same group have one rollout.',
      crd: OBJECT_NAME,
    },
  },
};

const text = (description: string): JsonSchema => ({ type: 'string', description });
const names = (description: string): JsonSchema => ({
  ...ATOMIC_LIST,
  description,
  items: { type: 'string' },
});

const reasons = (description: string): JsonSchema => ({
  ...ATOMIC_LIST,
  description,
  items: {
    ...ATOMIC_OBJECT,
    required: ['node', 'reason'],
    properties: { node: text('Name of the Node.'), reason: text('The reason.') },
  },
});

const member: JsonSchema = {
  ...ATOMIC_OBJECT,
  required: ['name', 'uid', 'from', 'to'],
  properties: {
    name: text('Name of the policy.'),
    uid: text('Its uid.'),
    from: count('The generation that nodes have before they take part; 0: none.'),
    to: count('The generation that nodes get.'),
    command: text('The annotation nodewall.io/rollout that was acted on last.'),
  },
};

const decision: JsonSchema = {
  ...ATOMIC_OBJECT,
  description:
    'What the leading controller decided: all controllers read from it which node has which version.',
  required: ['serial', 'key', 'state', 'step', 'through', 'firsts', 'policies'],
  properties: {
    serial: count('The decision with the highest number counts, among the policies of a group.'),
    key: text('The uid of the policy, or its group: the order of nodes depends on it.'),
    state: { type: 'string', enum: [...ROLLOUT_STATES], description: 'The state of the rollout.' },
    pausedBy: { type: 'string', enum: ['Command', 'Failures'], description: 'Why it is paused.' },
    step: count('The number of steps begun.'),
    through: text('Nodes with a place up to this one take part.'),
    firsts: names('Further nodes that take part.'),
    policies: { ...ATOMIC_LIST, description: 'The policies that move together.', items: member },
  },
};

/** `status.rollout` of a ClusterNetworkPolicy. */
export const ROLLOUT_STATUS_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'The rollout of the policy over its nodes.',
  properties: {
    progress: text('The state in short.'),
    message: text('The state in words.'),
    nodes: count('The number of nodes that any version applies to.'),
    updated: count('The number of nodes that have the new version.'),
    confirmed: count('The number of those that have confirmed it.'),
    failed: reasons('Nodes that failed, by name; the first 20.'),
    silent: reasons('Nodes of the steps so far that do not report, by name; the first 20.'),
    waiting: names('Nodes of the steps so far that have not confirmed yet, by name; the first 20.'),
    settled: text('When all nodes of the step had confirmed (RFC 3339).'),
    tolerated: names('Nodes that had failed when the rollout was resumed.'),
    decision,
    versions: {
      ...ATOMIC_LIST,
      description: 'The versions that nodes may have to enforce.',
      items: {
        ...ATOMIC_OBJECT,
        required: ['generation', 'spec'],
        properties: {
          generation: count('The metadata.generation of the version.'),
          spec: text('Its spec as JSON, without rollout.'),
        },
      },
      crd: { maxItems: 3 },
    },
  },
};
