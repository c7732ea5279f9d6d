import type { LabelSelector, LabelSelectorRequirement, Labels } from '../../apis/objects.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { canonicalRequirements, holds, type Requirements } from '../index/selector.ts';

/** The most requirements of a selector that a person would read as one thing. */
const MOST_REQUIREMENTS = 4;

/** Which labels say what something is. */
export interface LabelTaste {
  /** Null: the label says nothing of that kind; else the lower the better. */
  readonly placeOf: (key: string) => number | null;
  /** Whether a selector needs a label that is there, not only labels that are not. */
  readonly needsLabel: boolean;
}

/**
 * A selector of few labels that selects all of `own` and none of `others`; null: none was found.
 * Adds what excludes most, the better label first. Costs a pass over `others` for each label.
 */
export function fewLabels(
  own: readonly Labels[],
  others: readonly Labels[],
  { placeOf, needsLabel }: LabelTaste,
): LabelSelector | null {
  const [first = {}] = own;
  const shared = Object.entries(first).map(
    ([key, value]): LabelSelectorRequirement => ({ key, operator: 'In', values: [value] }),
  );
  const absent = [...new Set(others.flatMap((labels) => Object.keys(labels)))].map(
    (key): LabelSelectorRequirement => ({ key, operator: 'DoesNotExist' }),
  );
  const candidates = [...shared, ...absent]
    .filter((one) => placeOf(one.key) !== null && own.every((labels) => holds(one, labels)))
    .sort((a, b) => (placeOf(a.key) ?? 0) - (placeOf(b.key) ?? 0) || compareText(textOf(a), textOf(b)));
  const chosen: LabelSelectorRequirement[] = [];
  let left = others;
  while (left.length > 0 || (needsLabel && chosen.length === 0)) {
    const isFirst = needsLabel && chosen.length === 0;
    let best: { readonly one: LabelSelectorRequirement; readonly still: readonly Labels[] } | null = null;
    for (const one of candidates) {
      if (isFirst && one.operator !== 'In') continue;
      const still = left.filter((labels) => holds(one, labels));
      const isBetter = still.length < (best?.still ?? left).length;
      if (isBetter || (isFirst && best === null)) best = { one, still };
    }
    if (best === null || chosen.length === MOST_REQUIREMENTS) return null;
    chosen.push(best.one);
    left = best.still;
  }
  return selectorOfRequirements(chosen);
}

/** Labels that are there before those that are not. */
function textOf({ key, operator }: LabelSelectorRequirement): string {
  return `${operator === 'In' ? 0 : 1} ${key}`;
}

/** `matchLabels` where it can say it. */
export function selectorOfRequirements(requirements: Requirements): LabelSelector {
  const isLabel = ({ operator, values = [] }: LabelSelectorRequirement): boolean =>
    operator === 'In' && values.length === 1;
  const all = canonicalRequirements({ matchExpressions: requirements });
  const labels = all.filter(isLabel).map(({ key, values: [value = ''] = [] }) => [key, value]);
  const expressions = all.filter((one) => !isLabel(one));
  return {
    ...(labels.length === 0 ? {} : { matchLabels: Object.fromEntries(labels) }),
    ...(expressions.length === 0 ? {} : { matchExpressions: expressions }),
  };
}
