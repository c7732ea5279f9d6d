import { present } from '../../lib/sharing/present.ts';
import type { LabelSelector } from '../objects.ts';
import { asFields, asList } from '../schema/json-schema.ts';
import { checkLabelKey, checkLabelValue } from './names.ts';
import type { FieldPath, Findings } from './problem.ts';

/**
 * Checks of a LabelSelector that the schema cannot express. Values of the wrong type are reported
 * by the schema.
 */
export function checkSelector(raw: unknown, path: FieldPath, found: Findings): void {
  const selector = asFields(raw);
  for (const [key, value] of Object.entries(asFields(selector?.matchLabels) ?? {})) {
    const at = [...path, 'matchLabels', key];
    checkLabelKey(key, at, found);
    if (typeof value === 'string') checkLabelValue(value, at, found);
  }
  for (const [index, item] of asList(selector?.matchExpressions).entries()) {
    checkRequirement(item, [...path, 'matchExpressions', index], found);
  }
}

function checkRequirement(raw: unknown, path: FieldPath, found: Findings): void {
  const { key, operator, values } = asFields(raw) ?? {};
  if (typeof key === 'string') checkLabelKey(key, [...path, 'key'], found);
  for (const [index, value] of asList(values).entries()) {
    if (typeof value === 'string') checkLabelValue(value, [...path, 'values', index], found);
  }
  const count = asList(values).length;
  if ((operator === 'In' || operator === 'NotIn') && count === 0) {
    if (values === undefined || Array.isArray(values)) {
      found.error([...path, 'values'], `is empty; ${operator} needs at least one value`);
    }
  } else if ((operator === 'Exists' || operator === 'DoesNotExist') && count > 0) {
    found.error([...path, 'values'], `must be left out: ${operator} takes no values`);
  }
}

/** Converts a selector that passed the checks; other fields are left out. */
export function toSelector(selector: LabelSelector): LabelSelector {
  const { matchLabels, matchExpressions } = selector;
  return {
    ...present({ matchLabels }),
    ...(matchExpressions === undefined || matchExpressions.length === 0 ? {} : { matchExpressions }),
  };
}

/** Whether a selector has no condition. */
export function selectsAll(selector: unknown): boolean {
  const fields = asFields(selector);
  if (fields === null) return false;
  const { matchLabels, matchExpressions, ...others } = fields;
  const labels = Object.keys(asFields(matchLabels) ?? {});
  return labels.length + asList(matchExpressions).length + Object.keys(others).length === 0;
}
