import { asFields, type FieldMap } from '../../schema/json-schema.ts';

/** Fields of a spec are no deeper than this, labels apart. */
const DEEPEST = 4;

/**
 * A copy without fields that are '' or null: the program of egressgateway.spidernet.io takes both
 * as absent. Labels keep them, since '' is a value of a label.
 */
export function presentFields(raw: FieldMap, depth = 0): FieldMap {
  if (depth === DEEPEST) return raw;
  const entries = Object.entries(raw).filter(([, value]) => value !== '' && value !== null);
  return Object.fromEntries(
    entries.map(([field, value]) => {
      const fields = field === 'matchLabels' ? null : asFields(value);
      return [field, fields === null ? value : presentFields(fields, depth + 1)];
    }),
  );
}

/** The items that are not '', with their places. */
export function presentItems(list: readonly unknown[]): (readonly [index: number, text: string])[] {
  return [...list.entries()].flatMap(([index, item]) =>
    typeof item === 'string' && item !== '' ? [[index, item] as const] : [],
  );
}
