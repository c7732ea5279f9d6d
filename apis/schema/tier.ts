import type { JsonSchema } from './jsonschema.ts';

export const TIER_SCHEMA: JsonSchema = {
  type: 'object',
  description: 'A place in the order of evaluation, for the policies that name it.',
  required: ['spec'],
  properties: {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    metadata: { type: 'object' },
    spec: {
      type: 'object',
      required: ['priority'],
      properties: {
        priority: {
          type: 'integer',
          description: '1 to 252 and unique; lower is evaluated first. 253 is the baseline tier.',
          minimum: 1,
          maximum: 253,
        },
        description: { type: 'string' },
      },
    },
    status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  },
};
