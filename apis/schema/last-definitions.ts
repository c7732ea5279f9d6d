import { GRANULAR_OBJECT } from './crd-keywords.ts';
import type { JsonSchema } from './json-schema.ts';

/** Part of the status of a policy or Guardrail: see apis/last-definition.ts. */
export const LAST_DEFINITIONS_SCHEMA: JsonSchema = {
  ...GRANULAR_OBJECT,
  description:
    'Deleted Tiers and ClusterGroups that it is in force with, as they were defined last, as JSON: a controller that starts enforces them.',
  additionalProperties: { type: 'string' },
};
