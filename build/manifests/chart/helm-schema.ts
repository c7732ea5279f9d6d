import type { JsonSchema } from '../../../apis/schema/json-schema.ts';

/** JSON Schema (draft 7) as far as values.schema.json uses it. */
export interface HelmSchema {
  readonly $schema?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, HelmSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | HelmSchema;
  readonly items?: HelmSchema;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
}

/** The words of JSON Schema that mean the same here and there. */
const WORDS = [
  'type',
  'description',
  'required',
  'enum',
  'minimum',
  'maximum',
  'maxLength',
  'pattern',
] as const;

/** A schema of apis/ for Helm: an object with properties has no others. */
export function helmSchema(schema: JsonSchema): HelmSchema {
  const { properties, additionalProperties, items } = schema;
  return {
    ...Object.fromEntries(
      WORDS.flatMap((word) => (schema[word] === undefined ? [] : [[word, schema[word]]])),
    ),
    ...(properties !== undefined && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, field]) => [name, helmSchema(field)]),
      ),
      additionalProperties: false,
    }),
    ...(additionalProperties !== undefined && { additionalProperties: helmSchema(additionalProperties) }),
    ...(items !== undefined && { items: helmSchema(items) }),
  };
}
