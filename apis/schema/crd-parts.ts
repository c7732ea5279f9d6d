import type { CelRule, CrdChecks, JsonSchema } from './json-schema.ts';

/**
 * How server-side apply merges the values of several field managers. Every object and list of the
 * CustomResourceDefinitions declares it: the API server treats objects as granular by default, and
 * when the last field of a granular object is removed, the merge leaves null instead of {}.
 */

/** Each field is managed separately. */
export const GRANULAR_OBJECT = { type: 'object', 'x-kubernetes-map-type': 'granular' } as const;

/**
 * Managed as one value: a manager that sets it sets all of it. A selector merged from two managers
 * would select what neither asked for.
 */
export const ATOMIC_OBJECT = { type: 'object', 'x-kubernetes-map-type': 'atomic' } as const;

/** Managed as one value: the order matters, or items have no key that identifies them. */
export const ATOMIC_LIST = { type: 'array', 'x-kubernetes-list-type': 'atomic' } as const;

/** Items are identified by the field `key`. */
function listByKey(key: string) {
  return { type: 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [key] } as const;
}

/**
 * Limits for policies in a cluster: rules per direction, peers per rule, flows of a Guardrail, and
 * so on. The API server estimates the cost of a CEL rule for the largest lists that the schema
 * allows.
 */
export const MOST = {
  rules: 500,
  peers: 500,
  ports: 100,
  appliedTo: 100,
  blocks: 2500,
  except: 32,
  children: 1000,
  labels: 100,
  values: 1000,
  required: 50,
} as const;

/** A rule that counts those of the fields that are there. */
export const presentCount = (fields: readonly string[]): string =>
  fields.map((field) => `(has(self.${field}) ? 1 : 0)`).join(' + ');

/** A field that always has an error. */
export const alwaysRefused = (message: string): CrdChecks => ({ cel: [{ rule: 'false', message }] });
export const NOT_FOR_NODES = alwaysRefused('is not supported for Nodes');

export const CIDR: CelRule = {
  rule: 'isCIDR(self)',
  message: 'is not a valid CIDR; for example 10.0.0.0/8 or 2001:db8::/32',
};
/** A check of a CIDR with exceptions. */
export const EXCEPT: CelRule = {
  rule: '!has(self.except) || !isCIDR(self.cidr) || self.except.all(hole, isCIDR(hole) && cidr(self.cidr).containsCIDR(hole) && cidr(self.cidr).prefixLength() < cidr(hole).prefixLength())',
  message: 'an exception must be a CIDR, part of the cidr and not the whole of it',
};
const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
export const SUBDOMAIN = `${LABEL}(\\.${LABEL})*`;
export const OBJECT_NAME: CrdChecks = { maxLength: 253, pattern: `^${SUBDOMAIN}$` };
export const NAMESPACE_NAME: CrdChecks = { maxLength: 63, pattern: `^${LABEL}$` };

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

/** Conditions by which tools judge objects of any kind (controller/status/conditions.ts). */
export const READINESS = {
  Ready: 'it is in force as it is written',
  Reconciling: 'controller and nodes work on that; there only while it is True',
  Stalled: 'that needs a change of something; there only while it is True',
} as const;
export type ReadinessCondition = keyof typeof READINESS;

/** Part of the status of a policy or Guardrail: see apis/last-definition.ts. */
export const LAST_DEFINITIONS_SCHEMA: JsonSchema = {
  ...GRANULAR_OBJECT,
  description:
    'Deleted Tiers and ClusterGroups that it is in force with, as they were defined last, as JSON: a controller that starts enforces them.',
  additionalProperties: { type: 'string' },
};
