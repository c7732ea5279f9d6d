import type { LabelSelector, LabelSelectorRequirement, Labels } from '../../apis/objects.ts';

/**
 * Label selectors as Kubernetes defines them (meta/v1 LabelSelector): all requirements must hold;
 * NotIn and DoesNotExist also hold if the label is absent.
 */

/** All of them must hold; an empty list holds for everything. */
export type Requirements = readonly LabelSelectorRequirement[];

/**
 * matchLabels converted to requirements, sorted, values sorted and unique: equal selectors have
 * equal forms.
 */
export function canonicalRequirements(selector: LabelSelector): LabelSelectorRequirement[] {
  const requirements: LabelSelectorRequirement[] = Object.entries(selector.matchLabels ?? {}).map(
    ([key, value]) => ({ key, operator: 'In', values: [value] }),
  );
  for (const { key, operator, values } of selector.matchExpressions ?? []) {
    const listed = operator === 'In' || operator === 'NotIn';
    requirements.push(listed ? { key, operator, values: [...new Set(values)].sort() } : { key, operator });
  }
  const unique = new Map(requirements.map((requirement) => [formatRequirement(requirement), requirement]));
  return [...unique.keys()].sort().flatMap((text) => unique.get(text) ?? []);
}

/** One line for display and hashing, in kubectl's selector syntax; `{}` selects everything. */
export function formatSelector(selector: LabelSelector): string {
  return formatRequirements(canonicalRequirements(selector));
}

/** The same for canonical requirements. */
export function formatRequirements(requirements: Requirements): string {
  return requirements.length === 0 ? '{}' : requirements.map(formatRequirement).join(',');
}

function formatRequirement({ key, operator, values = [] }: LabelSelectorRequirement): string {
  switch (operator) {
    case 'In':
      return values.length === 1 ? `${key}=${values[0]}` : `${key} in (${values.join(',')})`;
    case 'NotIn':
      return values.length === 1 ? `${key}!=${values[0]}` : `${key} notin (${values.join(',')})`;
    case 'Exists':
      return key;
    case 'DoesNotExist':
      return `!${key}`;
  }
}

export function holds({ key, operator, values = [] }: LabelSelectorRequirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
  }
}

export function allHold(requirements: Requirements, labels: Labels): boolean {
  for (const requirement of requirements) if (!holds(requirement, labels)) return false;
  return true;
}
