import type { LabelSelector, Labels } from './manifest.ts';
import { assertOnlyFields } from './manifest.ts';

/**
 * True when the labels satisfy every requirement of the selector; an empty selector selects
 * everything.
 */
export function selects(selector: LabelSelector, labels: Labels): boolean {
  assertOnlyFields(selector, ['matchLabels', 'matchExpressions'], 'selector');
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) {
    if (!Object.hasOwn(labels, key) || labels[key] !== value) return false;
  }
  for (const { key, operator, values } of selector.matchExpressions ?? []) {
    const has = Object.hasOwn(labels, key);
    const isListed = has && (values ?? []).includes(labels[key] ?? '');
    if (!satisfies(operator, has, isListed)) return false;
  }
  return true;
}

function satisfies(operator: string, has: boolean, isListed: boolean): boolean {
  switch (operator) {
    case 'In':
      return isListed;
    case 'NotIn':
      return !isListed; // Kubernetes: a missing key satisfies NotIn
    case 'Exists':
      return has;
    case 'DoesNotExist':
      return !has;
    default:
      throw new Error(`the oracle does not evaluate the operator ${operator}`);
  }
}
