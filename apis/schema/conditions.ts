import { GRANULAR_OBJECT, listByKey } from './crd-keywords.ts';
import type { JsonSchema } from './json-schema.ts';

export const count = (description: string): JsonSchema => ({ type: 'integer', minimum: 0, description });

/** The `conditions` of a status. @param types of condition, and the meaning of each */
export function conditions(types: Readonly<Record<string, string>>): JsonSchema {
  const names = Object.keys(types);
  const meanings = Object.entries(types).map(([type, meaning]) => `${type}: ${meaning}.`);
  const list = [names.slice(0, -1).join(', '), names.at(-1)].filter((part) => part !== '').join(' or ');
  return {
    ...listByKey('type'),
    description: meanings.join(' '),
    crd: { maxItems: 8 },
    items: {
      ...GRANULAR_OBJECT,
      required: ['type', 'status', 'lastTransitionTime', 'reason', 'message'],
      properties: {
        type: { type: 'string', description: `${list}.` },
        status: {
          type: 'string',
          enum: ['True', 'False', 'Unknown'],
          description: 'Whether the condition holds.',
        },
        observedGeneration: count('The metadata.generation that this condition is about.'),
        lastTransitionTime: { type: 'string', description: 'When status last changed (RFC 3339).' },
        reason: { type: 'string', description: 'The reason, machine-readable.' },
        message: { type: 'string', description: 'The reason, human-readable.' },
      },
    },
  };
}
