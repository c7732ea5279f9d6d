import type { JsonSchema } from './json-schema.ts';
import { ATOMIC_LIST, ATOMIC_OBJECT } from './merge-type.ts';

/**
 * Labels. Keys (an optional DNS prefix and `/`, then a name) are checked in apis/validate, which
 * has the whole key.
 */
const labels: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Labels that must exist with exactly these values.',
  additionalProperties: { type: 'string' },
};

const requirement: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'One condition on one label.',
  required: ['key', 'operator'],
  properties: {
    key: { type: 'string', description: 'The label.' },
    operator: {
      type: 'string',
      description: 'In and NotIn compare with values; Exists and DoesNotExist take none.',
      enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'],
    },
    values: { ...ATOMIC_LIST, description: 'For In and NotIn; at least one.', items: { type: 'string' } },
  },
};

/** meta/v1 LabelSelector. */
export function labelSelector(description: string): JsonSchema {
  return {
    ...ATOMIC_OBJECT,
    description: `${description} All conditions must hold; {} selects everything.`,
    properties: {
      matchLabels: labels,
      matchExpressions: { ...ATOMIC_LIST, description: 'Further conditions.', items: requirement },
    },
  };
}
