/**
 * The part of JSON Schema that a structural schema of a CustomResourceDefinition may use. An object
 * with `properties` may have these fields only, as with `kubectl --validate=strict`.
 */
export interface JsonSchema {
  /** Absent with x-kubernetes-int-or-string, and where any value is allowed. */
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean';
  readonly 'x-kubernetes-int-or-string'?: true;
  readonly description?: string;
  readonly default?: string | number | boolean;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  /** Schema of the values of a map with arbitrary keys. */
  readonly additionalProperties?: JsonSchema;
  readonly items?: JsonSchema;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly 'x-kubernetes-preserve-unknown-fields'?: true;
  readonly 'x-kubernetes-map-type'?: 'atomic' | 'granular';
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'map';
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  /** Further checks of the API server: they are in the CustomResourceDefinition alone. */
  readonly crd?: CrdChecks;
}

/** One `x-kubernetes-validations` rule in CEL; `self` is the value that has the schema. */
export interface CelRule {
  readonly rule: string;
  readonly message: string;
}

/** Keywords that replace or follow those of the schema, and rules. */
export interface CrdChecks extends Partial<CrdSchema> {
  readonly cel?: readonly CelRule[];
  /**
   * Rules that the API server would not take in a CustomResourceDefinition, since it estimates
   * their cost for the largest lists: for ValidatingAdmissionPolicies (admission-policies.ts).
   */
  readonly admission?: readonly CelRule[];
}

/** A schema as a CustomResourceDefinition has it. */
export interface CrdSchema extends Omit<JsonSchema, 'properties' | 'additionalProperties' | 'items' | 'crd'> {
  readonly properties?: Readonly<Record<string, CrdSchema>>;
  readonly additionalProperties?: CrdSchema;
  readonly items?: CrdSchema;
  readonly nullable?: true;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly anyOf?: readonly CrdSchema[];
  readonly 'x-kubernetes-validations'?: readonly CelRule[];
}

/** Field names and list indexes from the root to a value. */
export type FieldPath = readonly (string | number)[];

/** One violation of the schema by a value. */
export interface SchemaProblem {
  readonly keyword: 'type' | 'enum' | 'range' | 'maxLength' | 'pattern' | 'required' | 'unknown';
  /** Path of the value; for `required` and `unknown`, of the missing or unknown field itself. */
  readonly path: FieldPath;
  /** The schema at the path; for `unknown`, that of the object around it. */
  readonly schema: JsonSchema;
  readonly value: unknown;
}

export type FieldMap = Readonly<Record<string, unknown>>;

/** The value as an object with fields; null if it is not one. */
export function asFields(value: unknown): FieldMap | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as FieldMap) : null;
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/**
 * Returns the first 1,000 violations that count, in the order of the value's fields. Recursion is
 * as deep as the schema, never as deep as the value. Ajv finds the same violations (a test compares
 * both on these schemas), but takes 20 to 50 ms to import, up to half the run time of `explain`,
 * and does not suggest near misses.
 */
export function checkSchema(
  schema: JsonSchema,
  value: unknown,
  counts: (problem: SchemaProblem) => boolean = () => true,
): readonly SchemaProblem[] {
  const problems: SchemaProblem[] = [];
  checkValue(schema, value, { path: [], problems, counts });
  return problems;
}

/**
 * `path` is the path of the value being checked. It is copied only when there is a problem: nearly
 * all policies conform.
 */
interface Check {
  readonly path: (string | number)[];
  readonly problems: SchemaProblem[];
  readonly counts: (problem: SchemaProblem) => boolean;
}

/** More are never shown; a value with a million unknown fields must not cost a million paths. */
const MOST_PROBLEMS = 1000;

function report(
  { path, problems, counts }: Check,
  keyword: SchemaProblem['keyword'],
  schema: JsonSchema,
  value: unknown,
): void {
  if (problems.length >= MOST_PROBLEMS || !counts({ keyword, path, schema, value })) return;
  problems.push({ keyword, path: path.slice(), schema, value });
}

function checkValue(schema: JsonSchema, value: unknown, check: Check): void {
  if (!hasType(schema, value)) {
    report(check, 'type', schema, value);
    return;
  }
  if (typeof value === 'string') checkString(schema, value, check);
  else if (typeof value === 'number') {
    const { minimum, maximum } = schema;
    const isOutside =
      (minimum !== undefined && value < minimum) || (maximum !== undefined && value > maximum);
    if (isOutside) report(check, 'range', schema, value);
  } else if (Array.isArray(value)) {
    if (schema.items === undefined) return;
    for (const [index, item] of value.entries()) {
      check.path.push(index);
      checkValue(schema.items, item, check);
      check.path.pop();
    }
  } else if (typeof value === 'object' && value !== null) {
    checkFields(schema, value as FieldMap, check);
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

function checkString(schema: JsonSchema, value: string, check: Check): void {
  const { enum: words, maxLength, pattern } = schema;
  if (words !== undefined && !words.includes(value)) report(check, 'enum', schema, value);
  // maxLength counts code points, of which there are never more than UTF-16 code units.
  if (maxLength !== undefined && value.length > maxLength && [...value].length > maxLength) {
    report(check, 'maxLength', schema, value);
  } else if (pattern !== undefined && !new RegExp(pattern, 'u').test(value))
    report(check, 'pattern', schema, value);
}

function checkFields(schema: JsonSchema, value: FieldMap, check: Check): void {
  const { required = [], properties, additionalProperties } = schema;
  for (const name of required) {
    if (Object.hasOwn(value, name)) continue;
    check.path.push(name);
    report(check, 'required', properties?.[name] ?? schema, undefined);
    check.path.pop();
  }
  if (properties === undefined && additionalProperties === undefined) return;
  for (const name of Object.keys(value)) {
    const isKnown = properties !== undefined && Object.hasOwn(properties, name);
    const next = isKnown ? properties[name] : additionalProperties;
    check.path.push(name);
    if (next !== undefined) checkValue(next, value[name], check);
    else if (schema['x-kubernetes-preserve-unknown-fields'] !== true) {
      report(check, 'unknown', schema, value[name]);
    }
    check.path.pop();
  }
}

/** A list or map that has more entries than its schema allows. */
interface OverLimit {
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
