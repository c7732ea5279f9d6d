import { ATOMIC_LIST, ATOMIC_OBJECT } from './crd-parts.ts';
import type { CrdChecks, JsonSchema } from './json-schema.ts';

/**
 * Fields of our kinds and of the configuration. Objects and lists are atomic; those that are not
 * are written out where they are.
 */

type Properties = Readonly<Record<string, JsonSchema>>;

/** Text; `more` limits it. */
export const textField = (description: string, more: JsonSchema = {}): JsonSchema => ({
  type: 'string',
  description,
  ...more,
});

/** One of some words. */
export const choiceField = (description: string, words: readonly string[], byDefault?: string): JsonSchema =>
  textField(description, { enum: words, ...(byDefault === undefined ? {} : { default: byDefault }) });

/** True or false. */
export const flagField = (description: string, byDefault?: boolean): JsonSchema => ({
  type: 'boolean',
  description,
  ...(byDefault === undefined ? {} : { default: byDefault }),
});

/** A whole number from `minimum` to `maximum`. */
export const wholeField = (
  description: string,
  [minimum, maximum]: readonly [minimum: number, maximum: number],
  byDefault?: number,
): JsonSchema => ({
  type: 'integer',
  description,
  minimum,
  maximum,
  ...(byDefault === undefined ? {} : { default: byDefault }),
});

/**
 * An object with these fields alone.
 *
 * @param required names of the properties that must be there
 */
export const objectField = (
  description: string,
  required: readonly string[],
  properties: Properties,
): JsonSchema => ({
  ...ATOMIC_OBJECT,
  description,
  ...(required.length === 0 ? {} : { required }),
  properties,
});

/** @param crd checks of the list in the CustomResourceDefinition */
export const listField = (description: string, items: JsonSchema, crd?: CrdChecks): JsonSchema => ({
  ...ATOMIC_LIST,
  description,
  items,
  ...(crd === undefined ? {} : { crd }),
});

/** A list of texts. */
export const textsField = (description: string, crd?: CrdChecks): JsonSchema =>
  listField(description, { type: 'string' }, crd);

/**
 * A list of objects.
 *
 * @param most items in the CustomResourceDefinition; null: any number
 */
export const objectsField = (
  description: string,
  most: number | null,
  required: readonly string[],
  properties: Properties,
): JsonSchema => {
  const items = { ...ATOMIC_OBJECT, required, properties };
  return listField(description, items, most === null ? undefined : { maxItems: most });
};
