/**
 * The part of JSON Schema that a structural schema of a CustomResourceDefinition may use, and no more.
 * An object with `properties` has these fields only (what `kubectl --validate=strict` does).
 */
export interface JsonSchema {
  /** Absent beside x-kubernetes-int-or-string, and where anything may stand. */
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean';
  readonly 'x-kubernetes-int-or-string'?: true;
  readonly description?: string;
  readonly default?: string | number | boolean;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  /** The values of a map with free keys. */
  readonly additionalProperties?: JsonSchema;
  readonly items?: JsonSchema;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly 'x-kubernetes-preserve-unknown-fields'?: true;
}

export type FieldPath = readonly (string | number)[];

/** One disagreement between a value and the schema. */
export interface SchemaProblem {
  readonly keyword: 'type' | 'enum' | 'range' | 'maxLength' | 'pattern' | 'required' | 'unknown';
  /** Of the value; of the missing or unknown field itself for `required` and `unknown`. */
  readonly path: FieldPath;
  /** The schema at the path; of the object around it for `unknown`. */
  readonly schema: JsonSchema;
  readonly value: unknown;
}

export type FieldMap = Readonly<Record<string, unknown>>;

/** Null where the value is no object with fields. */
export function asFields(value: unknown): FieldMap | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as FieldMap) : null;
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/**
 * Every disagreement, in the order of the value's fields. Recursion is as deep as the schema, never as the value.
 * Ajv says the same (a test holds it against these schemas), but takes 20 to 50 ms to import, up to half of a whole
 * `explain`, and knows nothing of near misses.
 */
export function* checkSchema(
  schema: JsonSchema,
  value: unknown,
  path: FieldPath = [],
): Generator<SchemaProblem> {
  if (!hasType(schema, value)) {
    yield { keyword: 'type', path, schema, value };
    return;
  }
  if (typeof value === 'string') yield* checkString(schema, value, path);
  else if (typeof value === 'number') {
    const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = schema;
    if (value < minimum || value > maximum) yield { keyword: 'range', path, schema, value };
  } else if (Array.isArray(value)) {
    if (schema.items === undefined) return;
    for (const [index, item] of value.entries()) yield* checkSchema(schema.items, item, [...path, index]);
  } else if (typeof value === 'object' && value !== null) {
    yield* checkFields(schema, value as FieldMap, path);
  }
}

function hasType(schema: JsonSchema, value: unknown): boolean {
  const { type } = schema;
  switch (type) {
    case 'array':
      return Array.isArray(value);
    case 'object':
      return asFields(value) !== null;
    case undefined:
      if (schema['x-kubernetes-int-or-string'] !== true) return true;
      return Number.isInteger(value) || typeof value === 'string';
    case 'integer':
      return Number.isInteger(value);
    case 'number':
      return Number.isFinite(value);
    case 'string':
    case 'boolean':
      return typeof value === type;
    default:
      return type satisfies never;
  }
}

function* checkString(schema: JsonSchema, value: string, path: FieldPath): Generator<SchemaProblem> {
  if (schema.enum !== undefined && !schema.enum.includes(value))
    yield { keyword: 'enum', path, schema, value };
  if (schema.maxLength !== undefined && [...value].length > schema.maxLength) {
    yield { keyword: 'maxLength', path, schema, value };
  } else if (schema.pattern !== undefined && !new RegExp(schema.pattern, 'u').test(value)) {
    yield { keyword: 'pattern', path, schema, value };
  }
}

function* checkFields(schema: JsonSchema, value: FieldMap, path: FieldPath): Generator<SchemaProblem> {
  for (const name of schema.required ?? []) {
    const missing = schema.properties?.[name] ?? schema;
    if (!Object.hasOwn(value, name)) {
      yield { keyword: 'required', path: [...path, name], schema: missing, value: undefined };
    }
  }
  if (schema.properties === undefined && schema.additionalProperties === undefined) return;
  for (const [name, field] of Object.entries(value)) {
    const known = schema.properties !== undefined && Object.hasOwn(schema.properties, name);
    const next = known ? schema.properties?.[name] : schema.additionalProperties;
    if (next !== undefined) yield* checkSchema(next, field, [...path, name]);
    else if (schema['x-kubernetes-preserve-unknown-fields'] !== true) {
      yield { keyword: 'unknown', path: [...path, name], schema, value: field };
    }
  }
}
