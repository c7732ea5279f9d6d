import { ATOMIC_OBJECT, MOST, SUBDOMAIN } from './schema/crd-parts.ts';
import { choiceField, listField, objectField, textField } from './schema/fields.ts';
import type { CrdChecks, JsonSchema } from './schema/json-schema.ts';

export type Labels = Readonly<Record<string, string>>;

/** meta/v1 LabelSelector; every requirement must hold, an empty selector selects everything. */
export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly LabelSelectorRequirement[];
}

export interface LabelSelectorRequirement {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  readonly values?: readonly string[];
}

const LABEL_NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const VALUE: CrdChecks = { maxLength: 63, pattern: `^(${LABEL_NAME})?$` };

// Without escapes, which CEL would read as its own.
const KEY = `^(${SUBDOMAIN.replaceAll('\\.', '[.]')}/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$`;
const isLabelKey = (key: string): string => `size(${key}) <= 317 && ${key}.matches('${KEY}')`;
const BAD_KEY = 'a label key is a name of at most 63 characters, with or without a DNS name and / before it';

/**
 * Labels. Keys (an optional DNS prefix and `/`, then a name) are checked in apis/validate, which
 * has the whole key.
 */
const labels: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Labels that must exist with exactly these values.',
  additionalProperties: { type: 'string', crd: VALUE },
  crd: {
    maxProperties: MOST.labels,
    admission: [{ rule: `self.all(key, ${isLabelKey('key')})`, message: BAD_KEY }],
  },
};

const requirement: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'One condition on one label.',
  required: ['key', 'operator'],
  properties: {
    key: textField('The label.', {
      crd: {
        maxLength: 317,
        pattern: `^(${SUBDOMAIN}/)?${LABEL_NAME}$`,
        admission: [{ rule: isLabelKey('self'), message: BAD_KEY }],
      },
    }),
    operator: choiceField('In and NotIn compare with values; Exists and DoesNotExist take none.', [
      'In',
      'NotIn',
      'Exists',
      'DoesNotExist',
    ]),
    values: listField(
      'For In and NotIn; at least one.',
      { type: 'string', crd: VALUE },
      { maxItems: MOST.values },
    ),
  },
  crd: {
    anyOf: [
      {
        required: ['values'],
        properties: { operator: { enum: ['In', 'NotIn'] }, values: { minItems: 1 } },
      },
      { properties: { operator: { enum: ['Exists', 'DoesNotExist'] }, values: { maxItems: 0 } } },
    ],
  },
};

/** meta/v1 LabelSelector. */
export function labelSelector(description: string): JsonSchema {
  return objectField(`${description} All conditions must hold; {} selects everything.`, [], {
    matchLabels: labels,
    matchExpressions: listField('Further conditions.', requirement, { maxItems: MOST.labels }),
  });
}
