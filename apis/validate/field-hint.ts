import { POD_TARGETS } from './applied-to.ts';
import type { FieldPath } from './problem.ts';

/**
 * The message for an unknown field that users plausibly write at this path; null: no special
 * message.
 */
export function fieldHint(path: FieldPath): string | null {
  const field = String(path.at(-1));
  const around = String(path.at(-2));
  const list = String(path.at(-3));
  if (list === 'appliedTo') return appliedToHint(field);
  if (list === 'ingress') {
    if (field === 'to') return 'is a field of egress rules; an ingress rule has "from"';
    if (field === 'toServices') return 'is only allowed in egress rules';
  }
  if (list === 'egress' && field === 'from') return 'is a field of ingress rules; an egress rule has "to"';
  if (field === '<<') return 'merge keys can only add fields that are known here';
  if (field === 'spec' && around === 'spec') return 'unknown field; does "spec" appear twice?';
  return null;
}

function appliedToHint(field: string): string | null {
  if (field === 'externalEntitySelector') return 'is not supported for Nodes';
  if (field === 'nodeName' || field === 'nodes')
    return 'unknown field; Nodes are selected by label, with nodeSelector';
  if (!(POD_TARGETS as readonly string[]).includes(field)) return null;
  return 'is not allowed here: nodewall applies policies to Nodes only; use nodeSelector';
}
