import { API_VERSIONS, type ClusterGroup, type Tier } from './objects.ts';
import { asFields } from './schema/json-schema.ts';
import { identityOf } from './validate/metadata.ts';
import { type ValidateOptions, validateObject } from './validate/object.ts';

/** An object that policies and Guardrails use, and go on using as it was defined last. */
export type Definition = Tier | ClusterGroup;

/** An entry of `status.lastDefinitions`, as it is in the status. */
export interface StoredText {
  readonly key: string;
  readonly text: string;
}

/**
 * A Tier or ClusterGroup in the status of a policy or Guardrail that uses it, and that has no other
 * version of it in force: it was deleted, or waits for a child that was.
 */
export interface LastDefinition extends StoredText {
  /** The generation of the policy or Guardrail that was in force with it. */
  readonly generation: number;
  /** ISO 8601, UTC: of several definitions of an object, the newest counts. */
  readonly recorded: string;
  readonly object: Definition;
}

/** Characters of all texts in one status: an API object may have 1.5 MB in all. */
export const LONGEST_DEFINITIONS = 128 * 1024;

/**
 * @param deletion the uid of the object that was deleted, which no other object will ever have: its
 *   own, or a child's; '': the deletion was not admitted by a controller
 */
export function definitionKey(object: Definition, deletion: string): string {
  const key = `${object.kind}.${object.apiGroup}/${object.name}`;
  return deletion === '' ? key : `${key}/${deletion}`;
}

/** The uid in a key; '': it has none. */
export function deletedUid(key: string): string {
  return key.split('/')[2] ?? '';
}

export function toDefinitionText(object: Definition, generation: number, recorded: Date): string {
  const { kind, apiGroup, name } = object;
  const spec = object.kind === 'Tier' ? { priority: object.priority } : object.spec;
  const apiVersion = `${apiGroup}/${API_VERSIONS[apiGroup]}`;
  return JSON.stringify({
    generation,
    recorded: recorded.toISOString(),
    apiVersion,
    kind,
    metadata: { name },
    spec,
  });
}

/** Null if it is not valid any more; only controllers write it. */
export function readDefinition(key: string, text: unknown, options: ValidateOptions): LastDefinition | null {
  if (typeof text !== 'string') return null;
  try {
    const { generation, recorded, ...raw } = asFields(JSON.parse(text)) ?? {};
    const { object } = validateObject(raw, options);
    if (object?.kind !== 'Tier' && object?.kind !== 'ClusterGroup') return null;
    return { key, text, generation: Number(generation) || 0, recorded: String(recorded), object };
  } catch {
    return null;
  }
}

/** Whether both define the same object alike. */
export function isSameDefinition(a: Definition, b: Definition): boolean {
  return identityOf(a) === identityOf(b) && toDefinitionText(a, 0, EPOCH) === toDefinitionText(b, 0, EPOCH);
}

const EPOCH = new Date(0);
