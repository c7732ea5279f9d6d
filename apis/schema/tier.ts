import type { JsonSchema } from './json-schema.ts';
import { kindSchema } from './kind.ts';
import { GRANULAR_OBJECT } from './merge-type.ts';

export const TIER_SCHEMA: JsonSchema = kindSchema(
  'A place in the order of evaluation, for the policies that name it.',
  {
    ...GRANULAR_OBJECT,
    description: 'Its place.',
    required: ['priority'],
    properties: {
      priority: {
        type: 'integer',
        description: '1 to 252 and unique; lower is evaluated first. 253 is the baseline tier.',
        minimum: 1,
        maximum: 253,
      },
      description: { type: 'string', description: 'What it is for, in words.' },
    },
  },
);
