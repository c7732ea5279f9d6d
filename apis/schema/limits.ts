import { asFields, type CrdSchema, type FieldPath } from './json-schema.ts';

/** A list or map that has more entries than its schema allows. */
export interface OverLimit {
  readonly path: FieldPath;
  readonly count: number;
  readonly most: number;
}

/**
 * The first list or map of the value with more entries than `maxItems` or `maxProperties`; null if
 * there is none. A length is compared before anything inside is read, so that a refusal costs the
 * same however long the list is. Values of a wrong type count as empty: checkSchema reports them.
 */
export function overLimit(schema: CrdSchema, value: unknown): OverLimit | null {
  if (Array.isArray(value)) {
    const { items, maxItems: most = Number.POSITIVE_INFINITY } = schema;
    if (value.length > most) return { path: [], count: value.length, most };
    return items === undefined ? null : first(value.entries(), () => items);
  }
  const fields = asFields(value);
  if (fields === null) return null;
  const { properties = {}, additionalProperties, maxProperties: most = Number.POSITIVE_INFINITY } = schema;
  if (most < Number.POSITIVE_INFINITY) {
    const count = Object.keys(fields).length;
    if (count > most) return { path: [], count, most };
  }
  return first(Object.entries(fields), (name) =>
    Object.hasOwn(properties, name) ? properties[name] : additionalProperties,
  );
}

/** Looks into the entries that have a schema; only a find costs a path. */
function first<K extends string | number>(
  entries: Iterable<[K, unknown]>,
  schemaOf: (key: K) => CrdSchema | undefined,
): OverLimit | null {
  for (const [key, value] of entries) {
    const schema = schemaOf(key);
    const found = schema === undefined ? null : overLimit(schema, value);
    if (found !== null) return { ...found, path: [key, ...found.path] };
  }
  return null;
}
