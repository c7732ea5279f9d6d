import type { LabelSelector, Labels } from '../../apis/objects.ts';
import { canonicalRequirements, formatSelector, holds } from './selector.ts';

/** Answers label selectors over a fixed list of items. */
export interface LabelIndex<T> {
  /** The items a selector selects, in the order given. Equal selectors share one answer. */
  select(selector: LabelSelector): readonly T[];
}

/**
 * An index from label key and value to items: a selector with an equality costs the items of its rarest label
 * value, not all items. Built on first use, in one pass over all labels.
 */
export function labelIndex<T extends { readonly labels: Labels }>(items: readonly T[]): LabelIndex<T> {
  const answers = new Map<string, readonly T[]>();
  let byLabel: Map<string, T[]> | null = null;

  function candidates(key: string, values: readonly string[]): readonly T[] {
    byLabel ??= indexLabels(items);
    if (values.length === 1) return byLabel.get(labelKey(key, values[0] ?? '')) ?? [];
    const listed = values.map((value) => byLabel?.get(labelKey(key, value)) ?? []);
    const wanted = new Set(listed.flat());
    return items.filter((item) => wanted.has(item));
  }

  function evaluate(selector: LabelSelector): readonly T[] {
    const requirements = canonicalRequirements(selector);
    let found: readonly T[] | null = null;
    for (const { key, operator, values } of requirements) {
      if (operator !== 'In') continue;
      const some = candidates(key, values ?? []);
      if (found === null || some.length < found.length) found = some;
    }
    return (found ?? items).filter((item) => requirements.every((one) => holds(one, item.labels)));
  }

  return {
    select(selector) {
      const key = formatSelector(selector);
      let answer = answers.get(key);
      if (answer === undefined) {
        answer = evaluate(selector);
        answers.set(key, answer);
      }
      return answer;
    },
  };
}

/** A label key never holds '=', so the pair is told apart. */
function labelKey(key: string, value: string): string {
  return `${key}=${value}`;
}

function indexLabels<T extends { readonly labels: Labels }>(items: readonly T[]): Map<string, T[]> {
  const byLabel = new Map<string, T[]>();
  for (const item of items) {
    for (const [key, value] of Object.entries(item.labels)) {
      const label = labelKey(key, value);
      const listed = byLabel.get(label);
      if (listed === undefined) byLabel.set(label, [item]);
      else listed.push(item);
    }
  }
  return byLabel;
}
