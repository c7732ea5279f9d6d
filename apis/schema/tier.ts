import type { JsonSchema } from './json-schema.ts';
import { kindSchema } from './kind.ts';
import { GRANULAR_OBJECT } from './merge-type.ts';

export const TIER_SCHEMA: JsonSchema = kindSchema('A named priority that policies are grouped by.', {
  ...GRANULAR_OBJECT,
  description: 'The priority.',
  required: ['priority'],
  properties: {
    priority: {
      type: 'integer',
      description: '1 to 252 and unique; lower is evaluated first. 253 is the baseline tier.',
      minimum: 1,
      maximum: 253,
    },
    description: { type: 'string', description: 'Its purpose, human-readable.' },
  },
});
