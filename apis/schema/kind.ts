import type { JsonSchema } from './json-schema.ts';

/**
 * The schema of a whole object of one of our kinds. Its metadata is checked elsewhere; its status
 * is not checked.
 */
export function kindSchema(description: string, spec: JsonSchema): JsonSchema {
  return {
    type: 'object',
    description,
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      spec,
      status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    },
  };
}
