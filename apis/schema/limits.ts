import type { CrdSchema } from './crd-checks.ts';
import { asFields, type FieldPath } from './json-schema.ts';

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
export function overLimit(schema: CrdSchema, value: unknown, path: FieldPath = []): OverLimit | null {
  if (Array.isArray(value)) {
    const { items, maxItems: most = Number.POSITIVE_INFINITY } = schema;
    if (value.length > most) return { path, count: value.length, most };
    return items === undefined
      ? null
      : first(value.entries(), ([index, item]) => overLimit(items, item, [...path, index]));
  }
  const fields = asFields(value);
  if (fields === null) return null;
  const { properties, additionalProperties, maxProperties: most = Number.POSITIVE_INFINITY } = schema;
  if (most < Number.POSITIVE_INFINITY) {
    const count = Object.keys(fields).length;
    if (count > most) return { path, count, most };
  }
  if (additionalProperties !== undefined) {
    return first(Object.entries(fields), ([name, field]) =>
      overLimit(additionalProperties, field, [...path, name]),
    );
  }
  return first(Object.entries(properties ?? {}), ([name, field]) =>
    Object.hasOwn(fields, name) ? overLimit(field, fields[name], [...path, name]) : null,
  );
}

function first<T>(values: Iterable<T>, find: (value: T) => OverLimit | null): OverLimit | null {
  for (const value of values) {
    const found = find(value);
    if (found !== null) return found;
  }
  return null;
}
